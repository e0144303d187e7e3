"""Words for values that cannot be converted, and sizes of values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.exact_cast import NULL_INSIDE, convert_array
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.plan import SourcePlan

# Types that may take a value which another one refuses.
_OTHERS = ("text", "float64", "int64")


class ColumnError(ValueError):
    """A column's value that cannot be converted; has the column's name."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(column, message)
        self.column = column
        self.message = message

    def __str__(self) -> str:
        return self.message


def explain(
    row: pa.RecordBatch, plan: SourcePlan, error: Exception, *, keeps_json: bool = False
) -> tuple[str, str]:
    """Returns the column and the error of a row that was refused.

    Args:
      row, error: the row, and why it was refused.
      plan: of its source.
      keeps_json: whether a list can be read as the text of its JSON.
    """
    if not isinstance(error, ColumnError):
        return "", str(error)
    if error.message == NULL_INSIDE:
        leave = "Leave"
        if keeps_json:
            leave = f"Declare {json_text(row.schema.names, error.column)}, leave"
        return error.column, (
            f"found {NULL_INSIDE}, expected values only. {leave} the column out with 'columns', or "
            "such rows with 'on_error: {reject: 10}'."
        )
    found, field = nested.flat_arrays(row)[error.column], plan.read_schema.field(error.column)
    return error.column, _explained(found, field, error, plan.source.types.get(error.column))


def _explained(found: pa.Array, field: pa.Field, error: ColumnError, declared: str | None) -> str:
    """Returns the error of a value.

    Args:
      found: the value.
      field: of its column.
      error: why it was refused.
      declared: the type that the recipe declares.
    """
    key, shape = yaml_text(field.name), columns.shape_of(field)
    shown = f"found {shorten(repr(_value(found)), 100)} ({error.message})"
    if shapes.is_permuted(found.type):
        return (
            "found a tensor with permuted dimensions, expected one whose values are in row-major "
            "order. Write it without 'permutation', or leave the column out with 'columns'."
        )
    if shape is not None:
        type_, use = columns.type_name(pa.list_(columns.value_type(field.type))), "the values alone"
        with contextlib.suppress(pa.ArrowInvalid):
            if shapes.are_rectangular(shapes.stored_array(found)):
                type_, use = "tensor", "each row's own shape"
        return (
            f"{shown}, expected {' × '.join(map(str, shape))} values as in the sample. Mend it, or "
            f"declare 'types: {{{key}: {type_}}}' to keep {use}."
        )
    if columns.array_type(declared):
        return f"{shown}, expected an array. Mend it, or leave the column out."
    names = other_types(lambda type_: convert_array(found, type_), found.type)
    known = columns.type_name(field.type)
    lines = [f"'types: {{{key}: {type_}}}'" for type_ in names if type_ != known]
    cure = "Leave the column out with 'columns'."
    if lines:
        cure = f"Declare {' or '.join(lines)}, or leave the column out with 'columns'."
    expected, leaf = bad_rows.expected(field.type), shapes.leaf(field.type)
    if pa.types.is_floating(leaf) and pa.types.is_integer(shapes.leaf(found.type)):
        each = "a list, each item " if columns.is_list(field.type) else ""
        expected = f"{each}an integer that a {columns.type_name(leaf)} equals"
    elif pa.types.is_floating(field.type):
        cure = f"{cure} ({error.message})"
    return bad_rows.wrong_value(_value(found), expected, cure)


def json_text(names: Iterable[str], column: str) -> str:
    """Returns the remedy that reads a column's field as text."""
    field = next(name for name in names if f"{column}.".startswith(f"{name}."))
    return f"'types: {{{yaml_text(field)}: text}}' to keep its JSON as text"


def other_types(convert: Callable[[pa.DataType], object], found: pa.DataType) -> list[str]:
    """Returns the names of types that a value can become.

    Args:
      convert: tries a type.
      found: the type of the value.
    """
    names = []
    stamps = (
        ("timestamptz", "timestamp") if pa.types.is_timestamp(columns.value_type(found)) else ()
    )
    for name in (*stamps, *_OTHERS):
        type_ = columns.parse_type(name)
        type_ = pa.list_(type_) if columns.is_list(found) else type_
        with contextlib.suppress(*bad_rows.ERRORS, TypeError):
            convert(type_)
            names.append(columns.type_name(type_))
    return names


def _value(array: pa.Array) -> object:
    """Returns an array's only value, as text where Python has no equal."""
    if array.type == pa.time64("ns"):  # Python's times end at microseconds
        return str(array.cast(pa.string())[0])
    try:
        return python_value(array, 0)
    except UnicodeDecodeError:
        return bad_rows.as_bytes(array)[0].as_py()
    except ValueError:  # a time below 0
        return str(array.cast(pa.string())[0])


class LargeCell(NamedTuple):
    """A value that is larger than it may be."""

    row: int
    column: str
    size_bytes: int


def large_cell(batch: pa.RecordBatch, most: int) -> LargeCell | None:
    """Returns the first value that is larger than ``most`` bytes, or ``None``.

    Columns are checked in order; the value is the first one in the first such column.
    """
    if batch.get_total_buffer_size() <= most:
        return None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        sizes = _sizes(column)
        if sizes is not None and len(sizes) and sizes.max() > most:
            row = int(np.argmax(sizes > most))
            return LargeCell(row, name, int(sizes[row]))
    return None


def _sizes(array: pa.Array) -> npt.NDArray[np.int64] | None:
    """Returns the bytes of each value of a column, or ``None``.

    Known for text, bytes, lists of scalars, of text or of bytes, and lists of such lists.
    """
    sizes: npt.NDArray[np.int64] | None = None
    if _is_bytes(array.type):
        sizes = np.diff(offsets_of(array))
    elif pa.types.is_list(array.type):
        offsets, values = offsets_of(array), array.values
        if pa.types.is_list(values.type):
            offsets, values = offsets_of(values)[offsets], values.values
        is_bytes = _is_bytes(values.type)
        sizes = np.diff(offsets_of(values)[offsets] if is_bytes else offsets)
        sizes = sizes if is_bytes else sizes * max(1, values.type.bit_width // 8)
    return sizes


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))
