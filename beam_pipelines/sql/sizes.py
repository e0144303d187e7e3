"""How far the values of an expression may outgrow its columns.

DuckDB's ``memory_limit`` does not bound texts and lists. So an expression's parse tree is measured
before anything is evaluated. A size counts bytes of a text and values of a list; a value of a
source counts as 1.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from beam_pipelines.sql import database

MOST = 1_000_000
_FAR = 10**18
# Function -> place of the number that sets the size of its value.
_COUNTED = {
    "array_resize": 1,
    "bitstring": 1,
    "equi_width_bins": 2,
    "list_resize": 1,
    "lpad": 1,
    "repeat": 1,
    "rpad": 1,
}
_SERIES = ("generate_series", "range")
_FORMATS = ("format", "printf")
_MAPS = frozenset({"apply", "array_apply", "array_transform", "list_apply", "list_transform"})
_FILTERS = frozenset({"array_filter", "filter", "list_filter"})
# The value may have each argument once for each part of another.
_CROSSING = """aggregate array_aggr array_aggregate array_select array_to_string list_aggr
list_aggregate list_select list_string_agg"""
_PATHS = "->> json_extract json_extract_path json_extract_path_text json_extract_string json_value"
# The value is one of the arguments, or a number.
_CHOOSING = "- * / // % ** ^ greatest least if nullif"
_REPLACING = ("regexp_replace", "replace")
_MULTIPLYING = frozenset((*_COUNTED, *_CROSSING.split(), *_REPLACING))
_WITH_LAMBDA = _MAPS | _FILTERS
# Function -> bytes that it makes of one.
_ENCODING = {
    "base64": 2,
    "bin": 8,
    "hex": 2,
    "json_quote": 6,
    "nfc_normalize": 3,
    "regexp_escape": 4,
    "strip_accents": 3,
    "to_base64": 2,
    "to_binary": 8,
    "to_hex": 2,
    "to_json": 6,
    "url_encode": 3,
}
_TEXT_TYPES = ("varchar", "text", "string", "char", "bpchar", "json")

# Name of a lambda's parameter -> its size within its own lambda, and its largest one.
Parameters = Mapping[str, tuple[int, int]]


def size_of(tree: Mapping[str, Any], columns: Mapping[str, int]) -> tuple[int, int]:
    """Returns how far a value, and a part, may outgrow its input.

    Args:
      tree: of the expression.
      columns: name of a derived column in lower case -> its size.

    Raises:
      ExpressionError: the size of a part depends on the data, or is above ``MOST``.
    """
    sizes = _Sizes(columns)
    return sizes.of(tree, {}), sizes.largest


class _Sizes:
    """Measures parts of a parse tree."""

    def __init__(self, columns: Mapping[str, int]) -> None:
        self._columns, self.largest = columns, 1

    def of(self, node: Mapping[str, Any], known: Parameters) -> int:
        """Returns the size of a part."""
        size = self._size(node, known)
        if size > MOST:
            name = str(node.get("function_name", node["type"]))
            shown = f"{size:,}" if size < _FAR else "more than 10^18"
            raise database.ExpressionError(
                f"found a part ('{name}') that may become {shown} times as large as a value "
                f"of a column, expected at most {MOST:,}; use smaller numbers"
            )
        self.largest = max(self.largest, size)
        return size

    def _size(self, node: Mapping[str, Any], known: Parameters) -> int:
        kind = node["class"]
        if kind in ("CONSTANT", "COLUMN_REF"):
            return self._leaf(node, known)
        if kind == "FUNCTION":
            return self._call(node, known)
        if kind == "LAMBDA":  # ``json -> path`` is parsed as one
            return self._path([node["lhs"], node["expr"]], known)
        sizes = [self.of(each, known) for each in _parts(node)]
        if kind == "CASE":
            values = [*(check["then_expr"] for check in node["case_checks"]), node["else_expr"]]
            return max(self.of(each, known) for each in values)
        if kind in ("COMPARISON", "CONJUNCTION", "BETWEEN") or not sizes:
            return 1
        return (max if node["type"] == "OPERATOR_COALESCE" else sum)(sizes) * (
            4 if kind == "CAST" and database.cast_target(node) in _TEXT_TYPES else 1
        )

    def _leaf(self, node: Mapping[str, Any], known: Parameters) -> int:
        if node["class"] == "CONSTANT":
            kind, text = database.constant_of(node)
            return max(1, len(text.encode())) if kind == "STRING" else 1
        name = str(node["column_names"][0]).lower()
        return max(known.get(name, (1, 1))[0], self._columns.get(name, 1))

    def _call(self, node: Mapping[str, Any], known: Parameters) -> int:
        name, arguments = str(node["function_name"]).lower(), database.arguments_of(node)
        if name in _WITH_LAMBDA and len(arguments) > 1 and arguments[1]["class"] == "LAMBDA":
            size = self.of(arguments[0], known)
            body = self.of(arguments[1]["expr"], _inner(arguments[1], known, [(1, size)]))
            return size * body if name in _MAPS else size
        if name in _PATHS.split():
            return self._path(arguments, known)
        if name in _MULTIPLYING:
            known = _largest(known)
        sizes = [self.of(each, known) for each in arguments]
        for each in (node.get("filter"), node.get("order_bys")):
            sizes += [self.of(part, known) for part in _parts({"": each})]
        return _RULES.get(name, _joined)(name, arguments, sizes)

    def _path(self, arguments: Sequence[Any], known: Parameters) -> int:
        """Returns the size of a value's parts at given paths."""
        _check_paths(arguments[1:])
        known = _largest(known)
        computed = [each for each in arguments[1:] if each["class"] != "CONSTANT"]
        return math.prod(self.of(each, known) for each in (*arguments[:1], *computed))


def _check_paths(paths: Sequence[Any]) -> None:
    """Refuses paths that repeat parts of JSON at several levels."""
    nodes = list(database.walk(paths))
    if any(node.get("class") == "COLUMN_REF" for node in nodes):
        return  # DuckDB refuses wildcards in paths of a row
    texts = [database.constant_of(node)[1] for node in nodes if node.get("class") == "CONSTANT"]
    # ``a->'b'->>'c'`` is parsed from the right.
    calls = {node["function_name"] for node in nodes if "function_name" in node}
    if calls - {"list_value", "-", "->>"} or any(".." in text or "\\" in text for text in texts):
        message = "found a path of JSON that is computed or has '..', expected one such as '$.a.b'"
        raise database.ExpressionError(message)


def _parts(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the expressions right below a node."""
    waiting: list[Any] = list(node.values())
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "class" in each:
                yield each
            else:
                waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _largest(known: Parameters) -> Parameters:
    return {name: (most, most) for name, (_, most) in known.items()}


def _inner(
    function: Mapping[str, Any], known: Parameters, sizes: Sequence[tuple[int, int]]
) -> Parameters:
    """Returns the parameters that the body of a lambda knows."""
    names = [
        str(node["column_names"][0]).lower()
        for node in database.walk(function["lhs"])
        if node.get("class") == "COLUMN_REF"
    ]
    own = [*sizes, *[(1, 1)] * len(names)]
    return {**_largest(known), **dict(zip(names, own, strict=False))}


def _number(node: Mapping[str, Any]) -> int | None:
    """Returns a number that is written out, or ``None``."""
    if node["class"] == "CAST":
        return _number(node["child"])
    if node["class"] == "FUNCTION" and node["function_name"] == "-":
        arguments = database.arguments_of(node)
        number = _number(arguments[0]) if len(arguments) == 1 else None
        return None if number is None else -number
    kind, text = database.constant_of(node)
    if kind not in ("INTEGER", "NUMERIC"):
        return None
    try:
        written = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    return math.ceil(written) if abs(written) < _FAR else int(math.copysign(_FAR, written))


def _upper(node: Mapping[str, Any]) -> int | None:
    """Returns the number that a part does not exceed, or ``None``.

    ``least(n, 100)`` has one.
    """
    if node["class"] == "FUNCTION" and str(node["function_name"]).lower() == "least":
        numbers = [_number(each) for each in database.arguments_of(node)]
        return min((number for number in numbers if number is not None), default=None)
    return _number(node)


def _unknown(name: str, example: str) -> database.ExpressionError:
    return database.ExpressionError(
        f"found {name}() with a size that depends on the row or is no plain number, expected one "
        f"such as {example}"
    )


def _counted(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    place = _COUNTED[name]
    number = _upper(arguments[place]) if len(arguments) > place else 1
    if number is None:
        before = "x, " * place
        raise _unknown(name, f"{name}({before}10) or {name}({before}least(n, 100))")
    return max(1, number) * math.prod(sizes)


def _series(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:  # noqa: ARG001
    numbers = [_number(each) for each in arguments]
    if 0 < len(numbers) < 3:
        numbers[-1] = _upper(arguments[-1])
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        raise _unknown(name, f"{name}(10) or {name}(least(n, 100))")
    start, stop, step = (0, *known, 1) if len(known) == 1 else (*known, 1)[:3]
    return abs(stop - start) // max(1, abs(step)) + 1


def _formatted(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:
    """Returns the size of a text by a format, whose widths count."""
    kind, text = database.constant_of(arguments[0]) if arguments else ("", "")
    mark, field = ("{", r"\{([^}]*)") if name == "format" else ("%", "%([^a-zA-Z%]*)")
    fields = re.findall(field, text.replace(mark * 2, ""))
    if kind != "STRING" or any(mark in each or (mark == "%" and "*" in each) for each in fields):
        raise _unknown(name, "format('{:02d}', n)" if name == "format" else "printf('%05d', n)")
    widths = sum(min(_FAR, int(each[:19])) for each in re.findall("[0-9]+", " ".join(fields)))
    return widths + sizes[0] + max(1, len(fields)) * sum(sizes[1:])


def _replaced(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:  # noqa: ARG001
    """Returns the size of a text with parts, also empty ones, replaced."""
    return math.prod((sizes[0], *sizes[2:3])) * (1 if name == "replace" else 2) if sizes else 1


def _joined(name: str, arguments: Sequence[Any], sizes: Sequence[int]) -> int:  # noqa: ARG001
    """Returns the size of a value that has each argument once."""
    separators = sizes[0] * len(sizes) if name == "concat_ws" and sizes else 0
    return (max(1, sum(sizes)) + separators) * _ENCODING.get(name, 1)


_RULES: dict[str, Callable[[str, Sequence[Any], Sequence[int]], int]] = {
    **dict.fromkeys(_COUNTED, _counted),
    **dict.fromkeys(_SERIES, _series),
    **dict.fromkeys(_FORMATS, _formatted),
    **dict.fromkeys(_REPLACING, _replaced),
    **dict.fromkeys(_CROSSING.split(), lambda _, __, sizes: math.prod(sizes)),
    **dict.fromkeys(_CHOOSING.split(), lambda _, __, sizes: max(sizes, default=1)),
}
