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
    Column,
    Database,
    Description,
    Request,
    ServerError,
    Session,
)
from beam_pipelines_plugins.databases.names import table_name
from beam_pipelines_plugins.databases.postgres_types import column_of

# Classes of SQLSTATE: connections, and a server that shuts down or has too many of them.
_TRANSIENT = ("08", "57P", "53300")
_INTEGERS = ("int2", "int4", "int8")
# Type of a partition's column -> SQL of a value between ``low`` and ``high``.
_CUTS = {
    **dict.fromkeys(_INTEGERS, "low + floor((high::numeric - low) * {share})::int8"),
    "date": "low + floor((high - low) * {share})::int4",
    **dict.fromkeys(
        ("timestamp", "timestamptz"),
        # A longer interval than 292,000 years would overflow.
        "low + (least(high, '200000-01-01') - low) * ({share})::float8",
    ),
}
_SETTINGS = (
    "SET client_encoding TO 'UTF8'",
    "SET timezone TO 'UTC'",
    "SET datestyle TO 'ISO'",
    "SET intervalstyle TO 'iso_8601'",
    "SET extra_float_digits TO 1",
    # The session that exports the snapshot is idle while others read.
    "SET idle_in_transaction_session_timeout TO 0",
)


class Postgres(Database):
    """PostgreSQL 12 and later, and servers that speak its protocol."""

    name = "PostgreSQL"
    format = "postgresql"
    schemes = ("postgresql", "postgres")
    sessions = 4
    cuts = tuple(_CUTS)

    def connect(self, url: str) -> Session:
        """Opens a connection; see ``Database``."""
        return _Session(url)


class _Session(Session):
    def __init__(self, url: str) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError as error:
            raise DataError(
                "PostgreSQL: found no package adbc-driver-postgresql. Install it, on Python 3.11 "
                "or later: pip install 'beam-pipelines[databases]'."
            ) from error
        self._errors = dbapi.Error
        self._reading: Any = None
        try:
            self._connection = dbapi.connect(url, autocommit=True)
        except self._errors as error:
            raise ServerError(_text(error), True) from error
        for setting in _SETTINGS:
            self._run(setting)

    def describe(self, request: Request) -> Description:
        """Returns columns and size; see ``Session``."""
        rows = Postgres().rows_of(request)
        schema = self._schema(f"SELECT * FROM {rows}")
        enums = self._enums(schema)
        columns = tuple(
            column_of(
                field.name,
                Postgres().quoted(field.name),
                _kind(field, enums),
                _typmod(field),
                request.types.get(field.name),
            )
            for field in schema
        )
        (plan,) = self._explained(f"EXPLAIN (VERBOSE, FORMAT JSON) SELECT * FROM {rows}")
        text = plan if isinstance(plan, str) else json.dumps(plan)
        top = json.loads(text)[0]["Plan"]
        count = max(1, int(top["Plan Rows"]))
        return Description(
            columns, count, count * max(1, int(top["Plan Width"])), self._is_repeatable(text)
        )

    def tables(self) -> list[str]:
        """Returns the names of tables and views that the user may read."""
        select = (
            "SELECT CASE WHEN NOT pg_table_is_visible(c.oid) THEN n.nspname::text END AS schema, "
            "c.relname::text AS name FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN "
            "('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
            "AND n.nspname NOT LIKE 'pg_toast%' AND has_table_privilege(c.oid, 'SELECT') "
            "ORDER BY 1 NULLS FIRST, 2"
        )
        rows = [row for batch in self.read(select) for row in batch.to_pylist()]
        return [table_name(*filter(None, (row["schema"], row["name"]))) for row in rows]

    def begin(self, snapshot: str | None = None) -> str:
        """Begins at a snapshot; see ``Session``."""
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot is not None:
            self._run(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            return snapshot
        (found,) = self.value("SELECT pg_export_snapshot() AS id")
        return str(found)

    def cut_points(self, request: Request, column: Column, number: int) -> list[str]:
        """Returns cut points of integers, dates and timestamps; see ``Session``."""
        key, condition = f"q.{Postgres().quoted(column.name)}", ""
        if column.kind not in _INTEGERS:
            condition = f" WHERE isfinite({key})"
        cut = _CUTS[column.kind].format(share=f"i / {number}::numeric")
        select = (
            f"SELECT cut::text AS text FROM (SELECT DISTINCT {cut} AS cut FROM (SELECT min({key}) "
            f"AS low, max({key}) AS high FROM {Postgres().rows_of(request)}{condition}) AS r, "
            f"generate_series(1, {number - 1}) AS i WHERE low < high) AS c ORDER BY cut"
        )
        rows = [row["text"] for batch in self.read(select) for row in batch.to_pylist()]
        return [f"'{text}'::{column.kind}" for text in rows]

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, in batches of about 16 MiB."""
        cursor = self._connection.cursor()
        self._reading = cursor
        try:
            cursor.execute(select)
            yield from cursor.fetch_record_batch()
        except self._errors as error:
            raise _server_error(error) from error
        except (pa.ArrowException, OSError) as error:
            # The driver's stream passes the server's errors on as Arrow's.
            raise ServerError(str(error), _is_broken(str(error))) from error
        finally:
            self._reading = None
            self._close(cursor)

    def cancel(self) -> None:
        """Asks the server to end the SELECT of another thread."""
        reading = self._reading
        if reading is not None:
            with contextlib.suppress(self._errors, RuntimeError):
                reading.adbc_cancel()

    def close(self) -> None:
        """Ends the connection."""
        self._close(self._connection)

    def _close(self, opened: Any) -> None:
        # It may be broken already.
        with contextlib.suppress(self._errors, RuntimeError, OSError):
            opened.close()

    def _run(self, statement: str) -> None:
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement)
        except self._errors as error:
            raise _server_error(error) from error
        finally:
            self._close(cursor)

    def _explained(self, statement: str) -> tuple[Any, ...]:
        """Returns the only row of a statement that COPY does not take."""
        cursor = self._connection.cursor(adbc_stmt_kwargs={"adbc.postgresql.use_copy": "false"})
        try:
            cursor.execute(statement)
            return tuple(cursor.fetchone())
        except self._errors as error:
            raise _server_error(error) from error
        finally:
            self._close(cursor)

    def _schema(self, select: str) -> pa.Schema:
        cursor = self._connection.cursor()
        try:
            return cursor.adbc_execute_schema(select)
        except self._errors as error:
            raise _server_error(error) from error
        finally:
            self._close(cursor)

    def _enums(self, schema: pa.Schema) -> dict[str, str]:
        """Returns the enums, and arrays of enums, in a schema.

        The keys are names and numbers, the values ``enum mood`` or ``enum mood[]``.
        """
        kinds = {_metadata(field, "type") for field in schema}
        names = ", ".join(sorted(_literal(kind) for kind in kinds))
        oids = ", ".join(sorted(oid for kind in kinds if (oid := _oid(kind)))) or "0"
        select = (
            "SELECT t.oid::text AS oid, t.typname::text AS name, coalesce(e.typname, t.typname)"
            "::text AS item, e.oid IS NOT NULL AS is_array FROM pg_type t "
            "LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' "
            f"WHERE (t.oid IN ({oids}) OR t.typname IN ({names})) "
            "AND coalesce(e.typtype, t.typtype) = 'e'"
        )
        found: dict[str, str] = {}
        for batch in self.read(select):
            for row in batch.to_pylist():
                kind = f"enum {row['item']}{'[]' if row['is_array'] else ''}"
                found[row["oid"]] = found[row["name"]] = kind
        return found

    def _is_repeatable(self, plan: str) -> bool:
        """Whether a query's plan has no volatile function and no sample."""
        if '"Sample Scan"' in plan:
            return False
        names = sorted(set(re.findall(r"([A-Za-z_][A-Za-z0-9_$]*)\(", plan)))
        if not names:
            return True
        listed = ", ".join(map(_literal, names))
        (count,) = self.value(
            f"SELECT count(*) AS n FROM pg_proc WHERE provolatile = 'v' AND proname IN ({listed})"
        )
        return bool(count == 0)


def _kind(field: pa.Field, enums: dict[str, str]) -> str:
    """Returns a column's type, such as ``int4``, ``_text`` or ``enum mood``."""
    kind = _metadata(field, "type")
    if not kind:
        raise DataError(
            "PostgreSQL: found an adbc-driver-postgresql that does not tell the types of columns, "
            "expected 1.13 or later. Install it: pip install 'beam-pipelines[databases]'."
        )
    return enums.get(_oid(kind) or kind, kind)


def _oid(kind: str) -> str | None:
    """Returns the number of a type without a name."""
    match = re.search(r"oid:(\d+)", kind)
    return match and match[1]


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _typmod(field: pa.Field) -> int:
    return int(_metadata(field, "typmod") or -1)


def _metadata(field: pa.Field, key: str) -> str:
    return str((field.metadata or {}).get(f"POSTGRESQL:{key}".encode(), b"").decode())


def _server_error(error: Any) -> ServerError:
    state = getattr(error, "sqlstate", None) or ""
    is_transient = state.startswith(_TRANSIENT) or (not state and _is_broken(str(error)))
    return ServerError(_text(error), is_transient)


def _is_broken(text: str) -> bool:
    signs = ("connection", "terminat", "server closed", "SSL", "timeout expired")
    return any(sign in text for sign in signs)


def _text(error: Any) -> str:
    """Returns a driver's message without its own prefixes and our SQL."""
    text = str(error)
    found = re.search(r"ERROR:\s+(.*)", text, re.DOTALL)
    text = found[1] if found else re.sub(r"^[A-Z_]+: \[libpq\] ", "", text)
    return re.sub(r"\.?\s*SQLSTATE: (\w+)\s*$", r" (\1)", text)
