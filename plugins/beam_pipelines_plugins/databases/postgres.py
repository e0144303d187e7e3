"""PostgreSQL, read as Arrow by its ADBC driver.

The driver reads ``COPY … (FORMAT binary)``. libpq finds passwords, service files and certificates.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines_plugins.databases import database
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.extras import needed

# Types that the driver reads as they are. All others are read as the server's texts: enums, uuid,
# json, intervals; char(n) loses its padding, as everywhere in PostgreSQL.
_CALENDAR = ("date", "timestamp", "timestamptz")
_PLAIN = re.compile("bool|int[248]|float[48]|text|varchar|name|bytea|time|" + "|".join(_CALENDAR))


def column_of(field: pa.Field, quoted: str, declared: str | None) -> database.TableColumn:
    """Returns how a column is read.

    Args:
      field: of the driver, with its type in the metadata: ``int4``, ``_int4`` of an array.
      quoted: its name as SQL.
      declared: the recipe's type, or ``None``.
    """
    metadata = field.metadata or {}
    if b"POSTGRESQL:type" not in metadata:
        raise DataError(
            "PostgreSQL: found an adbc-driver-postgresql that does not tell the types of columns, "
            "expected 1.13 or later. Install it: pip install './plugins[databases]' in a clone."
        )
    kind, column = metadata[b"POSTGRESQL:type"].decode(), f"q.{quoted}"
    item = kind.removeprefix("_")
    if declared == "text" and item != kind:
        return database.TableColumn(field.name, kind, f"{column}::text", pa.string())
    wanted = declared and declared.removeprefix("list<").removesuffix(">")
    cast, stored, found = _cast_of(item, int(metadata.get(b"POSTGRESQL:typmod", -1)), wanted)
    if item == kind:
        value = f"{column}::{cast}" if cast else column
        return database.TableColumn(field.name, kind, value, stored or field.type, found)
    # The driver would put several dimensions into one.
    value = (
        f"CASE WHEN array_ndims({column}) > 1 THEN ({column}::text || ' has several dimensions; "
        f"types: text reads it')::{cast or item}[] ELSE {column}::{cast or item}[] END"
    )
    type_ = pa.list_(stored) if stored else field.type
    return database.TableColumn(field.name, kind, value, type_, found and pa.list_(found))


def _cast_of(
    kind: str, typmod: int, wanted: str | None
) -> tuple[str, pa.DataType | None, pa.DataType | None]:
    """Returns a type's cast, and the Arrow types after and before it."""
    if kind == "numeric" and wanted is None:
        # The scale has 11 bits with a sign; typmod is -1 for any precision.
        precision, scale = (typmod - 4) >> 16, (((typmod - 4) & 0x7FF) ^ 0x400) - 0x400
        stored, found = database.decimal_types(precision, scale)
        return "float8" if found else "int8", stored, found
    if kind == "oid":
        return "int8", pa.int64(), None
    if _PLAIN.fullmatch(kind) and not (kind in _CALENDAR and wanted == "text"):
        return "", None, None
    return "text", pa.string(), None


_SETTINGS = (
    "SET client_encoding TO 'UTF8'",
    "SET timezone TO 'UTC'",
    "SET datestyle TO 'ISO'",
    "SET intervalstyle TO 'iso_8601'",
    "SET extra_float_digits TO 1",
)
# EXPLAIN and SET are no rows for COPY.
_NO_COPY = {"adbc.postgresql.use_copy": "false"}


class Postgres(database.Database):
    """PostgreSQL 12 and later, and servers that speak its protocol."""

    name = "PostgreSQL"
    format = "postgresql"
    schemes = ("postgresql", "postgres")

    def __init__(self, url: str) -> None:
        with needed("PostgreSQL, on Python 3.11 or later", "databases"):
            from adbc_driver_postgresql import dbapi
        # The driver's stream passes the server's errors on as Arrow's.
        self.errors = (dbapi.Error, pa.ArrowException, OSError)
        with self.answers():
            self._connection = dbapi.connect(url, autocommit=True)
        for setting in _SETTINGS:
            self.rows(setting)

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> database.TableFacts:
        """Returns columns and size; see ``Database``."""
        select = f"SELECT * FROM {self.rows_of(request)}"
        with self.answers(), self._connection.cursor() as cursor:
            schema = cursor.adbc_execute_schema(select)
        columns = (
            column_of(field, self.quoted(field.name), types.get(field.name)) for field in schema
        )
        ((plan,),) = self.rows(f"EXPLAIN (FORMAT JSON) {select}")
        return database.TableFacts(tuple(columns), int(json.loads(plan)[0]["Plan"]["Plan Rows"]))

    def begin(self) -> str:
        """Begins at a snapshot; see ``Database``."""
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot,),) = self.rows("SELECT txid_current_snapshot()::text AS id")
        return str(snapshot)

    def read(
        self, request: DatabaseOptions, columns: Sequence[database.TableColumn], limit: int | None
    ) -> Iterator[Sequence[database.Values]]:
        """Yields the rows of a request, about 16 MiB each."""
        with self.answers():
            cursor, is_done = self._connection.cursor(), False
            try:
                cursor.execute(self.select_of(request, columns, limit))
                for batch in cursor.fetch_record_batch():
                    yield batch.columns
                is_done = True
            finally:
                # It may be broken already. Else the driver would read all rows.
                with contextlib.suppress(*self.errors, RuntimeError):
                    if not is_done:
                        cursor.adbc_cancel()
                    cursor.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement that COPY may not take."""
        with self.answers(), self._connection.cursor(adbc_stmt_kwargs=_NO_COPY) as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def words(self, error: Exception) -> str:
        """Returns the server's words, without the driver's prefixes."""
        text = str(error)
        found = re.search(r"ERROR:\s+(.*)", text, re.DOTALL)
        text = found[1] if found else re.sub(r"^[A-Z_]+: \[libpq\] ", "", text)
        return re.sub(r"\.?\s*SQLSTATE: (\w+)\s*$", r" (\1)", text)
