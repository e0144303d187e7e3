"""Compares two schemas field by field, and tells whether more data passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.schema_features import Steps, name_of

WIDENS, NARROWS, CHANGES = "widens", "narrows", "changes"
_UNSET = "(unset)"
_SHOWN_VALUES = 20


class Difference(NamedTuple):
    """One difference of two schemas.

    Attributes:
      where: ``feature 'x'``, ``string_domain 'd'``, or a field of the schema.
      what: path of the field within it, or empty if only one side has it.
      before, after: values as text.
      effect: ``widens`` if more data passes than before, ``narrows`` if less, ``changes`` if
        neither is certain.
    """

    where: str
    what: str
    before: str
    after: str
    effect: str


def diff_schemas(before: schema_pb2.Schema, after: schema_pb2.Schema) -> list[Difference]:
    """Returns all differences, in the order of the schema's fields and features.

    The order of features and of a domain's values does not matter.
    """
    found: list[Difference] = []
    for field in schema_pb2.Schema.DESCRIPTOR.fields:
        if field.name in _NAMED:
            found += _named(field.name, getattr(before, field.name), getattr(after, field.name))
        elif field.name == "tensor_representation_group":
            old, new = before.tensor_representation_group, after.tensor_representation_group
            found += [
                Difference(
                    f"tensor_representation_group '{key}'",
                    "",
                    **_texts(old, new, key),
                    effect=CHANGES,
                )
                for key in sorted({*old, *new})
                if key not in old or key not in new or old[key] != new[key]
            ]
        else:
            found += [_at(field.name, change) for change in _field(field, before, after, ())]
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
        lines.append(f"  {what:<{width}}  {change}  ({difference.effect})")
    counts = [
        (effect, sum(d.effect == effect for d in differences))
        for effect in (WIDENS, NARROWS, CHANGES)
    ]
    named = ", ".join(f"{number} {effect}" for effect, number in counts if number)
    return "\n".join(
        [*lines, f"{len(differences)} difference{'s' * (len(differences) != 1)}: {named}"]
    )


_NAMED = (
    "feature",
    "sparse_feature",
    "weighted_feature",
    "string_domain",
    "float_domain",
    "int_domain",
)


def _named(
    kind: str, before: Sequence[Any], after: Sequence[Any], struct: Steps = ()
) -> Iterator[Difference]:
    old, new = ({item.name: item for item in items} for items in (before, after))
    for name in dict.fromkeys([*old, *new]):
        path = (*struct, name)
        where = f"{kind} '{name_of(path)}'"
        if name not in new:
            yield Difference(
                where, "", "there", "removed", NARROWS if kind == "feature" else CHANGES
            )
        elif name not in old:
            yield Difference(
                where, "", "", f"added: {_summary(new[name])}", _effect_of_addition(kind, new[name])
            )
        elif old[name] != new[name]:
            sides = old[name], new[name]
            are_structs = all(_is_struct(side) for side in sides)
            for field in new[name].DESCRIPTOR.fields:
                if field.name != "struct_domain" or not are_structs:
                    yield from (_at(where, change) for change in _field(field, *sides, ()))
            if are_structs:
                for inner in schema_pb2.StructDomain.DESCRIPTOR.fields_by_name:
                    old_ones, new_ones = (getattr(side.struct_domain, inner) for side in sides)
                    yield from _named(inner, old_ones, new_ones, path)


def _is_struct(item: Any) -> bool:
    return isinstance(item, schema_pb2.Feature) and item.HasField("struct_domain")


def _effect_of_addition(kind: str, item: Any) -> str:
    """Returns ``widens`` for an optional feature, which only permits its column."""
    if kind != "feature":
        return CHANGES
    return NARROWS if item.presence.min_count > 0 or item.presence.min_fraction > 0 else WIDENS


def _summary(item: Any) -> str:
    text: str = text_format.MessageToString(item, as_utf8=True, as_one_line=True).strip()
    return shorten(text, 200)


def _at(where: str, change: Difference) -> Difference:
    return change._replace(where=where, what=change.what if change.what != where else "")


def _texts(old: Any, new: Any, key: str) -> dict[str, str]:
    return {
        "before": _summary(old[key]) if key in old else _UNSET,
        "after": _summary(new[key]) if key in new else "removed",
    }


def _field(
    field: FieldDescriptor, before: Any, after: Any, path: tuple[str, ...]
) -> Iterator[Difference]:
    """Yields the differences in one field of two messages."""
    path = (*path, field.name)
    old, new = getattr(before, field.name), getattr(after, field.name)
    if field.label == field.LABEL_REPEATED:
        if list(old) != list(new):
            yield from _repeated(field, list(old), list(new), path)
        return
    sides = (before.HasField(field.name), after.HasField(field.name))
    if old == new and sides[0] == sides[1]:
        return
    if field.message_type is not None and all(sides):
        for inner in field.message_type.fields:
            yield from _field(inner, old, new, path)
        return
    texts = [
        _text(field, value) if is_set else _UNSET
        for value, is_set in zip((old, new), sides, strict=True)
    ]
    yield Difference(
        "",
        ".".join(path),
        texts[0],
        texts[1],
        _effect(path, old if sides[0] else None, new if sides[1] else None),
    )


def _repeated(
    field: FieldDescriptor, old: list[Any], new: list[Any], path: tuple[str, ...]
) -> Iterator[Difference]:
    if field.message_type is not None:
        texts = [
            "[" + ", ".join(_text(field, item) for item in items) + "]" for items in (old, new)
        ]
        yield Difference("", ".".join(path), texts[0], texts[1], CHANGES)
        return
    name = ".".join(path)
    is_domain = path[-1] == "value"
    for items, others, sign, effect in ((new, old, "+", WIDENS), (old, new, "-", NARROWS)):
        known = set(others)
        only = [item for item in items if item not in known]
        if only:
            yield Difference(
                "",
                name,
                "",
                f"{sign} {_listed(field, only)}",
                effect if is_domain else _environment(path, sign),
            )


def _environment(path: tuple[str, ...], sign: str) -> str:
    """Returns the effect of a list of environments.

    A feature is required in its own environments.
    """
    if path[-1] == "not_in_environment":
        return WIDENS if sign == "+" else NARROWS
    return NARROWS if path[-1] == "in_environment" and sign == "+" else CHANGES


def _listed(field: FieldDescriptor, items: list[Any]) -> str:
    shown = ", ".join(_text(field, item) for item in items[:_SHOWN_VALUES])
    return shown + (
        f" and {len(items) - _SHOWN_VALUES:,} more" if len(items) > _SHOWN_VALUES else ""
    )


def _text(field: FieldDescriptor, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {_summary(value)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        f"{value:.9g}"
        if isinstance(value, float)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


def _effect(path: tuple[str, ...], old: Any, new: Any) -> str:
    """Returns the effect of a field's change; ``None`` means unset."""
    if path in {("lifecycle_stage",), ("deprecated",)}:
        return _retirement(path[0], old, new)
    limit = next((limits for end, limits in _LIMITS.items() if path[-len(end) :] == end), None)
    if limit is not None:
        return limit(old, new)
    if path[0] in _RESTRICTIONS and (old is None or new is None) and len(path) == 1:
        return NARROWS if old is None else WIDENS
    return CHANGES


def _retirement(field: str, old: Any, new: Any) -> str:
    checked = (
        (None, False)
        if field == "deprecated"
        else (None, schema_pb2.UNKNOWN_STAGE, schema_pb2.BETA, schema_pb2.PRODUCTION)
    )
    was, is_ = old in checked, new in checked
    return CHANGES if was == is_ else WIDENS if was else NARROWS


def _lower_bound(old: Any, new: Any) -> str:
    if old is None or new is None:
        return NARROWS if old is None else WIDENS
    return WIDENS if new < old else NARROWS


def _upper_bound(old: Any, new: Any) -> str:
    if old is None or new is None:
        return NARROWS if old is None else WIDENS
    return WIDENS if new > old else NARROWS


def _ban(old: Any, new: Any) -> str:
    return NARROWS if new and not old else WIDENS if old and not new else CHANGES


_LIMITS: dict[tuple[str, ...], Callable[[Any, Any], str]] = {
    ("presence", "min_fraction"): _lower_bound,
    ("presence", "min_count"): _lower_bound,
    ("value_count", "min"): _lower_bound,
    ("value_count", "max"): _upper_bound,
    ("int_domain", "min"): _lower_bound,
    ("int_domain", "max"): _upper_bound,
    ("float_domain", "min"): _lower_bound,
    ("float_domain", "max"): _upper_bound,
    ("float_domain", "disallow_nan"): _ban,
    ("float_domain", "disallow_inf"): _ban,
    ("unique_constraints", "min"): _lower_bound,
    ("unique_constraints", "max"): _upper_bound,
    # Without a minimum, every value must be in the domain.
    ("distribution_constraints", "min_domain_mass"): lambda old, new: _lower_bound(
        1.0 if old is None else old, 1.0 if new is None else new
    ),
    ("threshold",): _upper_bound,
    ("min_fraction_threshold",): _lower_bound,
    ("max_fraction_threshold",): _upper_bound,
    ("min_examples_count",): _lower_bound,
    ("max_examples_count",): _upper_bound,
}
# Messages of a feature or of the schema that only restrict data.
_RESTRICTIONS = frozenset(
    (
        "presence",
        "shape",
        "value_count",
        "value_counts",
        "domain",
        "int_domain",
        "float_domain",
        "string_domain",
        "bool_domain",
        "unique_constraints",
        "skew_comparator",
        "drift_comparator",
        "dataset_constraints",
    )
)
