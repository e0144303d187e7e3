"""DuckDB files, read as Arrow by DuckDB itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines_plugins.databases.database import (
    Column,
    Database,
    Description,
    Request,
    ServerError,
    Session,
    file_snapshot,
)
from beam_pipelines_plugins.databases.names import table_name

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
# What SQL takes for a space, and a call of a function, whose name may be in quotes.
_GAP = r"(?:\s|--[^\n]*\n|/\*[\s\S]*?\*/)"
_CALL = re.compile(rf"(?<!\w)(\w+)\"?{_GAP}*\(")
_SAMPLE = re.compile(rf"\bTABLESAMPLE\b|\bUSING{_GAP}+SAMPLE\b", re.IGNORECASE)
_DEFINITIONS = """
SELECT view_name, sql FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT function_name, macro_definition FROM duckdb_functions()
WHERE macro_definition IS NOT NULL AND NOT internal
UNION ALL SELECT table_name, sql FROM duckdb_tables() WHERE contains(sql, 'GENERATED ALWAYS')
"""
_ENDLESS = re.compile(r"(DATE|TIMESTAMP.*?)(\[\])?")


class DuckDbFile(Database):
    """A DuckDB file."""

    name = "DuckDB"
    format = "duckdb"
    suffixes = (".duckdb",)

    def connect(self, url: str) -> Session:
        """Opens the file; see ``Database``."""
        return _Session(url)


class _Session(Session):
    def __init__(self, path: str) -> None:
        import duckdb  # only if a source is such a file

        self._path, self._error = path, duckdb.Error
        try:
            self._connection = duckdb.connect(path, read_only=True, config=dict(_LOCKED))
            self._connection.execute("SET TimeZone = 'UTC'")
        except self._error as error:
            raise ServerError(str(error), False) from error

    def describe(self, request: Request) -> Description:
        """Returns columns and size; see ``Session``."""
        database = DuckDbFile()
        rows = database.rows_of(request)
        kinds = self._rows(f"DESCRIBE SELECT * FROM {rows}")
        columns = [
            _column(name, database.quoted(name), kind, request.types.get(name))
            for name, kind, *_ in kinds
        ]
        readable = [column for column in columns if column.stored is not None]
        sample = pa.table({})
        if readable:
            listed = ", ".join(
                f"{column.expression} AS {database.quoted(column.name)}" for column in readable
            )
            sample = self._table(f"SELECT {listed} FROM {rows} LIMIT {_SAMPLE_ROWS}")
        stored = {field.name: field.type for field in sample.schema}
        (count,) = self._rows(f"SELECT count(*) FROM {rows}")[0]
        count = max(1, count)
        size_bytes = count * max(1, sample.nbytes // max(1, sample.num_rows))
        return Description(
            tuple(column._replace(stored=stored.get(column.name)) for column in columns),
            count,
            size_bytes,
            self._is_repeatable(request.query or request.table or ""),
        )

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT CASE WHEN table_schema <> 'main' THEN table_schema END, table_name "
            "FROM information_schema.tables ORDER BY 1 NULLS FIRST, 2"
        )
        return [table_name(*filter(None, row)) for row in self._rows(select)]

    def begin(self, snapshot: str | None = None) -> str:
        """Begins a transaction; see ``Session``."""
        self._rows("BEGIN TRANSACTION")
        return file_snapshot(self._path)

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT."""
        try:
            relation = self._connection.sql(select)
            # DuckDB before 1.4 calls it otherwise.
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from reader(_BATCH_ROWS)
        except (self._error, pa.ArrowException, OSError) as error:
            raise ServerError(str(error), False) from error

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(statement).fetchall()
        except self._error as error:
            raise ServerError(str(error), False) from error
        return found

    def _table(self, select: str) -> pa.Table:
        batches = list(self.read(f"SELECT * FROM ({select})"))
        if batches:
            return pa.Table.from_batches(batches)
        return self._connection.sql(select).to_arrow_table()

    def _is_repeatable(self, text: str) -> bool:
        """Whether a query or table has no volatile function or sample.

        Views, macros and computed columns whose names are somewhere in the text count as well.
        """
        definitions = self._rows(_DEFINITIONS)
        while named := [own for own in definitions if own[0].lower() in text.lower()]:
            definitions = [own for own in definitions if own not in named]
            text = "\n".join([text, *(sql for _, sql in named)])
        if _SAMPLE.search(text):
            return False
        names = {name.lower() for name in _CALL.findall(text)}
        select = (
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
        )
        return not names or not names & {name for (name,) in self._rows(select)}


def _column(name: str, quoted: str, kind: str, declared: str | None) -> Column:
    """Returns how a column is read; a sample tells the Arrow type."""
    column = f"q.{quoted}"
    endless = _ENDLESS.fullmatch(kind)
    if _TEXTS.fullmatch(kind) or (declared == "text" and (endless or _NO_EQUAL.search(kind))):
        return Column(name, kind, f"{column}::VARCHAR", pa.string())
    if _NO_EQUAL.search(kind):
        return Column(name, kind, column, None)
    guard = ""
    if endless is not None:
        own = endless[1]
        infinite = f"['infinity'::{own}, '-infinity'::{own}]"
        guard = f"list_has_any({column}, {infinite})" if endless[2] else f"NOT isfinite({column})"
    return Column(name, kind, column, pa.null(), guard=guard, guarded="infinity")
