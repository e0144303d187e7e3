"""PostgreSQL, read as Arrow by its ADBC driver.

The driver reads ``COPY … (FORMAT binary)``. libpq finds passwords, service files and certificates.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    TableColumn,
    TableFacts,
    guarded,
    table_name,
)

# Types that the driver reads. All others are read as the server's texts: enums, uuid, json,
# intervals; char(n) loses its padding, as everywhere in PostgreSQL.
_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_INFINITE = ("date", "timestamp", "timestamptz")
# The last time in microseconds from 1970. The driver turns later ones into times before it.
_STAMPS, _LAST = ("timestamp", "timestamptz"), "294247-01-10 04:00:54.775807"
# Digits of a numeric that every int64 holds.
_INT64_DIGITS = 18
# A numeric may have any digits; the plan says that they are rounded.
_ANY_DECIMAL = pa.decimal128(38, 19)


def column_of(name: str, quoted: str, kind: str, typmod: int, declared: str | None) -> TableColumn:
    """Returns how a column is read.

    Args:
      name: of the column.
      quoted: the same as SQL.
      kind: its type: ``int4``, ``_int4`` of an array.
      typmod: precision and scale of a numeric; -1: none.
      declared: the recipe's type, or ``None``.
    """
    column, item = f"q.{quoted}", kind.removeprefix("_")
    is_array = item != kind
    if declared == "text" and (is_array or item in _INFINITE):
        return TableColumn(name, kind, f"{column}::text", pa.string())
    wanted = declared and declared.removeprefix("list<").removesuffix(">")
    cast, stored, found = _scalar(item, typmod, wanted)
    if is_array:
        return _array(name, column, item, cast, stored, found)
    if not cast and kind in _INFINITE:
        guard, words = f"NOT isfinite({column})", "infinity"
        if kind in _STAMPS:
            guard, words = f"({guard} OR {column} > '{_LAST}')", f"{words}, or a time after {_LAST}"
        return TableColumn(name, kind, column, stored, None, guard, words)
    return TableColumn(name, kind, f"{column}{cast}", stored, found)


def _array(
    name: str, column: str, item: str, cast: str, stored: pa.DataType, found: pa.DataType | None
) -> TableColumn:
    guards = [f"array_ndims({column}) > 1", f"array_lower({column}, 1) NOT IN (0, 1)"]
    words = "an array of several dimensions, or one that does not begin at 1"
    if not cast and item in _INFINITE:
        guards += [f"{column} && ARRAY['infinity', '-infinity']::{item}[]"]
        words += ", or infinity"
    if not cast and item in _STAMPS:
        guards += [f"'{_LAST}' < ANY ({column})"]
        words += f", or a time after {_LAST}"
    value, guard = f"{column}{cast and f'{cast}[]'}", f"({' OR '.join(guards)})"
    made = guarded(name, f"_{item}", value, pa.list_(stored), guard, words)
    return made._replace(found=found and pa.list_(found))


def _scalar(
    kind: str, typmod: int, declared: str | None
) -> tuple[str, pa.DataType, pa.DataType | None]:
    """Returns a type's cast, and the Arrow types after and before it."""
    if kind == "numeric" and declared is None:
        # The scale has 11 bits with a sign; typmod is -1 for any precision.
        precision, scale = (typmod - 4) >> 16, (((typmod - 4) & 0x7FF) ^ 0x400) - 0x400
        if typmod > 4 and scale == 0 and precision <= _INT64_DIGITS:
            return "::int8", pa.int64(), None
        return "::float8", pa.float64(), _ANY_DECIMAL
    if kind == "oid":
        return "::int8", pa.int64(), None
    if kind in _PLAIN and not (kind in _INFINITE and declared == "text"):
        return "", _PLAIN[kind], None
    return "::text", pa.string(), None


_SETTINGS = (
    "SET client_encoding TO 'UTF8'",
    "SET timezone TO 'UTC'",
    "SET datestyle TO 'ISO'",
    "SET intervalstyle TO 'iso_8601'",
    "SET extra_float_digits TO 1",
)
# EXPLAIN and SET are no rows for COPY.
_NO_COPY = {"adbc.postgresql.use_copy": "false"}
_TABLES = """
SELECT CASE WHEN NOT pg_table_is_visible(c.oid) THEN n.nspname::text END AS schema,
  c.relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'
  AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1 NULLS FIRST, 2
"""


class Postgres(Database):
    """PostgreSQL 12 and later, and servers that speak its protocol."""

    name = "PostgreSQL"
    format = "postgresql"
    schemes = ("postgresql", "postgres")

    def connect(self, url: str) -> Session:
        """Opens a connection; see ``Database``."""
        return _PostgresSession(url)


class _PostgresSession(Session):
    def __init__(self, url: str) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError as error:
            raise DataError(
                "PostgreSQL: found no package adbc-driver-postgresql. Install it, on Python 3.11 "
                "or later: pip install './plugins[databases]' in a clone."
            ) from error
        # The driver's stream passes the server's errors on as Arrow's.
        self._errors = (dbapi.Error, pa.ArrowException, OSError)
        with self._explained():
            self._connection = dbapi.connect(url, autocommit=True)
        for setting in _SETTINGS:
            self._run(setting)

    def describe(self, request: RowRequest) -> TableFacts:
        """Returns columns and size; see ``Session``."""
        select = f"SELECT * FROM {Postgres().rows_of(request)}"
        with self._explained(), self._connection.cursor() as cursor:
            schema = cursor.adbc_execute_schema(select)
        columns = tuple(
            column_of(field.name, Postgres().quoted(field.name), *_type_of(field), declared)
            for field in schema
            for declared in [request.types.get(field.name)]
        )
        (found,) = self._run(f"EXPLAIN (FORMAT JSON) {select}") or ()
        plan = json.loads(found if isinstance(found, str) else json.dumps(found))[0]["Plan"]
        rows = max(1, int(plan["Plan Rows"]))
        return TableFacts(columns, rows, rows * max(1, int(plan["Plan Width"])))

    def tables(self) -> list[str]:
        """Returns the names of tables and views that the user may read."""
        return [table_name(*filter(None, names)) for names in self.rows(_TABLES)]

    def begin(self) -> str:
        """Begins at a snapshot; see ``Session``."""
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot,),) = self.rows("SELECT txid_current_snapshot()::text AS id")
        return str(snapshot)

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, in batches of about 16 MiB."""
        with self._explained():
            cursor, is_done = self._connection.cursor(), False
            try:
                cursor.execute(select)
                yield from cursor.fetch_record_batch()
                is_done = True
            finally:
                # It may be broken already. Else the driver would read all rows.
                with contextlib.suppress(*self._errors, RuntimeError):
                    if not is_done:
                        cursor.adbc_cancel()
                    cursor.close()

    def close(self) -> None:
        """Ends the connection."""
        # It may be broken already.
        with contextlib.suppress(*self._errors, RuntimeError):
            self._connection.close()

    def _run(self, statement: str) -> tuple[Any, ...] | None:
        """Returns the first row of a statement that COPY does not take."""
        with self._explained(), self._connection.cursor(adbc_stmt_kwargs=_NO_COPY) as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns the driver's errors into ``ServerError``, without its own prefixes."""
        try:
            yield
        except self._errors as error:
            text = str(error)
            found = re.search(r"ERROR:\s+(.*)", text, re.DOTALL)
            text = found[1] if found else re.sub(r"^[A-Z_]+: \[libpq\] ", "", text)
            raise ServerError(re.sub(r"\.?\s*SQLSTATE: (\w+)\s*$", r" (\1)", text)) from error


def _type_of(field: pa.Field) -> tuple[str, int]:
    """Returns a column's type, such as ``int4`` or ``_text``, and its modifier."""
    metadata = field.metadata or {}
    if b"POSTGRESQL:type" not in metadata:
        raise DataError(
            "PostgreSQL: found an adbc-driver-postgresql that does not tell the types of columns, "
            "expected 1.13 or later. Install it: pip install './plugins[databases]' in a clone."
        )
    kind, modifier = metadata[b"POSTGRESQL:type"], metadata.get(b"POSTGRESQL:typmod", b"-1")
    return kind.decode(), int(modifier)
