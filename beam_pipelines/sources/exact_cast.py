"""Casts to declared types that lose nothing.

Arrow's own casts lose: to bool, to date, to floats too small for a value.
"""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.equal_floats import nearest_floats
from beam_pipelines.core.arrow.python_values import texts_of
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.plan import SourcePlan

NULL_INSIDE = "a null inside a list"
_MICROS = pa.timestamp("us")
# A fraction of a second with zeros behind its microseconds.
_NO_NANOS = r"([.][0-9]{6})0{1,3}"
# Texts that are infinite numbers, in RE2's syntax.
INFINITY = r"(?i)^\s*[+-]?inf(inity)?\s*$"


def exact_cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Casts scalars, or lists of them, to a declared type.

    Casts of floats to 16 or 32 bits, and of decimals and texts to any float, take the nearest
    value. All others are exact.

    Raises:
      pa.ArrowInvalid: a value that has no equal in the type: a number other than 0 and 1 as a bool,
        a timestamp with a time of day as a date, a finite number beyond the range of a float, an
        integer that no float of the type equals.
      pa.ArrowNotImplementedError: there is no such cast.
    """
    if columns.is_list(array.type) and columns.is_list(type_):
        # Not ``values``: those of a slice include its neighbours'.
        values = exact_cast(array.flatten(), type_.value_type)
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(
            offsets, values, mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_timestamp(array.type) and pa.types.is_time(type_):
        raise pa.ArrowNotImplementedError("a timestamp has a date too")
    if _is_zoned(array.type) != _is_zoned(type_) and {array.type.id, type_.id} == {_MICROS.id}:
        # Arrow takes times without a zone for UTC.
        raise pa.ArrowNotImplementedError("one is a timestamp with a zone, one without")
    if pa.types.is_decimal(array.type) and pa.types.is_floating(type_):
        # Arrow's own cast from decimals to float32 does not give the nearest value.
        array = pc.cast(array, pa.float64(), safe=False)
    if pa.types.is_floating(type_) and pa.types.is_integer(array.type):
        # Arrow's own cast to float16 rounds; those to wider floats refuse all beyond a bound.
        floats, is_equal = nearest_floats(array, type_)
        _need(pa.array(is_equal), f"an integer that no {columns.type_name(type_)} equals")
        return floats
    result = _cast(array, type_)
    if pa.types.is_boolean(type_) and _is_number(array.type):
        _need(pc.equal(result.cast(pa.int8()), array), "a number other than 0 and 1")
    elif pa.types.is_date(type_) and pa.types.is_timestamp(array.type):
        local = array.cast(pa.timestamp(array.type.unit))
        _need(pc.equal(pc.cast(result, local.type), local), "a timestamp with a time of day")
    elif pa.types.is_floating(type_) and pa.types.is_floating(array.type):
        _need(
            pc.equal(_is_infinite(array), _is_infinite(result)),
            f"a number beyond the range of {type_}",
        )
    elif pa.types.is_floating(type_) and pa.types.is_string(array.type):
        infinite = array.filter(_is_infinite(result))
        _need(pc.match_substring_regex(infinite, INFINITY), f"a number beyond the range of {type_}")
    return result


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_time(type_) and pa.types.is_string(array.type):  # Arrow has no such cast
        _need(pc.match_substring(array, ":"), "a text that is no time")
        array = exact_cast(pc.binary_join_element_wise("1970-01-01", array, "T"), _MICROS)
    if pa.types.is_timestamp(type_) and pa.types.is_string(array.type):
        with contextlib.suppress(pa.ArrowInvalid):
            return array.cast(type_)
        array = pc.replace_substring_regex(array, _NO_NANOS, r"\1")  # Arrow has six digits or none
    return texts_of(array) if pa.types.is_string(type_) else pc.cast(array, type_)


def convert_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Casts an array exactly, to a declared type and its column type.

    Args:
      array: of a column.
      type_: the declared type, or the column's.

    Raises:
      pa.ArrowInvalid: a value that has no exact equal, a null inside a list or a step, or a text
        that is not UTF-8. A step of a list of lists may be null.
      pa.ArrowNotImplementedError: there is no such cast.
      TypeError: the type has no column type.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if columns.has_durations(array.type):
        array = columns.normalise(array)
    if pa.types.is_null(array.type):
        array = array.cast(type_)
    elif columns.column_type(array.type) == type_:
        array = columns.normalise(array)
    elif array.type != type_:
        array = exact_cast(array, type_)
    array = columns.normalise(array)
    has_lists = pa.types.is_list(array.type)
    values = pc.list_flatten(array, recursive=True) if has_lists else array
    if has_lists and values.null_count:
        raise pa.ArrowInvalid(NULL_INSIDE)
    if pa.types.is_string(values.type):
        values.validate(full=True)  # a file may declare any bytes text
    return array


def rounded_columns(plan: SourcePlan, are_sparse_rounded: bool) -> dict[str, str]:
    """Returns undeclared columns that are rounded -> the type that asks.

    Args:
      plan: of the source.
      are_sparse_rounded: whether the values of sparse tensors are read from text, as float32.
    """
    found = {
        field.name: "float64"
        for field in nested.flatten_fields(plan.file_schema)
        if pa.types.is_decimal(leaf := shapes.leaf(field.type)) and leaf.scale > 0
    }
    if are_sparse_rounded:
        found |= {sparse.value: "list<float32>" for sparse in plan.sparse}
    read = set(plan.read_schema.names) - set(plan.source.types)
    return {name: type_ for name, type_ in found.items() if name in read}


def _is_zoned(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.tz is not None)


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def _is_infinite(array: pa.Array) -> pa.BooleanArray:
    if pa.types.is_float16(array.type):  # older Arrow has no is_inf for it
        array = array.cast(pa.float32())
    return pc.is_inf(array)


def _need(holds: pa.BooleanArray, message: str) -> None:
    """Raises ``pa.ArrowInvalid`` if a condition is false for a value."""
    if not pc.all(holds, min_count=0).as_py():
        raise pa.ArrowInvalid(message)
