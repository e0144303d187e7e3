"""Column types of chunks, and the conversion of Arrow types to them.

Readers convert once, so that later stages see few types:

==================  =====================  ========================================
recipe type         Arrow type in batches  feature
==================  =====================  ========================================
bool                bool                   int64, 0 or 1
int8 … uint64       int64                  int64
float16, float32    float                  float
float64             double                 float, rounded to nearest
text                string                 bytes, UTF-8
bytes               binary                 bytes
date                date32                 int64, days since 1970-01-01
time                time64[us]             int64, microseconds since midnight
timestamp           timestamp[us]          int64, microseconds since 1970-01-01
timestamptz         timestamp[us, tz=UTC]  int64, microseconds since 1970-01-01, UTC
(a duration)        int64                  int64, microseconds
list<T>             list<T>                that of T, any number of values
list<list<T>>       list<list<T>>          a feature list of T, any number of values a step
tensor, tensor<T>   binary                 bytes, a serialized TensorProto
raw, raw<T>         binary                 bytes, the numbers in little-endian order
==================  =====================  ========================================

A conversion that would change a value (uint64 above 2**63-1, a fraction of a microsecond) is an
error. Two conversions round: a decimal with fractional digits becomes the nearest float64, and a
float64 is rounded, or refused, when it becomes a feature (``recipe.Output.floats``).

An array of several dimensions is a list of its values in row-major order. The field's metadata has
the shape that all rows share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core._native.shared import is_list as is_list  # noqa: PLC0414 - of columns, too
from beam_pipelines.core.errors import DataError, nearest

TYPE_FOR_NAME: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
# The declared types of columns whose values become serialized tensors, or the raw bytes of numbers
# (sources/nesting/tensors.py).
TENSOR, RAW = "tensor", "raw"
_ARRAY = re.compile(f"({TENSOR}|{RAW})(?:<([^<>]*)>)?")

Shape = tuple[int, ...]
_SHAPE_KEY = b"shape"


def array_type(name: str | None) -> tuple[str, str] | None:
    """Returns the parts of a type such as ``tensor<float64>``.

    Args:
      name: of a declared type, or ``None``.

    Returns:
      (``tensor`` or ``raw``, the type of the numbers, empty for the file's own); ``None`` for other
      types.

    Raises:
      ValueError: there are no such numbers.
    """
    match = _ARRAY.fullmatch(name or "")
    if name is None or match is None:
        return None
    kind, item = match[1], (match[2] or "").strip()
    known = [name for name, type_ in TYPE_FOR_NAME.items() if _is_number(type_)]
    if match[2] is not None and item not in known:
        raise ValueError(f"unknown type '{name}'.{nearest(name, [f'{kind}<{k}>' for k in known])}")
    return kind, item


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_boolean(type_) or types.is_integer(type_) or types.is_floating(type_))


def parse_type(name: str) -> pa.DataType:
    """Returns the Arrow type of a recipe's type name.

    ``int8`` stays int8, so that readers check the range.

    Raises:
      ValueError: an unknown name; the message names the nearest known one.
    """
    if array_type(name):
        return pa.binary()
    if name.startswith("list<") and name.endswith(">") and not array_type(name[5:-1].strip()):
        return pa.list_(parse_type(name[5:-1].strip()))
    if name not in TYPE_FOR_NAME:
        known = [*TYPE_FOR_NAME, "list<int64>", TENSOR, RAW]
        raise ValueError(f"unknown type '{name}'.{nearest(name, known)}")
    return TYPE_FOR_NAME[name]


def type_name(arrow_type: pa.DataType) -> str:
    """Returns the recipe's name of a type, or Arrow's name.

    Arrow's name is for a type that is not a column type.
    """
    if pa.types.is_list(arrow_type):
        return f"list<{type_name(arrow_type.value_type)}>"
    for name, known in TYPE_FOR_NAME.items():
        if known == arrow_type:
            return name
    return str(arrow_type)


def has_lists_as_steps(column_type: pa.DataType) -> bool:
    """Whether a column has lists of lists, as steps."""
    return bool(pa.types.is_list(column_type) and pa.types.is_list(column_type.value_type))


def value_type(column_type: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values.

    The values of lists, and of lists of lists, are their items.
    """
    while pa.types.is_list(column_type):
        column_type = column_type.value_type
    return column_type


def is_date(kind: pa.DataType) -> bool:
    """Whether values are dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def column_type(arrow_type: pa.DataType) -> pa.DataType | None:
    """Returns the column type of an Arrow type, or ``None``.

    Structs and maps, for example, have no column type.
    """
    types = pa.types
    if types.is_dictionary(arrow_type):
        return column_type(arrow_type.value_type)
    if types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz and "UTC")
    if is_list(arrow_type):
        item = column_type(arrow_type.value_type)
        return None if item is None or has_lists_as_steps(item) else pa.list_(item)
    for matches, target in (
        (types.is_boolean, pa.bool_()),
        (types.is_integer, pa.int64()),
        (types.is_float16, pa.float32()),
        (types.is_float32, pa.float32()),
        (types.is_float64, pa.float64()),
        (lambda type_: types.is_decimal(type_) and type_.scale == 0, pa.int64()),
        (types.is_decimal, pa.float64()),
        (types.is_null, pa.string()),
        (types.is_string, pa.string()),
        (types.is_large_string, pa.string()),
        (types.is_string_view, pa.string()),
        (types.is_binary, pa.binary()),
        (types.is_large_binary, pa.binary()),
        (types.is_binary_view, pa.binary()),
        (types.is_fixed_size_binary, pa.binary()),
        (types.is_date, pa.date32()),
        (types.is_time, pa.time64("us")),
        (types.is_duration, pa.int64()),
    ):
        if matches(arrow_type):
            return target
    return None


def has_durations(arrow_type: pa.DataType) -> bool:
    """Whether values, or the items of lists, are durations."""
    while is_list(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(pa.types.is_duration(arrow_type))


def _in_microseconds(arrow_type: pa.DataType) -> pa.DataType:
    """Returns lists of durations, or durations, in microseconds."""
    if pa.types.is_duration(arrow_type):
        return pa.duration("us")
    return pa.list_(_in_microseconds(arrow_type.value_type))


def normalise(array: pa.Array) -> pa.Array:
    """Casts an array to its column type.

    Nulls stay null. A zone of timestamps becomes UTC. A fixed-size or large list becomes a list.

    Raises:
      pa.ArrowInvalid: the column type cannot hold a value exactly.
      TypeError: the type has no column type.
    """
    target = column_type(array.type)
    if target is None:
        raise TypeError(f"type {array.type} cannot become a column")
    if array.type == target:
        return array
    if has_durations(array.type):
        array = array.cast(_in_microseconds(array.type))
    if pa.types.is_decimal(array.type) and target == pa.float64():
        return array.cast(target, safe=False)
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        if not pa.types.is_nested(array.type):
            raise
    # Perhaps a value of the neighbours of a slice, which the lists of a slice still hold.
    return array.take(pa.array(np.arange(len(array)))).cast(target)


def normalise_schema(schema: pa.Schema, where: str, takes_steps: bool = False) -> pa.Schema:
    """Returns the schema of batches after ``normalise``.

    Args:
      schema: of any types.
      where: first part of an error's message.
      takes_steps: whether a column may have lists of lists, which only a feature list can hold.

    Raises:
      DataError: a column has a type that cannot become a column; the message begins with ``where``.
    """
    fields = []
    for field in schema:
        target = column_type(field.type)
        if target is None or (has_lists_as_steps(target) and not takes_steps):
            raise DataError(
                f"{where}, column '{field.name}': found type {field.type}, expected a scalar or a "
                "list of scalars. Leave the column out with 'columns', or write it as one, such as "
                "an interval as epoch(…), its seconds."
            )
        fields.append(field.with_type(target))
    return pa.schema(fields)


def with_shape(field: pa.Field, shape: Shape) -> pa.Field:
    """Returns a list column's field with its arrays' shape in the metadata."""
    return field.with_metadata({_SHAPE_KEY: ",".join(map(str, shape)).encode()})


def shape_of(field: pa.Field) -> Shape | None:
    """Returns the shape from ``with_shape``, ``None`` if the field has none."""
    text = (field.metadata or {}).get(_SHAPE_KEY)
    return None if text is None else tuple(int(size) for size in text.decode().split(","))


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Returns no rows; ``from_pylist`` takes eight times as long."""
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)


def only_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array; does not copy a single chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def take_rows(batch: pa.RecordBatch, rows: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """Returns rows of a batch, in any order, also several times.

    Args:
      batch: any columns.
      rows: int64[n] or int32[n], without nulls.
    """
    return _native.take(batch, rows)


def size_of(batch: pa.RecordBatch) -> int:
    """Returns ``batch.nbytes``, which takes long for thousands of columns.

    Of 8-byte numbers it may be too large by a bit a value.
    """
    size: int = batch.get_total_buffer_size()
    rows, columns = batch.num_rows, batch.num_columns
    # A number and a bit that says whether it is null. Buffers of slices have more rows.
    return size if 0 <= size - 8 * rows * columns <= (rows // 8 + 1) * columns else batch.nbytes


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the rows of batches of one schema as one batch.

    At least one batch has rows. ``pa.concat_batches`` needs pyarrow 19.
    """
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch
