"""SQLite files, read by Python's own module.

Any column may have values of any type: its type follows from the first values; a later value of
another type is an error.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
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
    guarded,
    name_parts,
    table_name,
)

_BATCH_ROWS, _SAMPLE_ROWS = 16_384, 10_000
_STORED = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
# Words in declared types, in the order of SQLite's rules of affinity.
_AFFINITIES = {
    "INT": "integer",
    **dict.fromkeys(("CHAR", "CLOB", "TEXT"), "text"),
    "BLOB": "blob",
    **dict.fromkeys(("REAL", "FLOA", "DOUB", "NUM", "DEC"), "real"),
}
# The module decodes names and messages, and makes room for sizes; a file may be damaged.
_ERRORS = (sqlite3.Error, pa.ArrowException, UnicodeDecodeError, OverflowError, MemoryError)
# SQLite casts larger floats to the largest integer.
_LARGEST = 9.2e18


class SqliteFile(Database):
    """An SQLite file."""

    name = "SQLite"
    format = "sqlite"
    suffixes = (".sqlite", ".sqlite3", ".db")

    def connect(self, url: str) -> Session:
        """Opens the file; see ``Database``."""
        return _SqliteSession(url)


class _SqliteSession(Session):
    def __init__(self, path: str) -> None:
        self._path = path
        address = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
        try:
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
        except _ERRORS as error:
            raise ServerError(error) from error
        self.rows("SELECT count(*) FROM sqlite_master")

    def describe(self, request: RowRequest) -> TableFacts:
        """Returns columns and size; see ``Session``."""
        database = SqliteFile()
        rows = database.rows_of(request)
        names = [column[0] for column in self._run(f"SELECT * FROM {rows} LIMIT 0").description]
        types = ", ".join(f"typeof(q.{database.quoted(name)})" for name in names)
        sample = self.rows(f"SELECT {types} FROM {rows} LIMIT {_SAMPLE_ROWS}")
        found = [set(column) - {"null"} for column in zip(*sample, strict=True)]
        found = found or [set() for _ in names]
        table = database.quoted(name_parts(request.table or "")[-1]) if request.table else "''"
        declared = {one[1]: one[2] for one in self.rows(f"PRAGMA table_info({table})")}
        columns = tuple(
            _column(
                name,
                database.quoted(name),
                _kind(own, declared.get(name, "")),
                request.types.get(name),
            )
            for name, own in zip(names, found, strict=True)
        )
        ((count,),) = self.rows(f"SELECT count(*) FROM {rows}")
        return TableFacts(columns, max(1, count), max(1, count) * 12 * len(columns))

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
        )
        return [table_name(name) for (name,) in self.rows(select)]

    def begin(self) -> str:
        """Begins a transaction, by its first read; see ``Session``."""
        self.rows("BEGIN")
        self.rows("SELECT count(*) FROM sqlite_master")
        return file_snapshot(self._path)

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, with texts as bytes.

        They may be no UTF-8.
        """
        self._connection.text_factory = bytes
        try:
            cursor = self._run(select)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = map(pa.array, zip(*rows, strict=True))
                yield pa.RecordBatch.from_arrays(list(columns), names=names)
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__) from error
        finally:
            self._connection.text_factory = str

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement."""
        try:
            return list(self._run(select).fetchall())
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__) from error

    def _run(self, statement: str) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement)
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__) from error


def _kind(found: set[str], declared: str) -> str:
    """Returns ``integer``, ``real``, ``text``, ``blob``, or several."""
    affinity = next((kind for word, kind in _AFFINITIES.items() if word in declared.upper()), "")
    if found <= {"integer"} and affinity == "real":
        return "real"  # SQLite keeps 1.0 of a NUMERIC column as 1
    if found == {"integer", "real"}:
        return "real"
    return " and ".join(sorted(found)) if found else affinity or "text"


def _column(name: str, quoted: str, kind: str, declared: str | None) -> TableColumn:
    """Returns how a column is read, with a guard against other types."""
    column = f"q.{quoted}"
    if declared == "text":
        value, guard = f"CAST({column} AS TEXT)", f"typeof({column}) = 'blob'"
        return guarded(name, kind, value, pa.string(), guard, "a blob")
    if declared is not None and declared.startswith("float"):
        kind = "real"
    if kind not in _STORED:
        return TableColumn(name, kind, column, None)
    if kind == "real":
        guard = (
            f"(typeof({column}) NOT IN ('integer', 'real', 'null') OR "
            f"(typeof({column}) = 'integer' AND (abs({column} + 0.0) >= {_LARGEST} OR "
            f"CAST(CAST({column} AS REAL) AS INTEGER) <> {column})))"
        )
        words = "a value that is no number, or an integer that no float64 equals"
        return guarded(name, kind, f"CAST({column} AS REAL)", pa.float64(), guard, words)
    guard = f"typeof({column}) NOT IN ('{kind}', 'null')"
    return guarded(name, kind, column, _STORED[kind], guard, "a value of another type")
