"""A database in memory that expressions run in, by DuckDB."""

from __future__ import annotations

import contextlib
import decimal
import functools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.raw_numbers import raw_numbers
from beam_pipelines.core.formatting import shorten

if TYPE_CHECKING:
    import duckdb

# Name of the table of a batch's rows.
TABLE = "batch"
_LOCAL = threading.local()
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class ExpressionError(Exception):
    """An expression is not allowed, or has no value.

    The message shows why.
    """


class LargeColumnError(ExpressionError):
    """The values of a batch are larger together than they may be.

    Attributes:
      row: the last one whose value was made.
    """

    def __init__(self, row: int, size_bytes: int) -> None:
        super().__init__(f"values of {size_bytes:,} bytes together")
        self.row = row


def quote(name: str) -> str:
    """Returns a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def is_keyword(name: str) -> bool:
    """Whether a word names no column without quotes."""
    return name.lower() in _keywords()


def identifier(name: str) -> str:
    """Returns a name as an SQL identifier, in quotes if needed."""
    is_plain = _PLAIN.fullmatch(name) and not is_keyword(name)
    return name if is_plain else quote(name)


def literal(text: str) -> str:
    """Returns a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def not_null_line(name: str) -> str:
    """Returns the recipe's line that keeps rows with a value."""
    condition = f"{identifier(name)} IS NOT NULL"
    return f"filter: {condition if identifier(name) == name else json.dumps(condition)}"


@functools.cache
def _keywords() -> frozenset[str]:
    """Returns the words that name no column without quotes."""
    found = connection().execute(
        "SELECT keyword_name FROM duckdb_keywords() "
        "WHERE keyword_category IN ('reserved', 'type_function')"
    )
    return frozenset(word for (word,) in found.fetchall())


def connection(optimizes: bool = True) -> duckdb.DuckDBPyConnection:
    """Returns this thread's own database.

    It is in memory, with one thread, no files, no extensions, UTC, and locked settings.

    Args:
      optimizes: whether it optimizes plans, which takes longer than a row.
    """
    import duckdb  # only if there are expressions

    if not hasattr(_LOCAL, "connections"):
        new = duckdb.connect(
            ":memory:", config={"threads": 1, "enable_external_access": False, "temp_directory": ""}
        )
        plain = new.cursor()
        for setting in (
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "python_enable_replacements = false",
            "preserve_insertion_order = true",
            "TimeZone = 'UTC'",
            # Where Python has no program's file, a query of 2 s would write to standard output.
            "enable_progress_bar = false",
        ):
            new.execute(f"SET {setting}")
            plain.execute(f"SET {setting}")
        _add_functions(new)
        plain.execute("PRAGMA disable_optimizer")
        new.execute("SET lock_configuration = true")
        _LOCAL.connections = (plain, new)
    made: duckdb.DuckDBPyConnection = _LOCAL.connections[optimizes]
    return made


def _add_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds ``raw(numbers)``, which has no equal in DuckDB."""

    def raw(*arguments: pa.Array) -> pa.Array:
        if len(arguments) != 1:
            raise pa.ArrowInvalid(
                f"raw() of {len(arguments)} values, expected one: a number, or a list such as "
                "raw([a, b])"
            )
        return raw_numbers(columns.only_chunk(arguments[0]))

    connection.create_function("raw", raw, None, "BLOB", type="arrow", null_handling="special")


@contextlib.contextmanager
def registered(table: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Gives the connection with a table registered.

    Raises:
      ExpressionError: DuckDB raised an error in the body.
    """
    import duckdb

    database = connection()
    database.register(TABLE, table)
    try:
        yield database
    except duckdb.Error as error:
        raise ExpressionError(clean(str(error))) from error
    finally:
        database.unregister(TABLE)


def clean(message: str) -> str:
    """Returns DuckDB's message without the query and lists of functions."""
    message = re.sub(r"Python exception occurred while executing the UDF: \w+: ", "", message)
    message = re.split(r"\n\s*\nLINE \d+:|\nLINE \d+:|\n\s*Candidate", message)[0]
    return shorten(" ".join(message.split()), 300)  # it may have a value of megabytes


def parsed(statement: str) -> dict[str, Any]:
    """Returns DuckDB's parse tree of a statement.

    Raises:
      ExpressionError: it cannot be parsed.
    """
    rows = connection().execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    tree: dict[str, Any] = json.loads(rows[0][0])
    if tree["error"]:
        raise ExpressionError(clean(str(tree["error_message"])))
    return tree


def sql_of(statement: Mapping[str, Any], expression: Mapping[str, Any]) -> str:
    """Returns a part of a statement's parse tree as SQL."""
    (first,) = statement["statements"]
    node = {**first["node"], "select_list": [expression]}
    tree = json.dumps({**statement, "statements": [{**first, "node": node}]})
    ((found,),) = connection().execute("SELECT json_deserialize_sql(?)", [tree]).fetchall()
    return str(found).removeprefix("SELECT ")


def walk(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields every object of a parse tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from walk(item)


def arguments_of(node: Mapping[str, Any]) -> list[Any]:
    """Returns the arguments of a call in a parse tree.

    For DuckDB 1 or 2.
    """
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return list(node["children"])


def constant_of(node: Mapping[str, Any]) -> tuple[str, str]:
    """Returns kind and text of a constant in a parse tree.

    For DuckDB 1 or 2.

    Returns:
      ``STRING``, ``INTEGER`` or ``NUMERIC`` and the text; another kind for any other node.
    """
    if node["type"] != "VALUE_CONSTANT":
        return "", ""
    if "literal" in node:
        return str(node["literal"]["kind"]), str(node["literal"].get("text", ""))
    value, type_ = node["value"].get("value"), node["value"]["type"]
    if isinstance(value, str):
        return "STRING", value
    if isinstance(value, bool) or not isinstance(value, int):
        return "", ""
    if type_["id"] == "DECIMAL":
        return "NUMERIC", format(decimal.Decimal(value).scaleb(-type_["type_info"]["scale"]), "f")
    return "INTEGER", str(value)


def cast_target(node: Mapping[str, Any]) -> str:
    """Returns the type of a cast, in lower case."""
    if "type_expr" in node:
        return str(node["type_expr"].get("type_name", "")).lower()
    return str(node["cast_type"]["id"]).lower()
