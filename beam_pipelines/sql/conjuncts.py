"""Divides a condition into the parts that AND joins.

A row fulfils the condition exactly if it fulfils every part, also where one of them is null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import tree_of

_AND = re.compile(r"\bAND\b", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def factors(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the nodes of a parse tree that AND joins."""
    if node["type"] == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from factors(child)
    else:
        yield node


def conjuncts_of(sql: str) -> list[str]:
    """Returns the texts of the parts that AND joins, in order.

    The text is cut at its ANDs as far as the parse trees of the pieces are those of the parts, so
    that an AND of ``BETWEEN``, of a comment or of a quoted text cuts nothing. A condition that
    cannot be cut this way has one part.

    Args:
      sql: a condition without errors.
    """
    left = _factors_of(sql)
    if len(left) == 1:
        return [sql]
    cuts = [match.span() for match in _AND.finditer(sql)]
    found, start = [], 0
    for end, after in [*cuts, (len(sql), len(sql))]:
        piece = sql[start:end].strip()
        # Parsing takes longer than counting.
        own = _factors_of(piece) if _is_balanced(piece) else []
        if own and own == left[: len(own)]:
            found += _without_brackets(piece) if len(own) > 1 else [piece]
            left, start = left[len(own) :], after
    return [sql] if left else found


def conjunction(parts: Sequence[str]) -> str:
    """Returns the condition of parts from ``conjuncts_of``."""
    # A comment ends with its line.
    return ("\nAND " if any("--" in part for part in parts) else " AND ").join(parts)


def _is_balanced(piece: str) -> bool:
    """Whether as many brackets open as close, outside quotes."""
    unquoted = _QUOTED.sub("", piece)
    return unquoted.count("(") == unquoted.count(")")


def _without_brackets(piece: str) -> list[str]:
    """Returns the parts of a piece such as ``(a AND b)``."""
    inner = piece[1:-1]
    is_bracketed = piece[:1] + piece[-1:] == "()" and _factors_of(inner) == _factors_of(piece)
    return conjuncts_of(inner) if is_bracketed else [piece]


def _factors_of(sql: str) -> list[Any]:
    """Returns the factors of a text without their places.

    A text that is no expression has none.
    """
    try:
        return [_without_places(node) for node in factors(tree_of(sql))]
    except ExpressionError:
        return []


def _without_places(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {
            name: _without_places(value) for name, value in node.items() if name != "query_location"
        }
    return [_without_places(each) for each in node] if isinstance(node, list) else node
