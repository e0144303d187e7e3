"""Words for values that cannot be converted, and sizes of values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.exact_cast import NULL_INSIDE, convert_array
from beam_pipelines.sources.faults import bad_rows
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


def explain(row: pa.RecordBatch, plan: SourcePlan, error: Exception) -> tuple[str, str]:
    """Returns the column and the error of a row that was refused."""
    if not isinstance(error, ColumnError):
        return "", str(error)
    found = nested.flat_arrays(row)[error.column]
    field = plan.read_schema.field(error.column)
    type_, shape = field.type, columns.shape_of(field)
    if known := _known_problem(found, error):
        return error.column, known
    if shape is not None:
        return error.column, (
            f"found {shorten(repr(_value(found)), 100)} ({error.message}), expected "
            f"{' × '.join(map(str, shape))} values as in the "
            f"sample. Mend it, or {declare_arrays(field, _are_arrays(found))}."
        )
    if columns.array_type(plan.source.types.get(error.column)):
        shown = shorten(repr(_value(found)), 100)
        return (
            error.column,
            (
                f"found {shown} ({error.message}), expected an array. Mend it, or leave the "
                "column out."
            ),
        )
    cure = _other_types(found, error.column, plan)
    expected, leaf = bad_rows.expected(type_), shapes.leaf(type_)
    if pa.types.is_floating(leaf) and pa.types.is_integer(shapes.leaf(found.type)):
        each = "a list, each item " if is_list(type_) else ""
        expected = f"{each}{_exact_integers(leaf)}"
    elif pa.types.is_floating(type_):
        cure = f"{cure} ({error.message})"
    return error.column, bad_rows.wrong_value(_value(found), expected, cure)


def _other_types(found: pa.Array, name: str, plan: SourcePlan) -> str:
    """Returns the lines of a recipe that read a refused value."""
    names = other_types(lambda type_: convert_array(found, type_), found.type)
    known = columns.type_name(plan.read_schema.field(name).type)
    lines = [f"'types: {{{yaml_text(name)}: {type_}}}'" for type_ in names if type_ != known]
    leave = "eave the column out with 'columns'."
    return f"Declare {' or '.join(lines)}, or l{leave}" if lines else f"L{leave}"


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
        type_ = pa.list_(type_) if is_list(found) else type_
        with contextlib.suppress(*bad_rows.ERRORS, TypeError):
            convert(type_)
            names.append(columns.type_name(type_))
    return names


def _known_problem(found: pa.Array, error: ColumnError) -> str:
    """Returns the message of an error of any type, or ``""``.

    Args:
      found: the row's value.
      error: of the value.
    """
    if is_list(found.type) and error.message == NULL_INSIDE:
        return (
            f"found {NULL_INSIDE}, expected values only. Leave the column out with 'columns', or "
            "such rows with 'on_error: {reject: 10}'."
        )
    if shapes.is_permuted(found.type):
        return (
            "found a tensor with permuted dimensions, expected one whose values are in row-major "
            "order. Write it without 'permutation', or leave the column out with 'columns'."
        )
    return ""


def _are_arrays(found: pa.Array) -> bool:
    try:
        return shapes.are_rectangular(shapes.stored_array(found))
    except pa.ArrowInvalid:
        return False


def declare_arrays(field: pa.Field, are_arrays: bool) -> str:
    """Returns the type that reads lists of lists of another shape.

    Args:
      field: of the column.
      are_arrays: whether each row's lists of one depth have one length.
    """
    if are_arrays:
        return f"declare 'types: {{{yaml_text(field.name)}: tensor}}' to keep each row's own shape"
    flat = columns.type_name(pa.list_(columns.value_type(field.type)))
    return f"declare 'types: {{{yaml_text(field.name)}: {flat}}}' for the values alone"


def _exact_integers(type_: pa.DataType) -> str:
    return f"an integer that a {columns.type_name(type_)} equals"


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
