"""Compares schemas field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.formatting import shorten

_UNSET = "(unset)"
_SHOWN_VALUES = 20
_NAMED = {f"{kind}feature" for kind in ("", "sparse_", "weighted_")} | {
    f"{kind}_domain" for kind in ("string", "float", "int")
}


class Difference(NamedTuple):
    """One difference of two schemas.

    Attributes:
      where: ``feature 'x'``, ``string_domain 'd'``, or ``schema``.
      what: path of the field within it, or empty if only one side has it.
      before, after: values as text.
    """

    where: str
    what: str
    before: str
    after: str


def diff_schemas(before: schema_pb2.Schema, after: schema_pb2.Schema) -> list[Difference]:
    """Returns all differences, in the order of the schema's fields and features.

    The order of features and of a domain's values does not matter.
    """
    found: list[Difference] = []
    old, new = _parts_of(before), _parts_of(after)
    for where in dict.fromkeys([*old, *new]):
        if where not in new:
            found.append(Difference(where, "", "there", "removed"))
        elif where not in old:
            found.append(Difference(where, "", "", f"added: {_one_line(new[where])}"))
        elif old[where] != new[where]:
            found += _changes(where, _fields_of(old[where]), _fields_of(new[where]))
    return found


def render_diff(differences: Sequence[Difference]) -> str:
    """Returns the differences as text by feature, or ``no difference``."""
    if not differences:
        return "no difference"
    whats = [f"{d.what or 'all of it'}:" for d in differences]
    width = min(40, max(map(len, whats)))
    lines, where = [], None
    for difference, what in zip(differences, whats, strict=True):
        if difference.where != where:
            where = difference.where
            lines.append(where)
        before, after = difference.before, difference.after
        change = after if not before else f"{before} → {after}"
        lines.append(f"  {what:<{width}}  {change}")
    return "\n".join([*lines, f"{len(differences)} difference{'s' * (len(differences) != 1)}"])


def _parts_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns features, domains and tensors by their names, after the rest."""
    found: dict[str, Any] = {}
    rest = schema_pb2.Schema()
    rest.CopyFrom(schema)
    for field, items in schema.ListFields():
        if field.name in _NAMED:
            found |= {f"{field.name} '{item.name}'": item for item in items}
            rest.ClearField(field.name)
    groups = schema.tensor_representation_group
    found |= {f"tensor_representation_group '{key}'": groups[key] for key in sorted(groups)}
    rest.ClearField("tensor_representation_group")
    return {"schema": rest, **found}


def _fields_of(message: Any, path: str = "") -> dict[str, list[str]]:
    """Returns the path of each field that is set, and its values."""
    found: dict[str, list[str]] = {}
    for field, value in message.ListFields():
        name = f"{path}{field.name}"
        for item in value if field.label == field.LABEL_REPEATED else [value]:
            inner = _fields_of(item, f"{name}.") if field.message_type is not None else {}
            for what, texts in (inner or {name: [_text(field, item)]}).items():
                found.setdefault(what, []).extend(texts)
    return found


def _changes(
    where: str, old: Mapping[str, list[str]], new: Mapping[str, list[str]]
) -> Iterator[Difference]:
    for what in dict.fromkeys([*old, *new]):
        before, after = old.get(what, []), new.get(what, [])
        is_filled = any(other.startswith(f"{what}.") for other in (*old, *new))
        if before == after or is_filled:  # a message that was empty, or is
            continue
        if sorted(before) == sorted(after) and before[0].startswith('"'):
            continue  # the order of texts does not matter
        if max(len(before), len(after)) == 1:
            yield Difference(where, what, *((texts or [_UNSET])[0] for texts in (before, after)))
            continue
        signs = {"+": [one for one in after if one not in before]}
        signs |= {"-": [one for one in before if one not in after]}
        shown = "; ".join(f"{sign} {_listed(texts)}" for sign, texts in signs.items() if texts)
        yield Difference(where, what, "", shown or f"now {_listed(after)}")


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN_VALUES:,} more" if len(texts) > _SHOWN_VALUES else ""
    return ", ".join(texts[:_SHOWN_VALUES]) + more


def _one_line(item: Any) -> str:
    text: str = text_format.MessageToString(item, as_utf8=True, as_one_line=True).strip()
    return shorten(text, 200)


def _text(field: FieldDescriptor, value: Any) -> str:
    if field.message_type is not None:
        return "{ }"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, float):
        return f"{value:.9g}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
