"""Databases: connections that read tables, and what they say of them.

A database is one module with a ``Database``, and a line in ``DATABASES``. The rest of the package
knows this class only.
"""

from __future__ import annotations

import abc
import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import pyarrow as pa

from beam_pipelines.core.errors import HIDDEN
from beam_pipelines.sql.database import quote
from beam_pipelines_plugins.databases.options import DatabaseOptions

# Values of one column: Arrow's, or a driver's Python values.
Values: TypeAlias = pa.Array | tuple[Any, ...]

# Digits of a decimal that every int64 holds.
_INT64_DIGITS = 18
# user "shop", role "shop", user 'shop'@'host', 'shop'@'%' in what servers answer.
_QUOTED = r"(?:\"[^\"]*\"|'[^']*')"
_USER = re.compile(rf"(\b(?:user|role) )(?:{_QUOTED})(?:@{_QUOTED})?|{_QUOTED}@{_QUOTED}")


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
      name: of the column.
      kind: its type, in the database's words.
      expression: SQL of the value that is read.
      stored: Arrow type of the kept values; ``None``: the column cannot be read.
      found: Arrow type that says more than ``stored``, such as a decimal's.
    """

    name: str
    kind: str
    expression: str
    stored: pa.DataType | None
    found: pa.DataType | None = None


class TableFacts(NamedTuple):
    """A table before it is read.

    Attributes:
      columns: of the table or query, all of them.
      rows: estimate of the server; ``None``: it tells none.
      decisions: what the dataset tells of the table.
    """

    columns: tuple[TableColumn, ...]
    rows: int | None
    decisions: tuple[str, ...] = ()


class ServerError(Exception):
    """An error of a server or driver, without the user's name."""

    def __init__(self, message: object) -> None:
        text = re.sub(r"\s+", " ", str(message)).strip().rstrip(".")
        super().__init__(_USER.sub(rf"\g<1>{HIDDEN}", text))


def decimal_types(precision: int, scale: int) -> tuple[pa.DataType, pa.DataType | None]:
    """Returns the types after and before decimals are read as numbers.

    The plan says which are rounded; their type has any digits.
    """
    if scale == 0 and 0 < precision <= _INT64_DIGITS:
        return pa.int64(), None
    return pa.float64(), pa.decimal128(38, 19)


class Database(abc.ABC):
    """One connection to a database, which changes nothing there.

    Its calls raise ``ServerError``.

    Attributes:
      name: in messages.
      format: in manifests and plans.
      schemes: of its URLs; empty: it is a file.
      suffixes: of its files.
      errors: of its driver.
    """

    name: ClassVar[str]
    format: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = ()
    errors: tuple[type[Exception], ...] = ()
    _connection: Any

    @abc.abstractmethod
    def __init__(self, url: str) -> None:
        """Opens a connection.

        Raises:
          ServerError: it fails.
          DataError: a package is missing.
        """

    @abc.abstractmethod
    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> TableFacts:
        """Returns the columns and size of a table or query.

        Args:
          request: the table or query.
          types: column -> declared type.
        """

    def tables(self) -> list[str]:
        """Returns the names of a file's tables; a server's are not listed."""
        return []

    @abc.abstractmethod
    def begin(self) -> str:
        """Begins to read at one snapshot; returns its id."""

    @abc.abstractmethod
    def read(
        self, request: DatabaseOptions, columns: Sequence[TableColumn], limit: int | None
    ) -> Iterator[Sequence[Values]]:
        """Yields some rows of a request at a time, column by column.

        Args:
          request: the table or query.
          columns: of it, in order.
          limit: the first rows only; ``None``: all.
        """

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement as Python values."""
        with self.answers(), contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def close(self) -> None:
        """Ends the connection, and its snapshot."""
        # It may be broken already.
        with contextlib.suppress(*self.errors, RuntimeError):
            self._connection.close()

    @contextlib.contextmanager
    def answers(self) -> Iterator[None]:
        """Turns errors of the driver into ``ServerError``, in its words."""
        try:
            yield
        except self.errors as error:
            raise ServerError(self.words(error) or type(error).__name__) from error

    def words(self, error: Exception) -> str:
        """Returns the words of a driver's error."""
        return str(error)

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier, by default in double quotes."""
        return quote(name)

    def rows_of(self, request: DatabaseOptions) -> str:
        """Returns the SQL of a request's rows after FROM, as ``q``."""
        if request.query is not None:
            return f"({request.query.strip().rstrip(';')}\n) AS q"
        return f"{'.'.join(map(self.quoted, (request.table or '').split('.')))} AS q"

    def order_by(self, key: str) -> str:
        """Returns the ORDER BY of a column, nulls last."""
        return f" ORDER BY {key} NULLS LAST"

    def select_of(
        self, request: DatabaseOptions, columns: Sequence[TableColumn], limit: int | None = None
    ) -> str:
        """Returns the SELECT of columns, of the first rows or all."""
        listed = ", ".join(f"{one.expression} AS {self.quoted(one.name)}" for one in columns)
        key = request.partition
        order = "" if key is None else self.order_by(f"q.{self.quoted(key)}")
        most = "" if limit is None else f" LIMIT {limit}"
        return f"SELECT {listed} FROM {self.rows_of(request)}{order}{most}"

    def count(self, request: DatabaseOptions) -> int:
        """Returns the server's number of rows."""
        ((count,),) = self.rows(f"SELECT count(*) AS n FROM {self.rows_of(request)}")
        return int(count)


def file_snapshot(path: str) -> str:
    """Returns the id of a file's state: its size and date."""
    found = os.stat(path)
    return f"{found.st_size} bytes, {found.st_mtime_ns} ns"
