"""Rows of a data file with the columns of its table.

A file keeps the columns of the day when it was written: with other names, narrower types, or
without columns that were added later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.sources.faults.bad_values import ColumnError
from beam_pipelines.sources.nesting import nested
from beam_pipelines_plugins.lakehouses.snapshots import By

_FIELD_ID = b"PARQUET:field_id"
# Keys of Delta's column mapping.
_DELTA_ID, _DELTA_NAME = b"delta.columnMapping.id", b"delta.columnMapping.physicalName"


def key_of(field: pa.Field, by: By) -> bytes:
    """Returns what a file calls a column: its name or id there.

    Args:
      field: of the table, or of a file.
      by: which of both.
    """
    known = field.metadata or {}
    if by == "id":
        return bytes(known.get(_FIELD_ID) or known.get(_DELTA_ID) or b"")
    return bytes(known.get(_DELTA_NAME) or field.name.encode())


class Projection(NamedTuple):
    """How a file's columns become the table's.

    Attributes:
      fields: of the table, to read.
      found: for each the file's own field; ``None``: the file lacks it.
      by: as in ``key_of``.
      constants: column -> value of a column that the file lacks; null for others.
    """

    fields: Sequence[pa.Field]
    found: Sequence[pa.Field | None]
    by: By
    constants: Mapping[str, pa.Scalar]

    @property
    def wanted(self) -> list[str]:
        """Names of the file's columns to read."""
        return [field.name for field in self.found if field is not None]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows with the table's columns.

        Args:
          batch: the wanted columns of the file.

        Raises:
          ColumnError: a value does not fit the table's type.
        """
        arrays = []
        for field, own in zip(self.fields, self.found, strict=True):
            if own is None:
                value = self.constants.get(field.name, pa.scalar(None, field.type))
                arrays.append(pa.repeat(value, batch.num_rows))
                continue
            try:
                arrays.append(_projected(batch.column(own.name), own, field, self.by))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ColumnError(
                    field.name, f"found {own.type}, which is no {field.type}: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self.fields))


def project(
    fields: Sequence[pa.Field],
    file_schema: pa.Schema,
    by: By,
    names: str,
    constants: Mapping[str, pa.Scalar],
) -> Projection:
    """Returns how the columns of a file become those of its table.

    Args:
      fields: the table's, to read.
      file_schema: the file's.
      by, names: as in ``TableSnapshot``.
      constants: of the file.
    """
    if by == "id" and names and not any(key_of(field, by) for field in file_schema):
        file_schema = pa.schema(_with_ids(list(file_schema), json.loads(names)))
    own = _by_key(list(file_schema), by)
    return Projection(fields, [own.get(key_of(field, by)) for field in fields], by, constants)


def _by_key(fields: Sequence[pa.Field], by: By) -> dict[bytes, pa.Field]:
    return {key: field for field in fields if (key := key_of(field, by))}


def _with_ids(fields: Sequence[pa.Field], mapping: Sequence[Mapping[str, Any]]) -> list[pa.Field]:
    """Returns fields with the ids that Iceberg's name mapping gives them."""
    known = {name: entry for entry in mapping for name in entry["names"]}
    result = []
    for field in fields:
        entry = known.get(field.name)
        if entry is None:
            result.append(field)
            continue
        inner = entry.get("fields") or ()
        metadata = {_FIELD_ID: str(entry["field-id"]).encode()} if "field-id" in entry else None
        result.append(pa.field(field.name, _type_with_ids(field.type, inner), metadata=metadata))
    return result


def _type_with_ids(type_: pa.DataType, mapping: Sequence[Mapping[str, Any]]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct(_with_ids(list(type_), mapping))
    if pa.types.is_map(type_):
        pair = [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
        key, item = _with_ids(pair, mapping)
        return pa.map_(key, item)
    if is_list(type_):
        (value,) = _with_ids([type_.value_field.with_name("element")], mapping)
        return pa.list_(value)
    return type_


def _projected(array: pa.Array, own: pa.Field, field: pa.Field, by: By) -> pa.Array:
    """Returns an array of a file's type in the table's.

    Args:
      array: the values.
      own: the file's field, whose type may have other metadata than the array's.
      field: the table's.
      by: as in ``key_of``.
    """
    found, type_ = own.type, field.type
    if not found.num_fields:
        return array if array.type == type_ else pc.cast(array, type_)
    mask = nested.nulls_of(array)
    if pa.types.is_struct(type_) and pa.types.is_struct(found):
        place = {name: number for number, name in enumerate(child.name for child in found)}
        known = _by_key(list(found), by)
        children = []
        for child in type_:
            match = known.get(key_of(child, by))
            children.append(
                pa.nulls(len(array), child.type)
                if match is None
                else _projected(array.field(place[match.name]), match, child, by)
            )
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    if pa.types.is_map(type_) and pa.types.is_map(found):
        keys = _projected(array.keys, found.key_field, type_.key_field, by)
        items = _projected(array.items, found.item_field, type_.item_field, by)
        return pa.MapArray.from_arrays(_small_offsets(array), keys, items, type=type_, mask=mask)
    if is_list(type_) and is_list(found):
        values = _projected(array.values, found.value_field, type_.value_field, by)
        return pa.ListArray.from_arrays(_small_offsets(array), values, type=type_, mask=mask)
    return pc.cast(array, type_)


def _small_offsets(array: pa.Array) -> pa.Array:
    return nested.offsets_of(array).cast(pa.int32())


def plain_schema(schema: pa.Schema, keeps_keys: bool) -> pa.Schema:
    """Returns a table's schema with every field nullable and small offsets.

    Args:
      schema: of the table.
      keeps_keys: whether fields keep their metadata, by which files call them.
    """
    return pa.schema([_plain_field(field, keeps_keys) for field in schema])


def _plain_field(field: pa.Field, keeps_keys: bool) -> pa.Field:
    metadata = field.metadata if keeps_keys else None
    return pa.field(field.name, _plain_type(field.type, keeps_keys), metadata=metadata)


def _plain_type(type_: pa.DataType, keeps_keys: bool) -> pa.DataType:
    types = pa.types
    if types.is_struct(type_):
        return pa.struct([_plain_field(child, keeps_keys) for child in type_])
    if types.is_map(type_):
        return pa.map_(
            _plain_field(type_.key_field, keeps_keys).with_nullable(False),
            _plain_field(type_.item_field, keeps_keys),
        )
    if is_list(type_):
        return pa.list_(_plain_field(type_.value_field, keeps_keys))
    if types.is_large_string(type_) or types.is_string_view(type_):
        return pa.string()
    return pa.binary() if types.is_large_binary(type_) or types.is_binary_view(type_) else type_
