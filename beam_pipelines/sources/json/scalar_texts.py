"""Values of JSON lines that become texts, for columns of declared text.

The parser makes no text of a number, an object or a list. So quotes are put around them in the
lines themselves, and a text has what was written. Each line is looked at alone: a bad one changes
no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.nesting import shapes

Span = tuple[int, int]

_BLANKS = re.compile(r"[ \t\r]*")
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# A number, a boolean, or one of the words that Python and JavaScript write for other numbers.
_SCALAR = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN|true|false"
# A field; its value, if it is no object or list, and what is behind it.
_FIELD = re.compile(
    rf"[ \t\r]*({_STRING})[ \t\r]*:[ \t\r]*(?:({_SCALAR}|{_STRING}|null)[ \t\r]*[,}}])?"
)
_DECODER = json.JSONDecoder()


def text_columns(source: Source, found: pa.Schema | None = None) -> dict[str, int]:
    """Returns columns declared text -> levels of lists around the texts.

    Args:
      source: of the recipe.
      found: the flat types of the lines. ``None``: not known, and lists in lists may have texts.
    """
    names = {}
    for name, written in source.types.items():
        type_ = columns.parse_type(written)
        if columns.value_type(type_) == pa.string():
            levels = shapes.depth(type_)
            if found is not None and name in found.names:
                levels = shapes.depth(found.field(name).type)
            elif levels:
                levels = source.limits.nesting_depth
            names[name] = levels
    return names


def with_texts(data: bytes, names: Mapping[str, int]) -> bytes:
    """Returns lines with other values of some columns as strings.

    Args:
      data: whole lines.
      names: of flat columns, ``a.b`` for field ``b`` of ``a`` or of the objects in the list ``a``
        -> how many lists are around its texts. Objects there, and lists, become the text of their
        JSON; numbers and booleans do at any level.
    """
    if not names:
        return data
    keys = "|".join(map(re.escape, names))
    # Right where only keys stand between a quote and a colon, which no string has inside.
    flat = re.compile(rf'("(?:{keys})"[ \t\r]*:[ \t\r]*)({_SCALAR})(?=[ \t\r]*[,}}])')
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for number, line in enumerate(lines):
        if "\\" in line or "[" in line or line.count("{") > 1:
            lines[number] = _with_texts(line, names)
        else:
            lines[number] = flat.sub(r'\1"\2"', line)
    found = "\n".join(lines).encode("utf-8", "surrogateescape")
    return data if found == data else found


def _with_texts(text: str, names: Mapping[str, int]) -> str:
    """Returns a line with quotes around values.

    A bad one stays as it is.
    """
    try:
        spans = _Finder(text, names).spans()
    except (ValueError, IndexError, RecursionError):
        return text
    parts, before = [], 0
    for start, end in spans:
        value = json.dumps(text[start:end].replace("\t", " "), ensure_ascii=False)
        parts += [text[before:start], value]
        before = end
    return "".join([*parts, text[before:]])


class _Finder:
    """Finds the values of a line that become texts.

    Attributes:
      text: the line.
    """

    def __init__(self, text: str, names: Mapping[str, int]) -> None:
        self.text, self._names, self._found = text, names, list[Span]()

    def spans(self) -> list[Span]:
        """Returns where values begin and end, outermost ones only.

        Raises:
          Exception: the line is no JSON.
        """
        if self._value(self._skip(0), None, 0) < len(self.text):
            raise ValueError("more than a value")
        return self._found

    def _skip(self, place: int) -> int:
        """Returns the next place that is not blank."""
        return _BLANKS.match(self.text, place).end()  # type: ignore[union-attr] # it always matches

    def _value(self, place: int, name: str | None, lists: int) -> int:
        """Notes the values in one; returns the next place behind it.

        Args:
          place: where it begins.
          name: of its column; ``None``: it is the line.
          lists: how many are around it.
        """
        first, levels = self.text[place], self._names.get(name or "")
        if first in "{[" and (name is None or levels is None or lists < levels):
            has_columns = name is None or any(one.startswith(f"{name}.") for one in self._names)
            if has_columns or (first == "[" and levels is not None):
                inside = self._object if first == "{" else self._list
                return self._skip(inside(self._skip(place + 1), name, lists))
            levels = None
        end = _DECODER.raw_decode(self.text, place)[1]
        if levels is not None and first not in '"n':
            self._found.append((place, end))
        return self._skip(end)

    def _object(self, place: int, name: str | None, lists: int) -> int:
        """Notes the values of fields; returns the place behind the object."""
        closing, place = (self.text[place], place + 1) if self.text[place] == "}" else ("", place)
        while closing != "}":
            match = _FIELD.match(self.text, place)
            if match is None:
                raise ValueError("no field")
            key = json.loads(match[1]) if "\\" in match[1] else match[1][1:-1]
            own, place = key if name is None else f"{name}.{key}", match.end()
            if match[2] is None:
                place = self._value(place, own, lists) + 1
            elif own in self._names and match[2][0] not in '"n':
                self._found.append(match.span(2))
            closing = self.text[place - 1]
            if closing not in ",}":
                raise ValueError("no end of a field")
        return place

    def _list(self, place: int, name: str | None, lists: int) -> int:
        """Notes the values of items; returns the place behind the list."""
        closing, place = (self.text[place], place + 1) if self.text[place] == "]" else ("", place)
        while closing != "]":
            place = self._value(self._skip(place), name, lists + 1) + 1
            closing = self.text[place - 1]
            if closing not in ",]":
                raise ValueError("no end of an item")
        return place
