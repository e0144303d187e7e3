"""Databases in files: SQLite by Python's own module, DuckDB by itself."""

from __future__ import annotations

import os
import re
import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from beam_pipelines_plugins.databases import database
from beam_pipelines_plugins.databases.options import DatabaseOptions

_SQLITE_ROWS, _SAMPLE_ROWS = 16_384, 10_000
_STORED = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
# Words in declared types, in the order of SQLite's rules of affinity.
_AFFINITIES = {
    "INT": "integer",
    **dict.fromkeys(("CHAR", "CLOB", "TEXT"), "text"),
    "BLOB": "blob",
    **dict.fromkeys(("REAL", "FLOA", "DOUB", "NUM", "DEC"), "real"),
}


class SqliteFile(database.Database):
    """An SQLite file.

    Any column may have values of any type: its type follows from the first ones.
    """

    name = "SQLite"
    format = "sqlite"
    suffixes = (".sqlite", ".sqlite3", ".db")
    # The module decodes names and messages, and makes room for sizes; a file may be damaged.
    errors = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)

    def __init__(self, url: str) -> None:
        self._path = url
        address = f"file:{urllib.parse.quote(os.path.abspath(url))}?mode=ro"
        with self.answers():
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
        # Python sees signals between its own steps only, and a view may never end.
        self._connection.set_progress_handler(lambda: None, 1_000_000)
        self.rows("SELECT count(*) FROM sqlite_master")

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> database.TableFacts:
        """Returns columns and size; see ``Database``."""
        rows, columns = self.rows_of(request), list[database.TableColumn]()
        with self.answers():
            head = self._connection.execute(f"SELECT * FROM {rows} LIMIT 0").description
        names = [name for name, *_ in head]
        kinds = ", ".join(f"group_concat(DISTINCT typeof({self.quoted(name)}))" for name in names)
        (found,) = self.rows(f"SELECT {kinds} FROM (SELECT * FROM {rows} LIMIT {_SAMPLE_ROWS})")
        table = self.quoted((request.table or "").split(".")[-1])
        declared = {one[1]: one[2].upper() for one in self.rows(f"PRAGMA table_info({table})")}
        for name, values in zip(names, found, strict=True):
            kind = _kind_of(set((values or "null").split(",")) - {"null"}, declared.get(name, ""))
            column, type_ = f"q.{self.quoted(name)}", types.get(name, "")
            if type_ == "text":
                column, kind = f"CAST({column} AS TEXT)", "text"
            elif type_.startswith("float"):
                kind = "real"
            columns.append(database.TableColumn(name, kind, column, _STORED.get(kind)))
        return database.TableFacts(tuple(columns), self.count(request))

    def words(self, error: Exception) -> str:
        """Returns SQLite's words, and those of a file of DuckDB."""
        hint = "; one of DuckDB needs the suffix .duckdb" if "not a database" in str(error) else ""
        return f"{error}{hint}"

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
        )
        return [name for (name,) in self.rows(select)]

    def begin(self) -> str:
        """Begins a transaction, by its first read; see ``Database``."""
        self.rows("BEGIN")
        self.rows("SELECT count(*) FROM sqlite_master")
        return database.file_snapshot(self._path)

    def read(
        self, request: DatabaseOptions, columns: Sequence[database.TableColumn], limit: int | None
    ) -> Iterator[Sequence[database.Values]]:
        """Yields the rows of a request, with texts as bytes.

        They may be no UTF-8.
        """
        self._connection.text_factory = bytes
        try:
            with self.answers():
                cursor = self._connection.execute(self.select_of(request, columns, limit))
                while rows := cursor.fetchmany(_SQLITE_ROWS):
                    yield tuple(zip(*rows, strict=True))
        finally:
            self._connection.text_factory = str


def _kind_of(found: set[str], declared: str) -> str:
    """Returns ``integer``, ``real``, ``text``, ``blob``, or several."""
    affinity = next((kind for word, kind in _AFFINITIES.items() if word in declared), "")
    is_number = found <= {"integer", "real"}
    if is_number and ("real" in found or affinity == "real"):
        return "real"  # SQLite keeps 1.0 of a NUMERIC column as 1
    return " and ".join(sorted(found)) or affinity or "text"


# A view in the file, or a query, reaches no other file and no network.
_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_DUCKDB_ROWS = 65_536
# Arrow has no equal of these, or DuckDB's conversion leaves a part out.
_NO_EQUAL = re.compile(
    r"INTERVAL|TIME WITH TIME ZONE|\bBIT\b|UNION|UHUGEINT|BIGNUM|VARINT|VARIANT|GEOMETRY"
)
_CALENDAR = re.compile(r"DATE|TIMESTAMP.*")


class DuckDbFile(database.Database):
    """A DuckDB file."""

    name = "DuckDB"
    format = "duckdb"
    suffixes = (".duckdb",)

    def __init__(self, url: str) -> None:
        import duckdb  # only if a source is such a file

        self._path, self.errors = url, (duckdb.Error, pa.ArrowException, OSError)
        with self.answers():
            self._connection = duckdb.connect(url, read_only=True, config=dict(_LOCKED))
        self.rows("SET TimeZone = 'UTC'")

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> database.TableFacts:
        """Returns columns and size; see ``Database``."""
        columns = []
        for name, kind, *_ in self.rows(f"DESCRIBE SELECT * FROM {self.rows_of(request)}"):
            column = f"q.{self.quoted(name)}"
            is_odd = bool(_NO_EQUAL.search(kind))
            has_text = types.get(name) == "text" and (is_odd or _CALENDAR.match(kind))
            if has_text or kind.startswith("ENUM("):
                columns.append(database.TableColumn(name, kind, f"{column}::VARCHAR", pa.string()))
            else:
                columns.append(
                    database.TableColumn(name, kind, column, None if is_odd else pa.null())
                )
        readable = [one for one in columns if one.stored is not None]
        if readable:
            with self.answers():
                stored = self._reader(self.select_of(request, readable, 0)).schema
            columns = [
                one._replace(stored=one.stored and stored.field(one.name).type) for one in columns
            ]
        return database.TableFacts(tuple(columns), self.count(request))

    def tables(self) -> list[str]:
        """Returns the names of tables and views."""
        select = (
            "SELECT CASE WHEN table_schema <> 'main' THEN table_schema END, table_name "
            "FROM information_schema.tables ORDER BY 1 NULLS FIRST, 2"
        )
        return [".".join(filter(None, row)) for row in self.rows(select)]

    def begin(self) -> str:
        """Begins a transaction; see ``Database``."""
        self.rows("BEGIN TRANSACTION")
        return database.file_snapshot(self._path)

    def read(
        self, request: DatabaseOptions, columns: Sequence[database.TableColumn], limit: int | None
    ) -> Iterator[Sequence[database.Values]]:
        """Yields the rows of a request."""
        with self.answers():
            for batch in self._reader(self.select_of(request, columns, limit)):
                yield batch.columns

    def _reader(self, select: str) -> pa.RecordBatchReader:
        relation = self._connection.sql(select)
        # DuckDB before 1.4 calls it otherwise.
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return reader(_DUCKDB_ROWS)
