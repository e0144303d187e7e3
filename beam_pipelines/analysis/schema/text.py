"""Finds lines of features, and comments, in a schema's text."""

from __future__ import annotations

import re

_TEXT = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
# A feature that begins a line, so none of a struct, and its name behind its brace.
_FEATURE = re.compile(
    rf"^(?:sparse_|weighted_)?feature\s*:?\s*[{{<]\s*(?:#[^\n]*\s*)*name\s*:\s*({_TEXT})",
    re.MULTILINE,
)
_TEXT_OR_COMMENT = re.compile(rf"{_TEXT}|(#)")


def feature_lines(text: str) -> dict[str, int]:
    """Returns the first line of features, counted from 1.

    Those of structs, and those whose name does not come first, have none.
    """
    lines: dict[str, int] = {}
    line, end = 1, 0
    for match in _FEATURE.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        lines.setdefault(match[1][1:-1], line)
    return lines


def has_comments(text: str) -> bool:
    """Whether a schema's text has comments."""
    return any(match[1] for match in _TEXT_OR_COMMENT.finditer(text))
