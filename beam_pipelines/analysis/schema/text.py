"""Finds the lines of features in a schema's text."""

from __future__ import annotations

import dataclasses
import re

from google.protobuf import text_encoding

from beam_pipelines.core.layout.schema_features import name_of

# White space or a separator, a comment, a quoted text, a punctuation mark, or a word.
_TOKEN = re.compile(
    r"""(?P<space>[\s;,]+)|(?P<comment>\#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<mark>[{}<>\[\]:])|(?P<word>[^\s\#"'{}<>\[\]:;,]+)"""
)
_OPENING, _CLOSING = "{<[", "}>]"
_FEATURES = ("feature", "sparse_feature", "weighted_feature")


@dataclasses.dataclass
class _Braces:
    """A field in braces, its line, and the ``name`` in it."""

    field: str
    line: int
    outer: _Braces | None
    name: bytes = b""

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the feature and of the structs around it."""
        before = () if self.outer is None else self.outer.path
        return (*before, self.name.decode()) if self.field in _FEATURES else before


def feature_lines(text: str) -> dict[str, int]:
    """Returns the first line of each feature of a schema.

    Features of structs are named by their paths. Sparse and weighted features are features, too.
    Lines are counted from 1.
    """
    found: list[_Braces] = []
    inside: _Braces | None = None
    field, line, counted = "", 1, 0
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "word":
            line, counted = line + text.count("\n", counted, match.start()), match.start()
            field = token
        elif kind == "mark" and token in _OPENING:
            inside = _Braces(field, line, inside)
            found.append(inside)
        elif kind == "mark" and token in _CLOSING and inside is not None:
            inside = inside.outer
        elif kind == "text" and field == "name" and inside is not None:
            inside.name += text_encoding.CUnescape(token[1:-1])
    lines: dict[str, int] = {}
    for braces in found:
        if braces.field in _FEATURES and not _is_reference(braces):
            lines.setdefault(name_of(braces.path), braces.line)
    return lines


def _is_reference(braces: _Braces) -> bool:
    """Whether it only names a feature, as in a weighted one."""
    return braces.outer is not None and braces.outer.field in _FEATURES


def has_comments(text: str) -> bool:
    """Whether a schema's text has comments."""
    return any(match.lastgroup == "comment" for match in _TOKEN.finditer(text))
