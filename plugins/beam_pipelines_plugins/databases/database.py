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
from beam_pipelines_plugins.databases.names import name_parts
from beam_pipelines_plugins.databases.options import DatabaseOptions

# user "shop", role "shop", user 'shop'@'host', 'shop'@'%' in what servers answer.
_QUOTED = r"(?:\"[^\"]*\"|'[^']*')"
_USER = re.compile(rf"(\b(?:user|role) )(?:{_QUOTED})(?:@{_QUOTED})?|{_QUOTED}@{_QUOTED}")
# More rows than any table has: some databases take an offset with a limit only.
_ALL = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class Request:
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
      offset: rows before these.
    """

    source: str
    url: str
    table: str | None
    query: str | None
    partition: str | None
    columns: tuple[str, ...]
    types: Mapping[str, str]
    limit: int | None = None
    offset: int = 0

    @property
    def name(self) -> str:
        """Where the rows are, for messages and the manifest: ``postgresql://host/shop#users``."""
        return f"{display(self.url)}#{self.table or 'query'}"


class Column(NamedTuple):
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


class Description(NamedTuple):
    """A table before it is read.

    Attributes:
      columns: of the table or query, all of them.
      rows, size_bytes: estimates of the server; at least 1.
      is_repeatable: whether the query gives the same rows each time, at one snapshot.
      decisions: what the dataset tells of the tables.
    """

    columns: tuple[Column, ...]
    rows: int
    size_bytes: int
    is_repeatable: bool = True
    decisions: tuple[str, ...] = ()


class ServerError(Exception):
    """An error of a server or driver, without the user's name.

    Attributes:
      is_transient: whether another connection may succeed.
    """

    def __init__(self, message: str, is_transient: bool) -> None:
        super().__init__(_USER.sub(rf"\g<1>{HIDDEN}", message))
        self.is_transient = is_transient


class Session(abc.ABC):
    """One connection to a database. Its calls raise ``ServerError``."""

    @abc.abstractmethod
    def describe(self, request: Request) -> Description:
        """Returns the columns and size of a table or query."""

    @abc.abstractmethod
    def tables(self) -> list[str]:
        """Returns the names of the tables that may be read."""

    @abc.abstractmethod
    def begin(self, snapshot: str | None = None) -> str:
        """Begins to read at one snapshot.

        Args:
          snapshot: of another session that is still open; ``None``: a new one.

        Returns:
          The id of the snapshot.
        """

    def cut_points(self, request: Request, column: Column, number: int) -> list[str]:
        """Returns values, as SQL, that cut a column's range in equal parts.

        Args:
          request: with ``partition``.
          column: of the partition.
          number: of parts; there is one cut point less, or fewer.
        """
        return []

    @abc.abstractmethod
    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Runs a SELECT, and yields its rows."""

    def cancel(self) -> None:
        """Ends a ``read`` of another thread, by an error there."""
        return

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the connection; the snapshot that it began ends with it."""

    def value(self, select: str) -> Any:
        """Returns the first row of a SELECT as Python values."""
        rows = [row for batch in self.read(select) for row in batch.to_pylist()]
        return tuple(rows[0].values())


class Database(abc.ABC):
    """One kind of database.

    Attributes:
      name: in messages.
      format: in manifests and plans.
      schemes: of its URLs; empty: it is a file.
      suffixes: of its files.
      sessions: most connections that read at once; 1 if they cannot share a snapshot.
      cuts: types of a partition's column, whose range can be cut; empty: any, which is not cut.
      has_order: whether ``partition`` can order the rows.
    """

    name: str
    format: str
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    sessions = 1
    cuts: tuple[str, ...] = ()
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

    def rows_of(self, request: Request) -> str:
        """Returns the SQL of a request's rows after FROM."""
        if request.query is not None:
            return f"({request.query.strip().rstrip(';')}\n) AS q"
        parts = name_parts(request.table or "")
        return f"{'.'.join(map(self.quoted, parts))} AS q"

    def order_of(self, request: Request) -> str:
        """Returns the ORDER BY of a request, or ""."""
        if request.partition is None:
            return ""
        return f" ORDER BY q.{self.quoted(request.partition)} NULLS LAST"

    def parts(
        self,
        session: Session,
        request: Request,
        columns: Sequence[Column],
        partition: Column | None,
        number: int,
    ) -> list[str]:
        """Returns parts of a request's rows, in their order, for ``read``.

        Args:
          session: at a snapshot.
          request: the rows.
          columns: to read.
          partition: column that orders the rows, or ``None``.
          number: of parts; there may be fewer.

        Returns:
          Conditions of SQL; "": all rows.
        """
        if partition is None or request.limit is not None or not self.cuts:
            return [""]
        cuts = session.cut_points(request, partition, number)
        if not cuts:
            return [""]
        key = f"q.{self.quoted(partition.name)}"
        lower = ["", *(f"{key} >= {cut}" for cut in cuts)]
        upper = [*(f"{key} < {cut}" for cut in cuts), ""]
        lower[-1] = f"({lower[-1]} OR {key} IS NULL)"
        return [" AND ".join(filter(None, bounds)) for bounds in zip(lower, upper, strict=True)]

    def read(
        self, session: Session, request: Request, columns: Sequence[Column], part: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a request, or of one of its ``parts``."""
        return session.read(select_of(self, request, columns, part))

    def count(self, session: Session, request: Request) -> int:
        """Returns the server's number of rows, without ``limit``."""
        (count,) = session.value(f"SELECT count(*) AS n FROM {self.rows_of(request)}")
        return int(count)

    def describe_read(self, request: Request, columns: Sequence[Column]) -> str:
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


def select_of(
    database: Database, request: Request, columns: Sequence[Column], where: str = ""
) -> str:
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
    if request.offset:
        limit = f"{limit or f' LIMIT {_ALL}'} OFFSET {request.offset}"
    return (
        f"SELECT {', '.join(listed)} FROM {database.rows_of(request)}"
        f"{f' WHERE {where}' if where else ''}{database.order_of(request)}{limit}"
    )


def guard_name(columns: Sequence[Column]) -> str:
    """Returns the name of a column beyond those of a table.

    It has the number of the first bad value's column; null: a good row.
    """
    taken = {column.name.lower() for column in columns}
    names = (f"#guard{number or ''}" for number in itertools.count())
    return next(name for name in names if name not in taken)


def request_of(source: Source, url: str) -> Request:
    """Returns the request of a source.

    Args:
      source: with ``url``.
      url: the same, with an absolute path of a file.
    """
    options = source.options_of(DatabaseOptions)
    return Request(
        source.name,
        url,
        options.table,
        options.query,
        options.partition,
        source.columns,
        dict(source.types),
    )


def failure(request: Request, database: Database, error: ServerError) -> DataError:
    """Returns the error of a server for a user."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return DataError(
        f"{request.name}: {database.name} answered: {text.rstrip('.')}. Check 'url', 'table' or "
        f"'query' of source '{request.source}', the rights of the user, and the server."
    )
