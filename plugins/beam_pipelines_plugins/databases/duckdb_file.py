"""DuckDB files, read as Arrow by DuckDB itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    TableColumn,
    TableFacts,
    file_snapshot,
    table_name,
)

# A view in the file, or a query, reaches no other file and no network.
_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_BATCH_ROWS, _SAMPLE_ROWS = 65_536, 1_000
# Arrow has no equal of these, or DuckDB's conversion leaves a part out.
_NO_EQUAL = re.compile(r"INTERVAL|TIME WITH TIME ZONE|\bBIT\b|UNION|BIGNUM|VARINT|VARIANT|GEOMETRY")
_TEXTS = re.compile(r"ENUM\(.*\)|UUID|JSON")
_ENDLESS = re.compile(r"(DATE|TIMESTAMP.*?)(\[\])?")


class DuckDbFile(Database):
    """A DuckDB file."""

    name = "DuckDB"
    format = "duckdb"
    suffixes = (".duckdb",)

    def connect(self, url: str) -> Session:
        """Opens the file; see ``Database``."""
        return _DuckdbSession(url)


class _DuckdbSession(Session):
    def __init__(self, path: str) -> None:
        import duckdb  # only if a source is such a file

        self._path, self._error = path, duckdb.Error
        try:
            self._connection = duckdb.connect(path, read_only=True, config=dict(_LOCKED))
            self._connection.execute("SET TimeZone = 'UTC'")
        except self._error as error:
            raise ServerError(error) from error

    def describe(self, request: RowRequest) -> TableFacts:
        """Returns columns and size; see ``Session``."""
        database = DuckDbFile()
        rows = database.rows_of(request)
        kinds = self.rows(f"DESCRIBE SELECT * FROM {rows}")
        columns = [
            _column(name, database.quoted(name), kind, request.types.get(name))
            for name, kind, *_ in kinds
        ]
        readable = [column for column in columns if column.stored is not None]
        listed = ", ".join(
            f"{column.expression} AS {database.quoted(column.name)}" for column in readable
        )
        sample = (
            self._sample(f"SELECT {listed} FROM {rows} LIMIT {_SAMPLE_ROWS}")
            if readable
            else pa.table({})
        )
        stored = {field.name: field.type for field in sample.schema}
        ((count,),) = self.rows(f"SELECT count(*) FROM {rows}")
        size_bytes = max(1, count) * max(1, sample.nbytes // max(1, sample.num_rows))
        return TableFacts(
            tuple(column._replace(stored=stored.get(column.name)) for column in columns),
            max(1, count),
            size_bytes,
        )

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT CASE WHEN table_schema <> 'main' THEN table_schema END, table_name "
            "FROM information_schema.tables ORDER BY 1 NULLS FIRST, 2"
        )
        return [table_name(*filter(None, row)) for row in self.rows(select)]

    def begin(self) -> str:
        """Begins a transaction; see ``Session``."""
        self.rows("BEGIN TRANSACTION")
        return file_snapshot(self._path)

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT."""
        try:
            relation = self._connection.sql(select)
            # DuckDB before 1.4 calls it otherwise.
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from reader(_BATCH_ROWS)
        except (self._error, pa.ArrowException, OSError) as error:
            raise ServerError(error) from error

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement."""
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(select).fetchall()
        except self._error as error:
            raise ServerError(error) from error
        return found

    def _sample(self, select: str) -> pa.Table:
        try:
            return self._connection.sql(select).to_arrow_table()
        except self._error as error:
            raise ServerError(error) from error


def _column(name: str, quoted: str, kind: str, declared: str | None) -> TableColumn:
    """Returns how a column is read; a sample tells the Arrow type."""
    column = f"q.{quoted}"
    endless = _ENDLESS.fullmatch(kind)
    if _TEXTS.fullmatch(kind) or (declared == "text" and (endless or _NO_EQUAL.search(kind))):
        return TableColumn(name, kind, f"{column}::VARCHAR", pa.string())
    if _NO_EQUAL.search(kind):
        return TableColumn(name, kind, column, None)
    guard = ""
    if endless is not None:
        own = endless[1]
        infinite = f"['infinity'::{own}, '-infinity'::{own}]"
        guard = f"list_has_any({column}, {infinite})" if endless[2] else f"NOT isfinite({column})"
    return TableColumn(name, kind, column, pa.null(), guard=guard, guarded="infinity")
