"""Rows of features as the columns of Parquet files."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.binary_arrays import is_valid, offsets_of
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.schema_features import (
    feature_lists_of,
    features_of,
    has_one_value,
    has_one_value_a_step,
)

_TYPES = {
    schema_pb2.INT: pa.int64(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.BYTES: pa.binary(),
}


def columns_of(
    schema: schema_pb2.Schema, texts: Collection[str], lists_of_lists: Collection[str]
) -> pa.Schema:
    """Returns the columns of Parquet files.

    A feature with at most one value is a plain column, one of a fixed shape that no row lacks a
    fixed-size list, any other a list. A feature list is a list of its steps, which are lists where
    they may have several values.

    Args:
      schema: of the features.
      texts: names of features of bytes that are UTF-8.
      lists_of_lists: names of feature lists whose steps have any number of values.
    """
    lists = {feature.name for feature in feature_lists_of(schema)}
    fields = []
    for feature in features_of(schema):
        type_ = pa.string() if feature.name in texts else _TYPES[feature.type]
        if feature.name in lists:
            is_plain = has_one_value_a_step(feature) or feature.name not in lists_of_lists
            type_ = pa.list_(type_ if is_plain else pa.list_(type_))
        else:
            type_ = _with_shape(feature, type_)
        fields.append(pa.field(feature.name, type_))
    return pa.schema(fields)


def _with_shape(feature: schema_pb2.Feature, type_: pa.DataType) -> pa.DataType:
    sizes = [dim.size for dim in feature.shape.dim]
    if has_one_value(feature):
        return type_
    if feature.HasField("shape") and feature.presence.min_fraction == 1 and 0 not in sizes:
        for size in reversed(sizes):
            type_ = pa.list_(type_, size)
        return type_
    return pa.list_(type_)


def listed_type(type_: pa.DataType) -> pa.DataType:
    """Returns a type with a list in place of fixed-size lists."""
    if pa.types.is_fixed_size_list(type_):
        while pa.types.is_fixed_size_list(type_):
            type_ = type_.value_type
        return pa.list_(type_)
    return type_


def ordered_rows(
    batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, columns: pa.Schema
) -> pa.RecordBatch:
    """Returns rows in their order as columns.

    Lists take the place of fixed-size ones.

    Args:
      batch: the features; without columns: there are no rows.
      order: int64[n], of the rows; ``None``: they have it.
      columns: from ``columns_of``.
    """
    listed = pa.schema([field.with_type(listed_type(field.type)) for field in columns])
    if not batch.num_columns:
        arrays = [pa.array([], field.type) for field in listed]
        return pa.RecordBatch.from_arrays(arrays, schema=listed)
    rows = batch if order is None else take_rows(batch, order)
    arrays = [_as_type(rows.column(field.name), field.type) for field in listed]
    return pa.RecordBatch.from_arrays(arrays, schema=listed)


def _as_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns a feature's values as another type of values or lists."""
    if column.type == type_:
        return column
    if pa.types.is_list(type_) and not _is_list(column.type):
        valid = is_valid(column)
        ends = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
        values = column.drop_null().cast(type_.value_type)
        return _lists(ends, values, valid)
    if _is_list(column.type) and not pa.types.is_list(type_):
        starts, valid = offsets_of(column), is_valid(column)
        # At most one value a row: none is a null.
        has_one = valid & (np.diff(starts) > 0)
        places = pa.array(starts[:-1], mask=~has_one)
        return column.values.take(places).cast(type_)
    return column.cast(type_)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _lists(
    offsets: npt.NDArray[np.int32], values: pa.Array, valid: npt.NDArray[np.bool_]
) -> pa.ListArray:
    mask = None if valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


def with_fixed_sizes(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Returns rows of ``ordered_rows`` with the fixed-size lists of ``columns``.

    Raises:
      DataError: a row has another number of values than its feature's shape.
    """
    arrays = [_fixed(array, field) for array, field in zip(rows.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _fixed(array: pa.Array, field: pa.Field) -> pa.Array:
    type_ = field.type
    if not pa.types.is_fixed_size_list(type_):
        return array
    sizes = []
    while pa.types.is_fixed_size_list(type_):
        sizes.append(type_.list_size)
        type_ = type_.value_type
    values = array.flatten()
    size = math.prod(sizes)
    if array.null_count or (np.diff(offsets_of(array)) != size).any():
        raise DataError(
            f"feature '{field.name}': found a row without {size:,} values, expected them in each "
            "as the schema says. Report it, with the recipe."
        )
    for size in reversed(sizes):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def value_bytes(column: pa.Array) -> int:
    """Returns the bytes of a column's values, whatever buffers hold them.

    Nulls of numbers count as values; each list and text counts 4 bytes for its place.
    """
    type_ = column.type
    if _is_list(type_):
        return 4 * len(column) + value_bytes(column.flatten())
    if pa.types.is_binary(type_) or pa.types.is_string(type_):
        starts = offsets_of(column)
        return 4 * len(column) + int(starts[-1] - starts[0])
    return int(len(column) * type_.bit_width // 8)
