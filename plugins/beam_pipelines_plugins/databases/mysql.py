"""MariaDB and MySQL, read by PyMySQL.

The driver gives rows of texts, which Arrow casts to the types of their columns. As for the servers'
own programs, the URL says where the server is, then the group ``[client]`` of an option file, then
``MYSQL_PWD``.
"""

from __future__ import annotations

import configparser
import contextlib
import math
import os
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError, keep_secret
from beam_pipelines.core.limits import MIB
from beam_pipelines_plugins.databases import database
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.extras import needed

_OPTION_FILE, _PARAMETER, _GROUP = "~/.my.cnf", "defaults-file", "client"


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
    return {
        "user": urllib.parse.unquote(parts.username or "") or options.get("user"),
        # The driver would take Latin-1.
        "password": password.encode(),
        "host": parts.hostname or options.get("host"),
        "port": parts.port or int(options.get("port", "0")),
        "unix_socket": None if parts.hostname else options.get("socket"),
        "database": urllib.parse.unquote(parts.path.strip("/")) or options.get("database"),
        **_encryption(options),
    }


def _encryption(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the driver's arguments for TLS.

    Without options it encrypts if the server can, and does not check who the server is.
    """

    def is_on(name: str) -> bool:
        return options.get(name, "off").lower() not in ("0", "off", "false")

    mode = options.get("ssl-mode", "").upper()
    checks_name = mode == "VERIFY_IDENTITY" or is_on("ssl-verify-server-cert")
    checks = checks_name or mode == "VERIFY_CA" or "ssl-ca" in options
    if not checks and (mode == "DISABLED" or is_on("skip-ssl")):
        return {"ssl_disabled": True}
    if not (checks or mode == "REQUIRED" or is_on("ssl") or "ssl-cert" in options):
        return {}
    names = (name for name in ("ca", "cert", "key") if f"ssl-{name}" in options)
    files = {name: options[f"ssl-{name}"] for name in names}
    return {"ssl": {**files, "verify_mode": checks, "check_hostname": checks_name}}


def _options(path: str | None) -> dict[str, str]:
    """Returns the options of a file's group, by names with hyphens.

    Args:
      path: of the file, which must be there; ``None``: the user's, if there is one.
    """
    from pymysql.optionfile import Parser

    found, parser = os.path.expanduser(path or _OPTION_FILE), Parser(strict=False)
    if path is None and not os.path.exists(found):
        return {}
    try:
        with open(found, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # No text of the file is shown: it may have a password.
        raise DataError(
            f"{found}: found a file that cannot be read ({type(error).__name__}), expected options "
            f"of MariaDB's and MySQL's clients, as UTF-8 text. Check '{_PARAMETER}' of the URL."
        ) from None
    options = parser.items(_GROUP) if parser.has_section(_GROUP) else ()
    return {name: parser.get(_GROUP, name) if value else "" for name, value in options}


# Number of a type in the protocol -> its name, and the Arrow type of its values.
_TYPES: Mapping[int, tuple[str, pa.DataType | None]] = {
    **dict.fromkeys((0, 246), ("decimal", pa.string())),
    1: ("tinyint", pa.int64()),
    2: ("smallint", pa.int64()),
    3: ("int", pa.int64()),
    4: ("float", pa.float32()),
    5: ("double", pa.float64()),
    6: ("null", pa.string()),
    7: ("timestamp", pa.timestamp("us", "UTC")),
    8: ("bigint", pa.int64()),
    9: ("mediumint", pa.int64()),
    10: ("date", pa.date32()),
    11: ("time", pa.time64("us")),
    12: ("datetime", pa.timestamp("us")),
    13: ("year", pa.int64()),
    16: ("bit", pa.int64()),
    **dict.fromkeys((15, 253, 254), ("char", pa.string())),
    245: ("json", pa.string()),
    **dict.fromkeys((249, 250, 251, 252), ("text", pa.string())),
    255: ("geometry", None),
}
# How values are asked for. Else bits would come as bytes, floats with the digits that are shown.
_VALUES = {
    "bit": "({} + 0)",
    **dict.fromkeys(("float", "double"), "{} * 1E0"),
    "timestamp": "CONCAT({}, '+00:00')",
}
_TEXTS = {"bit": "({} + 0)", "geometry": "ST_AsText({})"}
# A flag of numbers, and the character set of bytes.
_UNSIGNED, _BINARY = 32, 63


def column_of(field: Any, quoted: str, declared: str | None) -> database.TableColumn:
    """Returns how a column is read.

    Args:
      field: of the driver: its name, number, flags and sizes.
      quoted: its name as SQL.
      declared: the recipe's type, or ``None``.
    """
    column, found = f"q.{quoted}", None
    kind, stored = _TYPES.get(field.type_code, (f"type {field.type_code}", None))
    value = _VALUES.get(kind, "{}") if declared != "text" else _TEXTS.get(kind, "{}")
    if kind == "decimal":
        # The length has sign and point.
        digits = field.length - (field.scale > 0) - (not field.flags & _UNSIGNED)
        kind = f"decimal({digits},{field.scale})"
        if declared is None:
            stored, found = database.decimal_types(digits, field.scale)
    if kind in ("char", "text") and field.charsetnr == _BINARY:
        kind, stored = "blob", pa.binary()
    elif declared == "text":
        stored = pa.string()
    return database.TableColumn(field.name, kind, value.format(column), stored, found)


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


class Mysql(database.Database):
    """MySQL 5.7 and later."""

    name = "MySQL"
    format = "mysql"
    schemes = ("mysql",)

    def __init__(self, url: str) -> None:
        with needed("MariaDB and MySQL", "databases"):
            import pymysql
            from pymysql.cursors import SSCursor

        self.errors = (pymysql.MySQLError, OSError, ValueError, RuntimeError)
        self._streamed = SSCursor
        # Rows are bytes, and no statement of the driver's own is sent.
        fixed: dict[str, Any] = {"use_unicode": False, "conv": {}, "charset": "utf8mb4"}
        with self.answers():
            arguments = arguments_of(url)
            if not arguments.get("ssl", {}).get("verify_mode"):
                # Another program could answer, and ask for the password itself.
                fixed["auth_plugin_map"] = dict.fromkeys(_CLEAR_TEXT, _refuse_clear_text)
            self._connection = pymysql.connect(autocommit=None, **fixed, **arguments)
        for setting in _SETTINGS:
            self.rows(setting)

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        doubled = name.replace("`", "``")
        return f"`{doubled}`"

    def order_by(self, key: str) -> str:
        """Returns the ORDER BY of a column, nulls last."""
        return f" ORDER BY {key} IS NULL, {key}"

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> database.TableFacts:
        """Returns columns and size; see ``Database``."""
        with self.answers(), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.rows_of(request)} LIMIT 0")
            # DB-API's description has neither signs nor character sets.
            columns = tuple(
                column_of(field, self.quoted(field.name), types.get(field.name))
                for field in cursor._result.fields  # noqa: SLF001
            )
        return database.TableFacts(
            columns, self._estimate(f"SELECT * FROM {self.rows_of(request)}")
        )

    def begin(self) -> str:
        """Begins at a snapshot; see ``Database``.

        Its id is the place in the binary log, where MariaDB tells it, or the time.
        """
        self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        ((time,),) = self.rows("SELECT UTC_TIMESTAMP(6)")
        log = {key: value.decode() for key, value in self.rows("SHOW STATUS LIKE 'binlog_snap%'")}
        if log.get(b"Binlog_snapshot_file"):
            return f"{log[b'Binlog_snapshot_file']}:{log[b'Binlog_snapshot_position']}"
        return f"{time.decode()} UTC"

    def read(
        self, request: DatabaseOptions, columns: Sequence[database.TableColumn], limit: int | None
    ) -> Iterator[Sequence[database.Values]]:
        """Yields the rows of a request as bytes, about 16 MiB each."""
        cursor, number, is_done = self._connection.cursor(self._streamed), _FIRST_ROWS, False
        try:
            with self.answers():
                cursor.execute(self.select_of(request, columns, limit))
                while rows := cursor.fetchmany(number):
                    found = [pa.array(values, pa.binary()) for values in zip(*rows, strict=True)]
                    size_bytes = sum(values.nbytes for values in found)
                    number = max(1, min(_MOST_ROWS, _BATCH_BYTES * len(rows) // (size_bytes + 1)))
                    yield found
            is_done = True
        finally:
            if not is_done:
                # The driver would read all rows; without a connection it cannot.
                self._connection._force_close()  # noqa: SLF001
                if cursor._result is not None:  # noqa: SLF001
                    cursor._result.unbuffered_active = False  # noqa: SLF001

    def _estimate(self, select: str) -> int | None:
        """Returns the server's estimate of rows; ``None``: the user may not ask."""
        with contextlib.suppress(*self.errors), self._connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {select}")
            places = {column[0]: place for place, column in enumerate(cursor.description)}
            steps = [step for step in cursor.fetchall() if step[places["id"]] == b"1"]
            return math.prod(int(step[places["rows"]] or 1) for step in steps)
        return None

    def words(self, error: Exception) -> str:
        """Returns the server's words, with the number of the error."""
        code, *rest = error.args or ("",)
        return f"{rest[0]} ({code})" if rest else str(error)


class Mariadb(Mysql):
    """MariaDB 10.3 and later."""

    name = "MariaDB"
    format = "mariadb"
    schemes = ("mariadb",)


def _refuse_clear_text(_: Any) -> None:
    """Refuses to send a password that others could read."""
    from pymysql import OperationalError

    raise OperationalError(
        _PLUGIN_ERROR,
        "the server asks for the password in clear text, which is sent only to a server whose "
        "certificate is checked: name its authority with 'ssl-ca' in the option file",
    )
