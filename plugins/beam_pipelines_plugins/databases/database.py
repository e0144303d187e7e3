"""Databases: tables, their columns, and sessions that read them.

A database is one module: a ``Database``, which opens a ``Session``, and a line in ``DATABASES``.
The rest of the package knows these two classes only.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import HIDDEN, DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sql.database import quote
from beam_pipelines_plugins.databases.options import DatabaseOptions

# A part in quotation marks, or one without dots.
_PART = re.compile(r'"((?:[^"]|"")+)"(?=\.|$)|([^.]+)')


def name_parts(table: str) -> list[str]:
    """Returns the parts of a table's name: maybe schemas, and the table."""
    found = _PART.findall(table)
    return [quoted.replace('""', '"') or plain for quoted, plain in found]


def table_name(*parts: str) -> str:
    """Returns the name of a table for ``name_parts``."""
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    doubled = part.replace('"', '""')
    return f'"{doubled}"' if "." in part or part.startswith('"') else part


# user "shop", role "shop", user 'shop'@'host', 'shop'@'%' in what servers answer.
_QUOTED = r"(?:\"[^\"]*\"|'[^']*')"
_USER = re.compile(rf"(\b(?:user|role) )(?:{_QUOTED})(?:@{_QUOTED})?|{_QUOTED}@{_QUOTED}")


@dataclasses.dataclass(frozen=True)
class RowRequest:
    """Rows that a source reads from a database.

    Attributes:
      source: name of the source.
      url: of the database, without a password; an absolute path of a file.
      table: name, maybe with a schema; ``None``: ``query``.
      query: a SELECT; ``None``: ``table``.
      partition: column that orders the rows; ``None``: as the server gives them.
      columns: to read, in this order; empty: all.
      types: column -> declared type.
      limit: the first rows only; ``None``: all.
    """

    source: str
    url: str
    table: str | None
    query: str | None
    partition: str | None
    columns: tuple[str, ...]
    types: Mapping[str, str]
    limit: int | None = None

    @property
    def name(self) -> str:
        """Where the rows are, for messages and the manifest: ``postgresql://host/shop#users``."""
        return f"{display(self.url)}#{self.table or 'query'}"


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
      name: of the column.
      kind: its type, in the database's words.
      expression: SQL of the value that is read.
      stored: Arrow type of that value; ``None``: the column cannot be read.
      found: Arrow type that says more than ``stored``, such as a decimal's.
      guard: SQL that is true for values that have no equal in ``stored``; "": there are none.
      guarded: such a value, in words.
    """

    name: str
    kind: str
    expression: str
    stored: pa.DataType | None
    found: pa.DataType | None = None
    guard: str = ""
    guarded: str = ""


class TableFacts(NamedTuple):
    """A table before it is read.

    Attributes:
      columns: of the table or query, all of them.
      rows, size_bytes: estimates of the server; at least 1.
      decisions: what the dataset tells of the tables.
    """

    columns: tuple[TableColumn, ...]
    rows: int
    size_bytes: int
    decisions: tuple[str, ...] = ()


class ServerError(Exception):
    """An error of a server or driver, without the user's name."""

    def __init__(self, message: object) -> None:
        super().__init__(_USER.sub(rf"\g<1>{HIDDEN}", str(message)))


class Session(abc.ABC):
    """One connection to a database. Its calls raise ``ServerError``."""

    @abc.abstractmethod
    def describe(self, request: RowRequest) -> TableFacts:
        """Returns the columns and size of a table or query."""

    @abc.abstractmethod
    def tables(self) -> list[str]:
        """Returns the names of the tables that may be read."""

    @abc.abstractmethod
    def begin(self) -> str:
        """Begins to read at one snapshot; returns its id."""

    @abc.abstractmethod
    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Runs a SELECT, and yields its rows."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the connection, and its snapshot."""

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a SELECT as Python values."""
        return [tuple(row.values()) for batch in self.read(select) for row in batch.to_pylist()]


class Database(abc.ABC):
    """One kind of database.

    Attributes:
      name: in messages.
      format: in manifests and plans.
      schemes: of its URLs; empty: it is a file.
      suffixes: of its files.
      has_order: whether ``partition`` can order the rows.
    """

    name: str
    format: str
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    has_order = True

    @abc.abstractmethod
    def connect(self, url: str) -> Session:
        """Opens a connection.

        Raises:
          ServerError: it fails.
          DataError: a package is missing.
        """

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier, by default in double quotes."""
        return quote(name)

    def rows_of(self, request: RowRequest) -> str:
        """Returns the SQL of a request's rows after FROM."""
        if request.query is not None:
            return f"({request.query.strip().rstrip(';')}\n) AS q"
        parts = name_parts(request.table or "")
        return f"{'.'.join(map(self.quoted, parts))} AS q"

    def order_of(self, request: RowRequest) -> str:
        """Returns the ORDER BY of a request, or ""."""
        if request.partition is None:
            return ""
        return f" ORDER BY q.{self.quoted(request.partition)} NULLS LAST"

    def read(
        self, session: Session, request: RowRequest, columns: Sequence[TableColumn]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a request."""
        return session.read(select_of(self, request, columns))

    def count(self, session: Session, request: RowRequest) -> int | None:
        """Returns the server's number of rows, without ``limit``.

        ``None`` of a query, which may give others the next time.
        """
        if request.query is not None:
            return None
        ((count,),) = session.rows(f"SELECT count(*) AS n FROM {self.rows_of(request)}")
        return int(count)

    def describe_read(self, request: RowRequest, columns: Sequence[TableColumn]) -> str:
        """Returns what is sent for a request, for people."""
        return select_of(self, request, columns)


def file_snapshot(path: str) -> str:
    """Returns the id of a file's state: its size and date."""
    found = os.stat(path)
    return f"{found.st_size} bytes, {found.st_mtime_ns} ns"


def display(url: str) -> str:
    """Returns the URL of a database without user and parameters."""
    if "://" not in url:
        return url
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def guarded(
    name: str, kind: str, value: str, stored: pa.DataType | None, guard: str, words: str
) -> TableColumn:
    """Returns a column whose bad values the server does not convert."""
    expression = f"CASE WHEN {guard} THEN NULL ELSE {value} END"
    return TableColumn(name, kind, expression, stored, None, guard, words)


def select_of(database: Database, request: RowRequest, columns: Sequence[TableColumn]) -> str:
    """Returns the SELECT of a request's columns.

    The last column is that of ``guard_name``, if a column may have values that cannot be read.
    """
    quoted = database.quoted
    listed = [f"{column.expression} AS {quoted(column.name)}" for column in columns]
    cases = [
        f"WHEN {column.guard} THEN {number}"
        for number, column in enumerate(columns)
        if column.guard
    ]
    if cases:
        listed.append(f"CASE {' '.join(cases)} END AS {quoted(guard_name(columns))}")
    limit = "" if request.limit is None else f" LIMIT {request.limit}"
    rows = f"{database.rows_of(request)}{database.order_of(request)}{limit}"
    return f"SELECT {', '.join(listed)} FROM {rows}"


def guard_name(columns: Sequence[TableColumn]) -> str:
    """Returns the name of a column beyond those of a table.

    It has the number of the first bad value's column; null: a good row.
    """
    taken = {column.name.lower() for column in columns}
    names = (f"#guard{number or ''}" for number in itertools.count())
    return next(name for name in names if name not in taken)


def request_of(source: Source, url: str) -> RowRequest:
    """Returns the request of a source.

    Args:
      source: with ``url``.
      url: the same, with an absolute path of a file.
    """
    options = source.options_of(DatabaseOptions)
    return RowRequest(
        source.name,
        url,
        options.table,
        options.query,
        options.partition,
        source.columns,
        dict(source.types),
    )


def failure(request: RowRequest, database: Database, error: ServerError) -> DataError:
    """Returns the error of a server for a user."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return DataError(
        f"{request.name}: {database.name} answered: {text.rstrip('.')}. Check 'url', 'table' or "
        f"'query' of source '{request.source}', the rights of the user, and the server."
    )
