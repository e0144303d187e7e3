"""Widens schemas, and compares them field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.feature import (
    feature_findings,
    is_required,
    is_retired,
)
from beam_pipelines.analysis.anomalies.rules.reason import Info, deprecate
from beam_pipelines.analysis.anomalies.rules.specification import corrected
from beam_pipelines.analysis.schema.infer import infer_features
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import view_of
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.schema_features import Steps, domains_of, features_by_path, name_of
from beam_pipelines.core.layout.tensor_representations import add_representations


def update_schema(
    schema: schema_pb2.Schema,
    statistics: Sequence[TableStatistics],
    applies: Callable[[int, str], bool] = lambda _type, _feature: True,
) -> schema_pb2.Schema:
    """Returns a schema against which the statistics' features have no anomaly.

    A required feature becomes DEPRECATED if a dataset lacks it or has another type. Environments,
    comparators, sparse features and constraints of the whole dataset stay unchanged. A new column
    gets the feature of ``infer_schema``, with a shape if it fits; TFDV gives it no shape.

    Args:
      schema: schema to widen; it is not changed.
      statistics: statistics of splits or datasets; those without rows are ignored.
      applies: given a type (``AnomalyInfo.Type``) and a feature, whether to widen for such an
        anomaly; by default always.
    """
    updated = schema_pb2.Schema()
    updated.CopyFrom(schema)
    views = [view for view in map(view_of, statistics) if view.rows]
    domains = domains_of(updated)
    for path, feature in features_by_path(updated).items():
        name = name_of(path)
        for view in views:
            if is_retired(feature):
                break
            column = view.paths.get(path)
            required = is_required(feature, updated, None)
            if column is None and required and applies(Info.SCHEMA_MISSING_COLUMN, name):
                deprecate(feature, domains)
                break
            if column is not None:
                checked, findings = corrected(feature, domains)
                if not is_retired(checked):
                    findings += feature_findings(checked, column, domains, required)
                for finding in findings:
                    if applies(finding.type, name):
                        finding.widen(feature, domains)
    known = features_by_path(updated)
    new = dict.fromkeys(path for view in views for path in view.paths if path not in known)
    infer_features(
        [name_of(path) for path in new if applies(Info.SCHEMA_NEW_COLUMN, name_of(path))],
        views,
        updated,
    )
    return add_representations(updated, schema)


_UNSET = "(unset)"
_SHOWN_VALUES = 20


class Difference(NamedTuple):
    """One difference of two schemas.

    Attributes:
      where: ``feature 'x'``, ``string_domain 'd'``, or a field of the schema.
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
    for field in schema_pb2.Schema.DESCRIPTOR.fields:
        if field.name in _NAMED:
            found += _named(field.name, getattr(before, field.name), getattr(after, field.name))
        elif field.name == "tensor_representation_group":
            old, new = before.tensor_representation_group, after.tensor_representation_group
            found += [
                Difference(f"tensor_representation_group '{key}'", "", *_texts(old, new, key))
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
        lines.append(f"  {what:<{width}}  {change}")
    return "\n".join([*lines, f"{len(differences)} difference{'s' * (len(differences) != 1)}"])


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
            yield Difference(where, "", "there", "removed")
        elif name not in old:
            yield Difference(where, "", "", f"added: {_summary(new[name])}")
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


def _summary(item: Any) -> str:
    text: str = text_format.MessageToString(item, as_utf8=True, as_one_line=True).strip()
    return shorten(text, 200)


def _at(where: str, change: Difference) -> Difference:
    return change._replace(where=where, what=change.what if change.what != where else "")


def _texts(old: Any, new: Any, key: str) -> tuple[str, str]:
    return (
        _summary(old[key]) if key in old else _UNSET,
        _summary(new[key]) if key in new else "removed",
    )


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
    yield Difference("", ".".join(path), *texts)


def _repeated(
    field: FieldDescriptor, old: list[Any], new: list[Any], path: tuple[str, ...]
) -> Iterator[Difference]:
    if field.message_type is not None:
        texts = [
            "[" + ", ".join(_text(field, item) for item in items) + "]" for items in (old, new)
        ]
        yield Difference("", ".".join(path), *texts)
        return
    for items, others, sign in ((new, old, "+"), (old, new, "-")):
        known = set(others)
        only = [item for item in items if item not in known]
        if only:
            yield Difference("", ".".join(path), "", f"{sign} {_listed(field, only)}")


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
