"""SQLite files, read by Python's own module.

A column of SQLite may have values of several types. Its type is that of the first rows, or the
declared one where these have no values; a later value of another type is an error.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
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
from beam_pipelines_plugins.databases.names import name_parts, table_name

_BATCH_ROWS, _SAMPLE_ROWS = 16_384, 10_000
_STORED = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
# Words in declared types, in the order of SQLite's rules of affinity.
_AFFINITIES = (
    ("INT", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("BLOB", "blob"),
    ("REAL", "real"),
    ("FLOA", "real"),
    ("DOUB", "real"),
    ("NUM", "real"),
    ("DEC", "real"),
)
_VOLATILE = (
    *("random", "randomblob", "last_insert_rowid", "changes", "total_changes"),
    *("current_date", "current_time", "current_timestamp"),
)
# Volatile without arguments, and with 'now'.
_CLOCKS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")
# The module decodes names and messages, and makes room for sizes; a file may be damaged.
_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)
# SQLite casts larger floats to the largest integer.
_LARGEST = 9.2e18


class SqliteFile(Database):
    """An SQLite file."""

    name = "SQLite"
    format = "sqlite"
    suffixes = (".sqlite", ".sqlite3", ".db")

    def connect(self, url: str) -> Session:
        """Opens the file; see ``Database``."""
        return _Session(url)


class _Session(Session):
    def __init__(self, path: str) -> None:
        self._path = path
        address = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
        try:
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
            self._rows("SELECT count(*) FROM sqlite_master")
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__, False) from error

    def describe(self, request: Request) -> Description:
        """Returns columns and size; see ``Session``."""
        database = SqliteFile()
        rows = database.rows_of(request)
        names = self._names(f"SELECT * FROM {rows} LIMIT 0")
        types = ", ".join(f"typeof(q.{database.quoted(name)})" for name in names)
        sample = self._rows(f"SELECT {types} FROM {rows} LIMIT {_SAMPLE_ROWS}")
        found = [set(column) - {"null"} for column in zip(*sample, strict=True)]
        found = found or [set() for _ in names]
        declared = self._declared(request)
        columns = tuple(
            _column(
                name,
                database.quoted(name),
                _kind(own, declared.get(name, "")),
                request.types.get(name),
            )
            for name, own in zip(names, found, strict=True)
        )
        ((count,),) = self._rows(f"SELECT count(*) FROM {rows}")
        count = max(1, count)
        is_repeatable = self._is_repeatable(rows)
        return Description(columns, count, count * 12 * len(columns), is_repeatable)

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
        )
        return [table_name(name) for (name,) in self._rows(select)]

    def begin(self, snapshot: str | None = None) -> str:
        """Begins a transaction, by its first read; see ``Session``."""
        self._rows("BEGIN")
        self._rows("SELECT count(*) FROM sqlite_master")
        return file_snapshot(self._path)

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, with texts as bytes.

        They may be no UTF-8.
        """
        self._connection.text_factory = bytes
        try:
            cursor = self._connection.execute(select)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = map(pa.array, zip(*rows, strict=True))
                yield pa.RecordBatch.from_arrays(list(columns), names=names)
        except (*_ERRORS, pa.ArrowException) as error:
            raise ServerError(str(error) or type(error).__name__, False) from error
        finally:
            self._connection.text_factory = str

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement).fetchall()
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__, False) from error

    def _names(self, select: str) -> list[str]:
        try:
            return [column[0] for column in self._connection.execute(select).description]
        except _ERRORS as error:
            raise ServerError(str(error) or type(error).__name__, False) from error

    def _is_repeatable(self, rows: str) -> bool:
        """Whether the program of a SELECT calls no volatile function.

        It has what views call.
        """
        program = self._rows(f"EXPLAIN SELECT * FROM {rows}")
        texts = {str(line[5]).lower() for line in program if line[1] == "String8"}
        for _, operation, _, argument, _, called, *_ in program:
            name = str(called).partition("(")[0].lower()
            if operation.endswith("Func") or operation == "Function":
                is_now = name in _CLOCKS and (not argument or "now" in texts)
                if is_now or name in _VOLATILE:
                    return False
        return True

    def _declared(self, request: Request) -> dict[str, str]:
        """Returns column -> declared type of a table."""
        if request.table is None:
            return {}
        table = SqliteFile().quoted(name_parts(request.table)[-1])
        return {name: kind for _, name, kind, *_ in self._rows(f"PRAGMA table_info({table})")}


def _kind(found: set[str], declared: str) -> str:
    """Returns ``integer``, ``real``, ``text``, ``blob``, or several."""
    affinity = next((kind for word, kind in _AFFINITIES if word in declared.upper()), "")
    if found <= {"integer"} and affinity == "real":
        return "real"  # SQLite keeps 1.0 of a NUMERIC column as 1
    if found == {"integer", "real"}:
        return "real"
    return " and ".join(sorted(found)) if found else affinity or "text"


def _column(name: str, quoted: str, kind: str, declared: str | None) -> Column:
    """Returns how a column is read, with a guard against other types."""
    column = f"q.{quoted}"
    if declared == "text":
        guard = f"typeof({column}) = 'blob'"
        return Column(name, kind, _cast(column, guard, "TEXT"), pa.string(), None, guard, "a blob")
    if declared is not None and declared.startswith("float"):
        kind = "real"
    stored = _STORED.get(kind)
    if stored is None:
        return Column(name, kind, column, None)
    if kind == "real":
        guard = (
            f"(typeof({column}) NOT IN ('integer', 'real', 'null') OR "
            f"(typeof({column}) = 'integer' AND (abs({column} + 0.0) >= {_LARGEST} OR "
            f"CAST(CAST({column} AS REAL) AS INTEGER) <> {column})))"
        )
        guarded = "a value that is no number, or an integer that no float64 equals"
        return Column(name, kind, _cast(column, guard, "REAL"), stored, None, guard, guarded)
    guard = f"typeof({column}) NOT IN ('{kind}', 'null')"
    expression = f"CASE WHEN {guard} THEN NULL ELSE {column} END"
    return Column(name, kind, expression, stored, None, guard, "a value of another type")


def _cast(column: str, guard: str, type_: str) -> str:
    return f"CASE WHEN {guard} THEN NULL ELSE CAST({column} AS {type_}) END"
