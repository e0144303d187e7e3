"""MariaDB and MySQL, read by PyMySQL.

The driver gives rows of texts, which become Arrow arrays column by column. As for the servers' own
programs, the URL says where the server is, then the group ``[client]`` of an option file, then
``MYSQL_PWD``.
"""

from __future__ import annotations

import configparser
import contextlib
import math
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError, keep_secret
from beam_pipelines.core.limits import MIB
from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    TableFacts,
    table_name,
)
from beam_pipelines_plugins.databases.mysql_types import column_of, fields_of, received

_OPTION_FILE, _PARAMETER, _GROUP = "~/.my.cnf", "defaults-file", "client"
_OFF = ("0", "off", "false")


def arguments_of(url: str) -> dict[str, Any]:
    """Returns the driver's arguments for a URL.

    Args:
      url: ``mysql://user@host:port/database?defaults-file=/path``, each part optional.

    Raises:
      DataError: a parameter that is not known, an option file that cannot be read.
    """
    parts = urllib.parse.urlsplit(url)
    parameters = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    for name in sorted(set(parameters) - {_PARAMETER}):
        raise DataError(
            f"found the parameter '{name}' in a URL of {parts.scheme}, expected only "
            f"'{_PARAMETER}'. Write the option into that file, in the group [{_GROUP}]."
        )
    options = _options(parameters.get(_PARAMETER))
    password = options.get("password") or os.environ.get("MYSQL_PWD", "")
    keep_secret(password)
    host = parts.hostname or options.get("host")
    return {
        "user": urllib.parse.unquote(parts.username or "") or options.get("user"),
        # The driver would take Latin-1.
        "password": password.encode(),
        "host": host,
        "port": parts.port or _port(options),
        "unix_socket": None if parts.hostname else options.get("socket"),
        "database": urllib.parse.unquote(parts.path.strip("/")) or options.get("database"),
        **_encryption(options),
    }


def _port(options: Mapping[str, str]) -> int:
    text = options.get("port", "0")
    if not text.isdecimal():
        raise DataError(f"found port '{text}' in an option file, expected a number. Correct it.")
    return int(text)


def _encryption(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the driver's arguments for TLS.

    Without options it encrypts if the server can, and does not check who the server is.
    """
    mode = options.get("ssl-mode", "").upper()
    checks_name = mode == "VERIFY_IDENTITY" or _is_on(options, "ssl-verify-server-cert")
    checks = checks_name or mode == "VERIFY_CA" or "ssl-ca" in options
    if checks or "ssl-cert" in options:
        return {
            "ssl_ca": options.get("ssl-ca"),
            "ssl_cert": options.get("ssl-cert"),
            "ssl_key": options.get("ssl-key"),
            "ssl_verify_cert": checks,
            "ssl_verify_identity": checks_name,
        }
    if mode == "DISABLED" or _is_on(options, "skip-ssl"):
        return {"ssl_disabled": True}
    return {"ssl": {"verify_mode": "none"}} if mode == "REQUIRED" or _is_on(options, "ssl") else {}


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return name in options and options[name].lower() not in _OFF


def _options(path: str | None) -> dict[str, str]:
    """Returns the options of a file's group, by names with hyphens.

    Args:
      path: of the file, which must be there; ``None``: the user's, if there is one.
    """
    from pymysql.optionfile import Parser

    found, parser = os.path.expanduser(path or _OPTION_FILE), Parser(strict=False)
    if not os.path.exists(found):
        if path is None:
            return {}
        raise DataError(f"there is no file {found}. Check '{_PARAMETER}' of the URL.")
    try:
        with open(found, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # No text of the file is shown: it may have a password.
        raise DataError(
            f"{found}: found a file that cannot be read ({type(error).__name__}), expected options "
            "of MariaDB's and MySQL's clients, as UTF-8 text."
        ) from None
    found_options = parser.items(_GROUP) if parser.has_section(_GROUP) else ()
    return {name: parser.get(_GROUP, name) if value else "" for name, value in found_options}


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
        return _MysqlSession(url)

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        doubled = name.replace("`", "``")
        return f"`{doubled}`"

    def order_of(self, request: RowRequest) -> str:
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


class _MysqlSession(Session):
    def __init__(self, url: str) -> None:
        try:
            import pymysql
            from pymysql.cursors import SSCursor
        except ImportError as error:
            raise DataError(
                "MariaDB and MySQL: found no package PyMySQL. Install it: pip install "
                "'./plugins[databases]' in a clone."
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

    def describe(self, request: RowRequest) -> TableFacts:
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
        return TableFacts(columns, rows, rows * 12 * len(columns), tuple(said))

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
