"""The functions of DuckDB that an expression may call.

The value of an allowed function depends on its arguments alone. The list is ours: DuckDB's own
marks change with its releases, and hold for some overloads of a name only. The database's time zone
is UTC, so that the overloads of times with a zone are allowed.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.sql.database import arguments_of, connection, constant_of, walk

_CLOCK = "whose value is another one in every run"
_NESTING = "whose memory or stack grows with how deep a text of JSON nests"
# Sections of the file that are no reason to refuse a function.
_ALLOWED, _OF_LISTS = "allowed", "aggregates of lists"
# Names of the rest, and why they are refused.
_FAMILIES = (
    (re.compile("(icu_)?collate_.*|is( not)? distinct from"), None),
    (re.compile("__internal_.*"), "which is about DuckDB's own data"),
    (re.compile("(pg|has|inet)_.*"), _CLOCK),
    (re.compile("json_(contains|merge_patch|pretty|structure)|variant_.*"), _NESTING),
)
_SCHEMAS = ("main", "pg_catalog", "system")
# Functions that call the aggregate which their second argument names.
_AGGREGATING = frozenset(
    {"aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"}
)
# Functions whose second argument names types.
_TYPED = frozenset({"from_json", "from_json_strict", "json_transform", "json_transform_strict"})
# ``AT TIME ZONE`` moves such a time by the zone's offset on the day of the run.
_TIME_ZONE = re.compile(r"timetz|\btime\s+with\s+time\s+zone", re.IGNORECASE)
_ZONED_TIME = (
    "a value of type TIME WITH TIME ZONE, expected one that a column can hold, such as TIME or "
    "TIMESTAMP"
)
_REMEDIES = {
    "damerau_levenshtein": "; levenshtein(x, y) needs less",
    "list_reduce": "; list_sum(x) and list_aggregate(x, 'product') do not",
    "hash": "; md5_number_lower(x) is the same everywhere",
    "current_date": "; write the date, such as DATE '2026-01-31'",
}


@functools.cache
def _sections() -> dict[str, list[str]]:
    """Returns the sections of ``functions.txt``: reason -> names."""
    text = pathlib.Path(__file__).with_suffix(".txt").read_text()
    parts = (part.split("\n", 1) for part in text.removeprefix("# ").split("\n# "))
    return {reason: names.split() for reason, names in parts}


@functools.cache
def _decided() -> dict[str, str | None]:
    """Returns function -> why it is refused; ``None`` is allowed."""
    return {
        name: None if reason == _ALLOWED else reason
        for reason, names in _sections().items()
        if reason != _OF_LISTS
        for name in names
    }


@functools.cache
def _kinds() -> dict[str, set[str]]:
    """Returns function -> its kinds in DuckDB's catalogue."""
    kinds: dict[str, set[str]] = {}
    query = "SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions()"
    for name, kind in connection().execute(query).fetchall():
        kinds.setdefault(name, set()).add(kind)
    return kinds


def is_aggregate(name: str) -> bool:
    """Whether a function is an aggregate, and nothing else that is allowed."""
    return "aggregate" in _kinds().get(name, ()) and _decided().get(name, "") is not None


def is_decided(name: str) -> bool:
    """Whether a function is in the lists here."""
    return name in _decided() or any(pattern.fullmatch(name) for pattern, _ in _FAMILIES)


def refused_name(name: str) -> str | None:
    """Returns why no expression may call a function, or ``None``.

    Args:
      name: in lower case.
    """
    if name in _decided():
        reason = _decided()[name]
        return None if reason is None else reason + _REMEDIES.get(name, "")
    for pattern, reason in _FAMILIES:
        if pattern.fullmatch(name):
            return reason
    kinds = _kinds().get(name)
    if kinds is None:  # DuckDB says that it has none
        return None
    if "aggregate" in kinds:
        return "which would see one batch only"
    if not kinds & {"scalar", "macro"}:
        return "which makes a table"
    return (
        "which this release of beam-pipelines does not know, so that its value may depend on more "
        "than its arguments"
    )


def refused_call(node: Mapping[str, Any]) -> str | None:
    """Returns why a call in a parse tree is refused, or ``None``."""
    name = str(node["function_name"]).lower()
    arguments = arguments_of(node)
    if reason := refused_name(name):
        return reason
    # What stands before a point may be an argument; DuckDB 1 names the schema of operators.
    schemas = [node.get("schema") or "main", *node.get("qualified_name", {}).get("path", ())[:-1]]
    if any(schema.lower() not in _SCHEMAS for schema in schemas):
        return f"whose name has a point before it; expected {name}(…)"
    if name == "age" and len(arguments) != 2:
        return f"{_CLOCK} if it has one argument; expected age(later, earlier)"
    return _refused_names(name, arguments) if name in _AGGREGATING | _TYPED else None


def _refused_names(name: str, arguments: Sequence[Any]) -> str | None:
    """Returns why names that a text gives are refused, or ``None``."""
    kind, text = ("", "") if len(arguments) < 2 else constant_of(arguments[1])
    if kind != "STRING":
        return "whose second argument has to be a text in 'quotes'"
    if name in _TYPED:
        return f"with {_ZONED_TIME}" if _TIME_ZONE.search(text) else None
    words = f"with the aggregate '{text}', expected one such as 'sum' or 'median'"
    return None if text.lower() in _sections()[_OF_LISTS] else words


def refused_cast(node: Mapping[str, Any]) -> str | None:
    """Returns why a cast in a parse tree is refused, or ``None``."""
    target = node["type_expr"] if "type_expr" in node else node["cast_type"]
    if any("VARIANT" in (part.get("type_name"), part.get("id")) for part in walk(target)):
        return f"a value of type VARIANT, {_NESTING}; expected JSON or a type of a column"
    return _ZONED_TIME if _TIME_ZONE.search(json.dumps(target)) else None
