"""Compares schemas line by line of their text."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

# Lines of a feature or domain that are printed.
_SHOWN = 40
_NAMED = {f"{kind}feature" for kind in ("", "sparse_", "weighted_")} | {
    f"{kind}_domain" for kind in ("string", "float", "int")
}


class Difference(NamedTuple):
    """Differing lines of a feature, a domain, or the rest.

    Attributes:
      where: ``feature 'x'``, ``string_domain 'd'``, or ``schema``.
      lines: fields and their values: ``- presence.min_count: 1``, ``+ presence.min_count: 2``.
    """

    where: str
    lines: tuple[str, ...]


def diff_schemas(before: schema_pb2.Schema, after: schema_pb2.Schema) -> list[Difference]:
    """Returns all differences, in the order of the schema's fields and features.

    The order of features and of a domain's values does not matter.
    """
    old, new = _parts_of(before), _parts_of(after)
    found = []
    for where in dict.fromkeys([*old, *new]):
        lines = difflib.unified_diff(old.get(where, []), new.get(where, []), n=0, lineterm="")
        shown = (f"{line[0]} {line[1:]}" for line in itertools.islice(lines, 2, None))
        if changes := tuple(line for line in shown if line[0] in "-+"):
            found.append(Difference(where, changes))
    return found


def render_diff(differences: Sequence[Difference]) -> str:
    """Returns the differences as text by feature, or ``no difference``."""
    lines = []
    for where, changes in differences:
        lines += [where, *(f"  {change}" for change in changes[:_SHOWN])]
        if len(changes) > _SHOWN:
            lines.append(f"  and {len(changes) - _SHOWN:,} more")
    return "\n".join(lines) or "no difference"


def _parts_of(schema: schema_pb2.Schema) -> dict[str, list[str]]:
    """Returns the lines of features, domains and tensors, after the rest."""
    found: dict[str, list[str]] = {}
    rest = schema_pb2.Schema()
    rest.CopyFrom(schema)
    for domain in (*rest.string_domain, *(feature.string_domain for feature in rest.feature)):
        domain.value.sort()
    for field, items in rest.ListFields():
        if field.name in _NAMED:
            found |= {f"{field.name} '{item.name}'": [*_lines_of(item)] for item in items}
            rest.ClearField(field.name)
    groups = rest.tensor_representation_group
    found |= {f"tensor_representation_group '{key}'": [*_lines_of(groups[key])] for key in groups}
    rest.ClearField("tensor_representation_group")
    return {"schema": [*_lines_of(rest)], **found}


def _lines_of(message: Any) -> Iterator[str]:
    """Yields the path of each field that is set, with its value."""
    path: list[str] = []
    is_empty = False
    for line in map(str.strip, text_format.MessageToString(message, as_utf8=True).splitlines()):
        if line.endswith("{"):
            path.append(line.removesuffix(" {"))
        elif line != "}":
            yield ".".join([*path, line])
        elif is_empty:
            yield f"{'.'.join(path)} {{ }}"
        if line == "}":
            path.pop()
        is_empty = line.endswith("{")
