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
    Description,
    Request,
    ServerError,
    Session,
)
from beam_pipelines_plugins.databases.names import table_name
from beam_pipelines_plugins.databases.postgres_types import column_of

_SETTINGS = (
    "SET client_encoding TO 'UTF8'",
    "SET timezone TO 'UTC'",
    "SET datestyle TO 'ISO'",
    "SET intervalstyle TO 'iso_8601'",
    "SET extra_float_digits TO 1",
)
# EXPLAIN and SET are no rows for COPY.
_PLAIN = {"adbc.postgresql.use_copy": "false"}
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
        # The driver's stream passes the server's errors on as Arrow's.
        self._errors = (dbapi.Error, pa.ArrowException, OSError)
        with self._explained():
            self._connection = dbapi.connect(url, autocommit=True)
        for setting in _SETTINGS:
            self._run(setting)

    def describe(self, request: Request) -> Description:
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
        return Description(columns, rows, rows * max(1, int(plan["Plan Width"])))

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
        with self._explained(), self._connection.cursor(adbc_stmt_kwargs=_PLAIN) as cursor:
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
            "expected 1.13 or later. Install it: pip install 'beam-pipelines[databases]'."
        )
    kind, modifier = metadata[b"POSTGRESQL:type"], metadata.get(b"POSTGRESQL:typmod", b"-1")
    return kind.decode(), int(modifier)
