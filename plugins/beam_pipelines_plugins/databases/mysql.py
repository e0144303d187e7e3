"""MariaDB and MySQL, read by PyMySQL.

The driver gives rows of texts, which become Arrow arrays column by column. One connection reads
all: several could share a snapshot only under a lock on the whole server.
"""

from __future__ import annotations

import contextlib
import math
import re
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
from beam_pipelines_plugins.databases.mysql_types import (
    Field,
    column_of,
    fields_of,
    received,
)
from beam_pipelines_plugins.databases.names import name_parts, table_name

_FIRST_ROWS, _MOST_ROWS, _BATCH_BYTES = 256, 65_536, 16 * MIB
# Connections that are refused, closed or killed, and a server that stops or is full.
_TRANSIENT = (1040, 1053, 1152, 1158, 1159, 1160, 1161, 1927, 2002, 2003, 2006, 2013, 2055)
_CLEAR_TEXT = ("mysql_clear_password", "dialog")
_PLUGIN_ERROR, _NO_RIGHT_TO_EXPLAIN = 2061, 1345
# Engines whose tables have snapshots.
_WITH_SNAPSHOTS = ("InnoDB", "ROCKSDB")
_SETTINGS = (
    "SET autocommit = 1, time_zone = '+00:00'",
    # Nothing is cut off: neither rows, nor lists of GROUP_CONCAT.
    "SET sql_select_limit = 18446744073709551615, group_concat_max_len = 4294967295",
    # A slow disk may keep the server waiting.
    "SET net_write_timeout = 3600",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
)
# Names, texts and comments, in which words mean nothing; but the server runs /*! … */.
_COMMENTS = r"/\*(?!M?!).*?\*/|--\s[^\n]*|#[^\n]*"
_PLAIN = re.compile(rf"`[^`]*`|'[^']*'|\"[^\"]*\"|{_COMMENTS}", re.DOTALL)
_ESCAPED = re.compile(rf"`[^`]*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|{_COMMENTS}", re.DOTALL)
# Other values each time, or for each statement.
_VOLATILE = re.compile(
    r"\b(rand|uuid|uuid_short|sysdate|sleep|now|curdate|curtime|current_timestamp|current_date|"
    r"current_time|localtime|localtimestamp|unix_timestamp|utc_date|utc_time|utc_timestamp|nextval|"
    r"lastval|last_insert_id|random_bytes|get_lock|benchmark)\s*\(|"
    r"\bcurrent_(timestamp|date|time)\b|\blocaltime(stamp)?\b|\butc_(date|time|timestamp)\b|@\w",
    re.IGNORECASE,
)


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
        return _quoted(name)

    def order_of(self, request: Request) -> str:
        """Returns the ORDER BY of a request, nulls last, or ""."""
        if request.partition is None:
            return ""
        key = f"q.{_quoted(request.partition)}"
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
        self._errors: Any = pymysql.MySQLError
        self._connect, self._streamed = pymysql.connect, SSCursor
        # Rows are bytes, and no statement of the driver's own is sent.
        self._arguments = arguments_of(url) | {"use_unicode": False, "conv": {}}
        self._arguments |= {"charset": "utf8mb4", "autocommit": None}
        if not self._arguments.get("ssl_verify_cert"):
            # Another program could answer, and ask for the password itself.
            self._arguments["auth_plugin_map"] = dict.fromkeys(_CLEAR_TEXT, _ClearText)
        try:
            self._connection = self._connect(**self._arguments)
            for setting in _SETTINGS:
                self._rows(setting)
        except (self._errors, OSError, ValueError, RuntimeError) as error:
            raise _server_error(error) from error

    def describe(self, request: Request) -> Description:
        """Returns columns and size; see ``Session``."""
        rows = Mysql().rows_of(request)
        fields = self._fields(f"SELECT * FROM {rows} LIMIT 0")
        columns = tuple(
            column_of(field, _quoted(field.name), request.types.get(field.name)) for field in fields
        )
        count, text = self._explained(f"SELECT * FROM {rows}")
        text, named = self._with_views(request, f"{text}\n{request.query or ''}")
        without_snapshots = tuple(self._without_snapshots(named))
        return Description(
            columns,
            count,
            count * 12 * len(columns),
            self._is_repeatable(text),
            without_snapshots,
        )

    def tables(self) -> list[str]:
        """Returns the names of tables and views that the user may read."""
        rows = self._rows(
            "SELECT CASE WHEN table_schema = DATABASE() THEN '' ELSE table_schema END, table_name "
            "FROM information_schema.tables "
            "WHERE (DATABASE() IS NULL OR table_schema = DATABASE()) AND table_schema NOT IN "
            "('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2"
        )
        return [table_name(*(part.decode() for part in row if part)) for row in rows]

    def begin(self, snapshot: str | None = None) -> str:
        """Begins at a new snapshot; see ``Session``.

        Its id is the place in the binary log, where MariaDB tells it, or the time.
        """
        self._rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        ((time,),) = self._rows("SELECT UTC_TIMESTAMP(6)")
        log = {key: value.decode() for key, value in self._rows("SHOW STATUS LIKE 'binlog_snap%'")}
        if log.get(b"Binlog_snapshot_file"):
            return f"{log[b'Binlog_snapshot_file']}:{log[b'Binlog_snapshot_position']}"
        return f"{time.decode()} UTC"

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT, in batches of about 16 MiB."""
        cursor, is_done = self._connection.cursor(self._streamed), False
        try:
            cursor.execute(select)
            fields = fields_of(cursor)
            number = _FIRST_ROWS
            while rows := cursor.fetchmany(number):
                columns = zip(*rows, strict=True)
                arrays = [received(*pair) for pair in zip(columns, fields, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
                number = max(1, min(_MOST_ROWS, _BATCH_BYTES * len(rows) // (batch.nbytes + 1)))
                yield batch
            is_done = True
        except (self._errors, pa.ArrowException, OSError) as error:
            is_done = isinstance(error, self._errors)
            raise _server_error(error) from error
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

    def _stop(self) -> None:
        """Ends the SELECT; else the driver would read all rows."""
        with contextlib.suppress(self._errors, OSError):
            other = self._connect(**self._arguments)
            with contextlib.closing(other), other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {self._connection.thread_id()}")

    def _close(self, opened: Any) -> None:
        # It may be broken already.
        with contextlib.suppress(self._errors, OSError, AttributeError):
            opened.close()

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except (self._errors, OSError) as error:
            raise _server_error(error) from error

    def _fields(self, select: str) -> list[Field]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(select)
                return fields_of(cursor)
        except (self._errors, OSError) as error:
            raise _server_error(error) from error

    def _explained(self, select: str) -> tuple[int, str]:
        """Returns the server's estimate of rows, and its text of the query."""
        is_mariadb = "mariadb" in self._connection.get_server_info().lower()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {'EXTENDED ' if is_mariadb else ''}{select}")
                places = {column[0]: place for place, column in enumerate(cursor.description)}
                steps = cursor.fetchall()
                cursor.execute("SHOW WARNINGS")
                notes = [note[2].decode() for note in cursor.fetchall()]
        except (self._errors, OSError) as error:
            if error.args[:1] == (_NO_RIGHT_TO_EXPLAIN,):
                return 1, ""
            raise _server_error(error) from error
        joined = [int(step[places["rows"]] or 1) for step in steps if step[places["id"]] == b"1"]
        return max(1, math.prod(joined)), "\n".join(notes)

    def _is_repeatable(self, text: str) -> bool:
        """Whether a query names no volatile function."""
        # Both ways to read a backslash: it depends on the server's mode.
        if any(_VOLATILE.search(literals.sub(" ", text)) for literals in (_PLAIN, _ESCAPED)):
            return False
        names = {name.lower() for name in re.findall(r"([A-Za-z_$][\w$]*)`?\s*\(", text)}
        rows = self._rows(
            "SELECT DISTINCT LOWER(routine_name) FROM information_schema.routines "
            "WHERE routine_type = 'FUNCTION' AND is_deterministic = 'NO'"
        )
        return not names & {name.decode() for (name,) in rows}

    def _with_views(self, request: Request, text: str) -> tuple[str, set[tuple[str, str]]]:
        """Returns a query with its views' texts, and its tables.

        Tables are pairs of schema and name. A view whose text the user may not see is a table.
        """
        ((own,),) = self._rows("SELECT DATABASE()")
        *schema, table = name_parts(request.table or "") or [""]
        new = {(schema[0] if schema else (own or b"").decode(), table)} | _tables_in(text)
        named: set[tuple[str, str]] = set()
        while new := new - named:
            named |= new
            rows = self._rows(
                "SELECT view_definition FROM information_schema.views "
                f"WHERE (table_schema, table_name) IN ({_literals(new)})"
            )
            found = "\n".join(definition.decode() for (definition,) in rows)
            text, new = f"{text}\n{found}", _tables_in(found)
        return text, named

    def _without_snapshots(self, named: set[tuple[str, str]]) -> Iterator[str]:
        """Yields a sentence for each table that has no snapshots."""
        for table, engine in self._rows(
            "SELECT table_name, engine FROM information_schema.tables WHERE table_schema NOT IN "
            f"('information_schema', 'performance_schema') AND engine NOT IN {_WITH_SNAPSHOTS} "
            f"AND (table_schema, table_name) IN ({_literals(named)}) ORDER BY 1"
        ):
            yield (
                f"table '{table.decode()}' is of {engine.decode()}, which has no snapshots: its "
                "rows are those of the moment when they are read"
            )


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


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _tables_in(text: str) -> set[tuple[str, str]]:
    """Returns schema and name of possible tables in a server's text."""
    pairs = re.findall(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`", text)
    return {(schema.replace("``", "`"), table.replace("``", "`")) for schema, table in pairs}


def _literals(tables: set[tuple[str, str]]) -> str:
    """Returns tables as texts of SQL, in whatever mode of it."""
    literal = "CONVERT(x'{}' USING utf8mb4)"
    pairs = (
        f"({', '.join(literal.format(name.encode().hex()) for name in table)})" for table in tables
    )
    return ", ".join(pairs)


def _server_error(error: Any) -> ServerError:
    code, *rest = error.args or ("",)
    if not isinstance(code, int) or not rest:
        return ServerError(str(error), isinstance(error, OSError))
    return ServerError(f"{rest[0]} ({code})", code in _TRANSIENT)
