"""MariaDB and MySQL, read by PyMySQL.

The driver gives rows of texts, which become Arrow arrays column by column.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines_plugins.databases.database import (
    Database,
    Description,
    Request,
    ServerError,
    Session,
)
from beam_pipelines_plugins.databases.mysql_login import arguments_of
from beam_pipelines_plugins.databases.mysql_types import column_of, fields_of, received
from beam_pipelines_plugins.databases.names import table_name

_FIRST_ROWS, _MOST_ROWS, _BATCH_BYTES = 256, 65_536, 16 * MIB
_CLEAR_TEXT = ("mysql_clear_password", "dialog")
_PLUGIN_ERROR = 2061
_SETTINGS = (
    "SET autocommit = 1, time_zone = '+00:00'",
    # Nothing is cut off: neither rows, nor lists of GROUP_CONCAT.
    "SET sql_select_limit = 18446744073709551615, group_concat_max_len = 4294967295",
    # A slow disk may keep the server waiting.
    "SET net_write_timeout = 3600",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
)
_TABLES = """
SELECT CASE WHEN table_schema = DATABASE() THEN '' ELSE table_schema END, table_name, engine
FROM information_schema.tables WHERE (DATABASE() IS NULL OR table_schema = DATABASE())
  AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2
"""
# Engines whose tables have snapshots; views have no engine.
_WITH_SNAPSHOTS = (b"InnoDB", b"ROCKSDB", None)


class Mysql(Database):
    """MySQL 5.7 and later."""

    name = "MySQL"
    format = "mysql"
    schemes = ("mysql",)

    def connect(self, url: str) -> Session:
        """Opens a connection; see ``Database``."""
        return _Session(url)

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        doubled = name.replace("`", "``")
        return f"`{doubled}`"

    def order_of(self, request: Request) -> str:
        """Returns the ORDER BY of a request, nulls last, or ""."""
        if request.partition is None:
            return ""
        key = f"q.{self.quoted(request.partition)}"
        return f" ORDER BY {key} IS NULL, {key}"


class Mariadb(Mysql):
    """MariaDB 10.3 and later."""

    name = "MariaDB"
    format = "mariadb"
    schemes = ("mariadb",)


class _Session(Session):
    def __init__(self, url: str) -> None:
        try:
            import pymysql
            from pymysql.cursors import SSCursor
        except ImportError as error:
            raise DataError(
                "MariaDB and MySQL: found no package PyMySQL. Install it: pip install "
                "'beam-pipelines[databases]'."
            ) from error
        self._errors: Any = (pymysql.MySQLError, pa.ArrowException, OSError)
        self._connect, self._streamed = pymysql.connect, SSCursor
        # Rows are bytes, and no statement of the driver's own is sent.
        self._arguments = arguments_of(url) | {"use_unicode": False, "conv": {}}
        self._arguments |= {"charset": "utf8mb4", "autocommit": None}
        if not self._arguments.get("ssl_verify_cert"):
            # Another program could answer, and ask for the password itself.
            self._arguments["auth_plugin_map"] = dict.fromkeys(_CLEAR_TEXT, _ClearText)
        with self._explained(ValueError, RuntimeError):
            self._connection = self._connect(**self._arguments)
        for setting in _SETTINGS:
            self.rows(setting)

    def describe(self, request: Request) -> Description:
        """Returns columns and size; see ``Session``."""
        select = f"SELECT * FROM {Mysql().rows_of(request)}"
        with self._explained(), self._connection.cursor() as cursor:
            cursor.execute(f"{select} LIMIT 0")
            fields = fields_of(cursor)
            rows = self._estimate(cursor, select)
        columns = tuple(
            column_of(field, Mysql().quoted(field.name), request.types.get(field.name))
            for field in fields
        )
        text = request.table or request.query or ""
        said = (
            f"table '{name.decode()}' is of {engine.decode()}, which has no snapshots: its rows "
            "are those of the moment when they are read"
            for _, name, engine in self.rows(_TABLES)
            if engine not in _WITH_SNAPSHOTS and name.decode() in text
        )
        return Description(columns, rows, rows * 12 * len(columns), tuple(said))

    def tables(self) -> list[str]:
        """Returns the names of tables and views that the user may read."""
        return [
            table_name(*(part.decode() for part in row[:2] if part)) for row in self.rows(_TABLES)
        ]

    def begin(self) -> str:
        """Begins at a snapshot; see ``Session``.

        Its id is the place in the binary log, where MariaDB tells it, or the time.
        """
        self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        ((time,),) = self.rows("SELECT UTC_TIMESTAMP(6)")
        log = {key: value.decode() for key, value in self.rows("SHOW STATUS LIKE 'binlog_snap%'")}
        if log.get(b"Binlog_snapshot_file"):
            return f"{log[b'Binlog_snapshot_file']}:{log[b'Binlog_snapshot_position']}"
        return f"{time.decode()} UTC"

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, in batches of about 16 MiB."""
        cursor, is_done = self._connection.cursor(self._streamed), False
        try:
            with self._explained():
                cursor.execute(select)
                fields = fields_of(cursor)
                number = _FIRST_ROWS
                while rows := cursor.fetchmany(number):
                    columns = zip(*rows, strict=True)
                    arrays = [received(*pair) for pair in zip(columns, fields, strict=True)]
                    names = [field.name for field in fields]
                    batch = pa.RecordBatch.from_arrays(arrays, names=names)
                    number = max(1, min(_MOST_ROWS, _BATCH_BYTES * len(rows) // (batch.nbytes + 1)))
                    yield batch
            is_done = True
        finally:
            if not is_done:
                self._stop()
            self._close(cursor)
            # The driver would read on, even of a broken connection, when it collects the result.
            if cursor._result is not None:  # noqa: SLF001
                cursor._result.unbuffered_active = False  # noqa: SLF001

    def close(self) -> None:
        """Ends the connection."""
        self._close(self._connection)

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement, as bytes."""
        with self._explained(), self._connection.cursor() as cursor:
            cursor.execute(select)
            return list(cursor.fetchall())

    def _estimate(self, cursor: Any, select: str) -> int:
        """Returns the server's estimate of rows; 1: it tells none."""
        with contextlib.suppress(*self._errors):
            cursor.execute(f"EXPLAIN {select}")
            places = {column[0]: place for place, column in enumerate(cursor.description)}
            steps = [step for step in cursor.fetchall() if step[places["id"]] == b"1"]
            return max(1, math.prod(int(step[places["rows"]] or 1) for step in steps))
        return 1

    def _stop(self) -> None:
        """Ends the SELECT; else the driver would read all rows."""
        with contextlib.suppress(*self._errors):
            other = self._connect(**self._arguments)
            with contextlib.closing(other), other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {self._connection.thread_id()}")

    def _close(self, opened: Any) -> None:
        # It may be broken already.
        with contextlib.suppress(*self._errors, AttributeError):
            opened.close()

    @contextlib.contextmanager
    def _explained(self, *more: type[Exception]) -> Iterator[None]:
        try:
            yield
        except (*self._errors, *more) as error:
            code, *rest = error.args or ("",)
            raise ServerError(f"{rest[0]} ({code})" if rest else error) from error


class _ClearText:
    """Refuses to send a password that others could read."""

    def __init__(self, connection: Any) -> None:
        pass

    def authenticate(self, packet: Any) -> Any:
        """Refuses.

        Raises:
          pymysql.OperationalError: always.
        """
        from pymysql import OperationalError

        raise OperationalError(
            _PLUGIN_ERROR,
            "the server asks for the password in clear text, which is sent only to a server whose "
            "certificate is checked: name its authority with 'ssl-ca' in the option file",
        )
