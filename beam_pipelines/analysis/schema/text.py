"""Edits a schema's text, keeping comments, order and spacing of unchanged fields.

Protobuf's printer drops comments. This module cuts the text into the fields of a message and
prints only fields that differ. A message that differs is edited recursively.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.schema_features import Steps, name_of

_INDENT = "  "
# White space, a comment, a quoted text, a punctuation mark, or a word.
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>\#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<mark>[{}<>\[\]:;,])|(?P<word>[^\s\#"'{}<>\[\]:;,]+)"""
)
_OPENING, _CLOSING = "{<[", "}>]"
_FEATURES = ("feature", "sparse_feature", "weighted_feature")


class Entry(NamedTuple):
    """Position of one field in the text.

    Attributes:
      name: name of the field.
      start, end: from its name to the separator after it, if any.
      value_start, value_end: its value: the inside of braces or brackets, or the scalar.
      kind: ``{`` for a message, ``[`` for a list, ``""`` for a scalar.
    """

    name: str
    start: int
    end: int
    value_start: int
    value_end: int
    kind: str


def edit_schema(text: str, before: schema_pb2.Schema, after: schema_pb2.Schema) -> str:
    """Returns a schema's text, changed only where two schemas differ.

    Args:
      text: schema in protobuf's text format.
      before: the schema of ``text``.
      after: the wanted schema. Features and domains are matched by name.

    Raises:
      DataError: the text has a layout that cannot be edited.
    """
    edited = _edit(text, before, after, "")
    if text_format.Parse(edited, schema_pb2.Schema()) != after:
        raise DataError(
            "the schema's text cannot be edited in place. Write it anew: 'schema update --output' "
            "another file."
        )
    return edited


def feature_lines(text: str) -> dict[str, int]:
    """Returns the first line of each feature of a schema.

    Features of structs are named by their paths. Sparse and weighted features are features, too.
    Lines are counted from 1.
    """
    lines: dict[str, int] = {}
    line, counted = 1, 0
    for path, start in sorted(_starts(text, _entries(text), ()), key=operator.itemgetter(1)):
        line, counted = line + text.count("\n", counted, start), start
        lines.setdefault(name_of(path), line)
    return lines


def _starts(text: str, entries: Sequence[Entry], struct: Steps) -> Iterator[tuple[Steps, int]]:
    """Yields path and place of each feature among entries."""
    for entry in entries:
        if entry.name not in _FEATURES or entry.kind != "{":
            continue
        inside = _entries(text, entry)
        names = (_unquoted(text, inner) for inner in inside if inner.name == "name")
        path = (*struct, next(names, ""))
        yield path, entry.start
        for inner in inside:
            if inner.name == "struct_domain":
                yield from _starts(text, _entries(text, inner), path)


def _unquoted(text: str, entry: Entry) -> str:
    value = text[entry.value_start : entry.value_end]
    return str(text_format.Parse(f"name: {value}", schema_pb2.Feature()).name)


def _entries(text: str, within: Entry | None = None) -> list[Entry]:
    """Cuts a message's text, or the inside of an entry, into fields."""
    position, end = (0, len(text)) if within is None else (within.value_start, within.value_end)
    tokens = [
        match
        for match in _TOKEN.finditer(text, position, end)
        if match.lastgroup not in ("space", "comment")
    ]
    entries, number = [], 0
    while number < len(tokens):
        name = tokens[number]
        number += 1
        if number < len(tokens) and tokens[number][0] == ":":
            number += 1
        first = last = tokens[number]
        kind = first[0] if first[0] in _OPENING else ""
        if kind:
            number, value = _closing(tokens, number), (first.end(), 0)
            last = tokens[number]
            value = (first.end(), last.start())
        else:
            while (
                number + 1 < len(tokens)
                and first.lastgroup == "text"
                and tokens[number + 1].lastgroup == "text"
            ):
                number += 1  # adjacent texts are one value
            last = tokens[number]
            value = (first.start(), last.end())
        number += 1
        stop = last.end()
        if number < len(tokens) and tokens[number][0] in (",", ";"):
            stop = tokens[number].end()
            number += 1
        entries.append(Entry(name[0], name.start(), stop, *value, "{" if kind == "<" else kind))
    return entries


def _closing(tokens: Sequence[re.Match[str]], opening: int) -> int:
    """Returns the number of the token that closes token ``opening``."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number][0] in _OPENING) - (tokens[number][0] in _CLOSING)
        if depth == 0:
            return number
    raise ValueError("text that does not parse")


class _Change(NamedTuple):
    """Replaces text [start, end)."""

    start: int
    end: int
    text: str


class _Message(NamedTuple):
    """Fields and position of a message in the text, without its braces."""

    text: str
    start: int
    end: int
    entries: list[Entry]
    indent: str

    @property
    def is_inline(self) -> bool:
        """Whether the message is on one line, between braces."""
        return bool(self.indent) and "\n" not in self.text[self.start : self.end]


def _edit(text: str, before: Any, after: Any, indent: str, within: Entry | None = None) -> str:
    """Returns the edited text of a message.

    The message is all of ``text``, or the inside of ``within``.
    """
    start, end = (0, len(text)) if within is None else (within.value_start, within.value_end)
    message = _Message(text, start, end, _entries(text, within), indent)
    changes: list[_Change] = []
    for field in before.DESCRIPTOR.fields:
        old, new = (_items(some, field) for some in (before, after))
        if old != new:
            changes += _field_changes(message, field, old, new)
    edited, position = [], start
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        edited += [text[position : change.start], change.text]
        position = change.end
    return "".join([*edited, text[position:end]])


def _items(message: Any, field: FieldDescriptor) -> list[Any]:
    """Returns the values of a field, none if unset.

    Entries of a map are sorted by key.
    """
    value = getattr(message, field.name)
    if _is_map(field):
        entry = field.message_type._concrete_class  # noqa: SLF001 - the message of one key and value
        return [entry(key=key, value=value[key]) for key in sorted(value)]
    if _is_repeated(field):
        return list(value)
    return [value] if message.HasField(field.name) else []


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.label == field.LABEL_REPEATED)


def _field_changes(
    message: _Message, field: FieldDescriptor, old: list[Any], new: list[Any]
) -> list[_Change]:
    """Returns the changes of one field's entries."""
    text, entries = message.text, [entry for entry in message.entries if entry.name == field.name]
    if (
        len(entries) == 1
        and entries[0].kind == "["
        and field.message_type is None
        and new[: len(old)] == old
    ):
        return [_extension(text, field, entries[0], new[len(old) :])]
    matches = _matches(old, new) if _is_repeated(field) else {0: 0} if old and new else {}
    is_appended_to = list(matches.values()) == list(range(len(matches)))
    if (
        not is_appended_to
        or len(entries) != len(old)
        or any(entry.kind == "[" for entry in entries)
    ):
        # Values in another order, a list in brackets, or a field given twice: all entries are
        # replaced.
        changes = [_removal(text, entry) for entry in entries]
        return [*changes, _addition(message, field, new, None)] if new else changes
    changes = []
    for number, entry in enumerate(entries):
        if number not in matches:
            changes.append(_removal(text, entry))
            continue
        wanted = new[matches[number]]
        if old[number] != wanted:
            nested = field.message_type is not None
            inner = (
                _edit(text, old[number], wanted, message.indent + _INDENT, entry)
                if nested
                else _scalar(field, wanted)
            )
            changes.append(_Change(entry.value_start, entry.value_end, inner))
    matched = set(matches.values())
    added = [item for number, item in enumerate(new) if number not in matched]
    return (
        [*changes, _addition(message, field, added, entries[-1] if entries else None)]
        if added
        else changes
    )


def _matches(old: list[Any], new: list[Any]) -> dict[int, int]:
    """Returns the indices of matching values: old -> new, in order.

    Equal values match, and messages of the same name.
    """
    places: dict[Any, list[int]] = {}  # indices in descending order
    for place, item in reversed(list(enumerate(new))):
        places.setdefault(_identity(item), []).append(place)
    matches: dict[int, int] = {}
    position = 0
    for number, item in enumerate(old):
        left = places.get(_identity(item), [])
        while left and left[-1] < position:
            left.pop()
        if left:
            matches[number] = left.pop()
            position = matches[number] + 1
    return matches


def _identity(item: Any) -> Any:
    if not hasattr(item, "DESCRIPTOR"):
        return item
    names = item.DESCRIPTOR.fields_by_name
    for key in ("name", "key"):
        if key in names and getattr(item, key):
            return getattr(item, key)
    return item.SerializeToString(deterministic=True)


def _removal(text: str, entry: Entry) -> _Change:
    """Removes an entry, with its line if nothing else is on it."""
    line_start = text.rfind("\n", 0, entry.start) + 1
    line_end = text.find("\n", entry.end)
    line_end = len(text) if line_end < 0 else line_end + 1
    if not text[line_start : entry.start].strip() and not text[entry.end : line_end].strip():
        return _Change(line_start, line_end, "")
    return _Change(entry.start, entry.end, "")


def _extension(text: str, field: FieldDescriptor, entry: Entry, items: list[Any]) -> _Change:
    """Appends to a list in brackets."""
    inside = text[entry.value_start : entry.value_end].rstrip()
    place = entry.value_start + len(inside)
    values = ", ".join(_scalar(field, item) for item in items)
    is_comment = "#" in inside.rpartition("\n")[2]
    return _Change(
        place, place, ("\n" if is_comment else "") + (", " if inside.strip() else "") + values
    )


def _addition(
    message: _Message, field: FieldDescriptor, items: list[Any], last: Entry | None
) -> _Change:
    """Adds entries after a field's last one, or at the message's end."""
    text, start, end, indent = message.text, message.start, message.end, message.indent
    place = start + len(text[start:end].rstrip())
    if last is not None:
        following = min(
            (entry.start for entry in message.entries if entry.start >= last.end), default=end
        )
        newline = text.find("\n", last.end, following)
        if newline >= 0:
            place = newline
        elif following < end:
            return _Change(
                last.end, last.end, " " + " ".join(_inline(field, item) for item in items)
            )
    if message.is_inline:
        return _Change(place, place, " " + " ".join(_inline(field, item) for item in items))
    lines = [f"{indent}{line}" for item in items for line in _printed(field, item)]
    is_last_line = place == len(text)
    return _Change(
        place, place, ("\n" if place else "") + "\n".join(lines) + ("\n" if is_last_line else "")
    )


def _inline(field: FieldDescriptor, item: Any) -> str:
    if field.message_type is None:
        return f"{field.name}: {_scalar(field, item)}"
    inner = text_format.MessageToString(item, as_utf8=True, as_one_line=True).strip()
    return f"{field.name} {{ {inner} }}" if inner else f"{field.name} {{ }}"


def _printed(field: FieldDescriptor, item: Any) -> list[str]:
    if field.message_type is None:
        return [f"{field.name}: {_scalar(field, item)}"]
    # str.splitlines also splits at characters that are no line ends to protobuf.
    inner = text_format.MessageToString(item, as_utf8=True).rstrip("\n").split("\n")
    return [f"{field.name} {{", *(f"{_INDENT}{line}" for line in inner if line), "}"]


def _scalar(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, str):
        holder = text_format.MessageToString(
            schema_pb2.StringDomain(name=value), as_utf8=True, as_one_line=True
        )
        return str(holder.partition(": ")[2].strip())
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.cpp_type == field.CPPTYPE_FLOAT:
        holder = text_format.MessageToString(schema_pb2.FloatDomain(min=value), as_one_line=True)
        return str(holder.partition(": ")[2].strip())
    return repr(value)
