"""Multi-dimensional arrays, as flat lists and the shape of all rows.

In files they are lists of lists, or Arrow's tensors. Values are in row-major order, as in
``tf.reshape`` and numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import Shape, column_type, is_list
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.nesting import nested

# The shape of columns with rows that are no arrays: their lists have several lengths.
RAGGED: Shape = ()


def _is_uuid(type_: pa.DataType) -> bool:
    return getattr(type_, "extension_name", "") == "arrow.uuid"


def stored(type_: pa.DataType) -> pa.DataType:
    """Returns the storage type: lists as lists, UUIDs as texts."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.string() if _is_uuid(type_) else stored(type_.storage_type)
    if is_list(type_):
        value = type_.value_type
        return pa.list_(value.storage_type if _is_uuid(value) else stored(value))
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_permuted(type_: pa.DataType) -> bool:
    """Whether values are tensors whose dimensions are in another order."""
    permutation = list(getattr(type_, "permutation", None) or ())
    return permutation != sorted(permutation)


def stored_array(array: pa.Array) -> pa.Array:
    """Returns an array in its ``stored`` type.

    Raises:
      pa.ArrowInvalid: a tensor whose dimensions are permuted.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        if is_permuted(array.type):
            raise pa.ArrowInvalid("a tensor with permuted dimensions")
        array = _uuid_texts(array.storage) if _is_uuid(array.type) else array.storage
    type_ = stored(array.type)
    return array if array.type == type_ else pc.cast(array, type_)


def _uuid_texts(array: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Returns UUIDs of 16 bytes as texts of 36 characters."""
    data = array.buffers()[1]
    raw = data[16 * array.offset :][: 16 * len(array)] if data else b""
    digits = np.frombuffer(bytes(raw).hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.insert(digits, (8, 12, 16, 20), ord("-"), axis=1)
    offsets = np.arange(0, texts.size + 1, 36, dtype=np.int32)
    found = pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets), pa.py_buffer(texts))
    return pc.if_else(array.is_valid(), found, None)


def depth(type_: pa.DataType) -> int:
    """Returns the number of lists around one value: 0 for a scalar."""
    type_ = stored(type_)
    return 1 + depth(type_.value_type) if pa.types.is_list(type_) else 0


def with_leaf(type_: pa.DataType, leaf: pa.DataType) -> pa.DataType:
    """Returns lists of as many levels, of other values."""
    return pa.list_(with_leaf(type_.value_type, leaf)) if is_list(type_) else leaf


def leaf(type_: pa.DataType) -> pa.DataType:
    """Returns the type of one value."""
    type_ = stored(type_)
    return leaf(type_.value_type) if pa.types.is_list(type_) else type_


def flat_type(type_: pa.DataType) -> pa.DataType | None:
    """Returns the column type of a type; nested lists become one."""
    value = column_type(leaf(type_))
    return value if value is None or not depth(type_) else pa.list_(value)


def has_shape(type_: pa.DataType) -> bool:
    """Whether values are arrays that need a shape."""
    return hasattr(type_, "shape") or depth(type_) > 1


def shape_of_type(type_: pa.DataType) -> Shape | None:
    """Returns the shape that a type fixes.

    It is ``None`` if a dimension is open, or values are scalars.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return tuple(type_.shape) if hasattr(type_, "shape") else shape_of_type(type_.storage_type)
    if not pa.types.is_fixed_size_list(type_):
        return None
    rest: Shape | None = () if not depth(type_.value_type) else shape_of_type(type_.value_type)
    return None if rest is None else (type_.list_size, *rest)


def open_columns(source: Source, schema: pa.Schema) -> list[str]:
    """Returns the columns to read whose shape only their values tell."""
    return [
        field.name
        for field in schema
        if any(
            depth(flat.type) > 1
            and shape_of_type(flat.type) is None
            and flat.name not in source.types
            and (not source.columns or flat.name in source.columns)
            for flat in nested.flatten_fields([field])
        )
    ]


def note_shapes(found: dict[str, Shape | None], batches: Iterable[pa.RecordBatch]) -> None:
    """Adds the shapes of the arrays in batches to ``found``.

    ``found`` is flat column -> shape, ``None`` if rows differ, ``RAGGED`` if one has no shape.
    """
    for batch in batches:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            for name, array in nested.flatten_array(field.name, column):
                if depth(array.type) > 1 and len(array) > array.null_count:
                    shape = _seen_shape(array)
                    known = found.get(name, shape)
                    if RAGGED in (known, shape):
                        found[name] = RAGGED
                    else:
                        found[name] = shape if known == shape else None


def _seen_shape(array: pa.Array) -> Shape | None:
    try:
        lists = stored_array(array)
        shape = shape_of_values(lists)
        return RAGGED if shape is None and not are_rectangular(lists) else shape
    except pa.ArrowInvalid:  # a bad row, which is reported when it is read
        return None


def are_rectangular(array: pa.Array) -> bool:
    """Whether each row's lists of one depth have one length.

    Args:
      array: n rows in their ``stored`` type, lists of lists; null rows are fine.

    Raises:
      pa.ArrowInvalid: a null in the place of a list.
    """
    rows = array.drop_null()
    owners = np.arange(len(rows))
    for lengths in _lengths(rows):
        most = np.zeros(len(rows), np.int64)
        np.maximum.at(most, owners, lengths)
        if (lengths != most[owners]).any():
            return False
        owners = np.repeat(owners, lengths)
    return True


def shape_of_values(array: pa.Array) -> Shape | None:
    """Returns the common shape of arrays, nulls ignored; ``None`` if they differ."""
    shape = []
    for lengths in _lengths(array):
        distinct = np.unique(lengths)
        if len(distinct) != 1:
            return None
        shape.append(int(distinct[0]))
    return tuple(shape)


def flatten(array: pa.Array, shape: Shape | None) -> pa.Array:
    """Returns arrays as lists of their values.

    Args:
      array: in its ``stored`` type, lists of any depth from 1.
      shape: the shape of every array that is not null; ``None`` takes any.

    Raises:
      pa.ArrowInvalid: another shape, or a null where a list should be.
    """
    for dimension, lengths in enumerate(_lengths(array)):
        if (
            shape is not None
            and depth(array.type) == len(shape)
            and (lengths != shape[dimension]).any()
        ):
            raise pa.ArrowInvalid(f"an array of another shape than {list(shape)}")
    if (
        shape is not None
        and pc.any(pc.not_equal(pc.list_value_length(_flat(array)), math.prod(shape))).as_py()
    ):
        raise pa.ArrowInvalid(f"an array of another shape than {list(shape)}")
    return _flat(array)


def _flat(array: pa.Array) -> pa.Array:
    while pa.types.is_list(array.type.value_type):
        inner = array.values
        # Outer offsets point into all inner ones, slices included.
        offsets = offsets_of(inner)[offsets_of(array)].astype(np.int32)
        mask = array.is_null() if array.null_count else None
        array = pa.ListArray.from_arrays(pa.array(offsets), inner.values, mask=mask)
    return array


def _lengths(array: pa.Array) -> Iterator[np.ndarray]:
    """Yields the numbers of items of all lists of each depth.

    Raises:
      pa.ArrowInvalid: a null inside a list, where a list should be.
    """
    lists = array.drop_null()
    while pa.types.is_list(lists.type):
        if lists.null_count:
            raise pa.ArrowInvalid("a null inside a list")
        yield np.diff(offsets_of(lists))
        lists = lists.flatten()
