"""Finds the lines of features in a schema's text."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.layout.schema_features import Steps, name_of

# White space or a separator, a comment, a quoted text, a punctuation mark, or a word.
_TOKEN = re.compile(
    r"""(?P<space>[\s;,]+)|(?P<comment>\#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<mark>[{}<>\[\]:])|(?P<word>[^\s\#"'{}<>\[\]:;,]+)"""
)
_OPENING, _CLOSING = "{<[", "}>]"
_FEATURES = ("feature", "sparse_feature", "weighted_feature")


class _FieldText(NamedTuple):
    """One field in the text.

    Attributes:
      name: name of the field.
      start: where its name begins.
      value_start, value_end: its value: the inside of braces or brackets, or the scalar.
    """

    name: str
    start: int
    value_start: int
    value_end: int


def feature_lines(text: str) -> dict[str, int]:
    """Returns the first line of each feature of a schema.

    Features of structs are named by their paths. Sparse and weighted features are features, too.
    Lines are counted from 1.
    """
    lines: dict[str, int] = {}
    line, counted = 1, 0
    features = _starts(text, _entries(text, 0, len(text)), ())
    for path, start in sorted(features, key=operator.itemgetter(1)):
        line, counted = line + text.count("\n", counted, start), start
        lines.setdefault(name_of(path), line)
    return lines


def has_comments(text: str) -> bool:
    """Whether a schema's text has comments."""
    return any(match.lastgroup == "comment" for match in _TOKEN.finditer(text))


def _starts(text: str, entries: Sequence[_FieldText], struct: Steps) -> Iterator[tuple[Steps, int]]:
    """Yields path and place of each feature among entries."""
    for entry in entries:
        if entry.name not in _FEATURES:
            continue
        inside = _entries(text, entry.value_start, entry.value_end)
        names = (_unquoted(text, inner) for inner in inside if inner.name == "name")
        path = (*struct, next(names, ""))
        yield path, entry.start
        for inner in inside:
            if inner.name == "struct_domain":
                yield from _starts(text, _entries(text, inner.value_start, inner.value_end), path)


def _unquoted(text: str, entry: _FieldText) -> str:
    value = text[entry.value_start : entry.value_end]
    return str(text_format.Parse(f"name: {value}", schema_pb2.Feature()).name)


def _entries(text: str, start: int, end: int) -> list[_FieldText]:
    """Cuts a message's text into fields."""
    tokens = [
        match
        for match in _TOKEN.finditer(text, start, end)
        if match.lastgroup not in ("space", "comment")
    ]
    entries, number = [], 0
    while number < len(tokens):
        name = tokens[number]
        number += 1
        if number < len(tokens) and tokens[number][0] == ":":
            number += 1
        first = tokens[number]
        if first[0] in _OPENING:
            number = _closing(tokens, number)
            value = (first.end(), tokens[number].start())
        else:
            while (
                number + 1 < len(tokens)
                and first.lastgroup == "text"
                and tokens[number + 1].lastgroup == "text"
            ):
                number += 1  # adjacent texts are one value
            value = (first.start(), tokens[number].end())
        number += 1
        entries.append(_FieldText(name[0], name.start(), *value))
    return entries


def _closing(tokens: Sequence[re.Match[str]], opening: int) -> int:
    """Returns the number of the token that closes token ``opening``."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number][0] in _OPENING) - (tokens[number][0] in _CLOSING)
        if depth == 0:
            return number
    raise ValueError("text that does not parse")
