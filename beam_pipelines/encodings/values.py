"""Reads encodings' parameters and maps values of scalars and lists alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import byte_lengths, is_valid
from beam_pipelines.core.columns import type_name, value_type
from beam_pipelines.core.errors import nearest
from beam_pipelines.encodings.feature import Feature

# The largest float32.
LARGEST = float(np.finfo(np.float32).max)
BEYOND = "a number beyond the range of float32"
# Ids are int64. Vectors and boundaries are in memory.
MOST_IDS, MOST_PLACES = (1 << 63) - 1, 10_000_000


def check_parameters(parameters: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Checks the names of an encoding's parameters.

    Args:
      parameters: of the recipe.
      known: name -> expected value, for the message.

    Raises:
      ValueError: a name is unknown.
    """
    for name in parameters:
        if name not in known:
            shown = ", ".join(f"{key} ({expected})" for key, expected in known.items()) or "none"
            raise ValueError(f"found parameter '{name}', expected {shown}.{nearest(name, known)}")


def need_numbers(feature: Feature) -> Feature:
    """Returns the feature if it is of numbers or lists of numbers.

    Raises:
      ValueError: it is of another type.
    """
    if not feature.is_number:
        raise ValueError(
            f"found {type_name(feature.type)}, expected numbers. Cast them first, or take "
            "'vocabulary' or 'hash_bucket'."
        )
    return feature


def map_values(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Converts scalars, or the items of lists, one for one.

    Args:
      array: scalars, or lists without null items; a null list stays null, an empty one empty.
      convert: array of scalars -> array of as many scalars; nulls stay null.
    """
    if not pa.types.is_list(array.type):
        return convert(array)
    return as_lists(
        convert(array.flatten()), byte_lengths(array), array.is_null() if array.null_count else None
    )


def as_lists(
    values: pa.Array, lengths: npt.NDArray[np.int64], nulls: pa.BooleanArray | None = None
) -> pa.ListArray:
    """Returns values as lists of these lengths.

    Rows that are null have length 0.

    Raises:
      pa.ArrowInvalid: there are more than 2**31 - 1 values.
    """
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)])).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=nulls)


def map_numbers(
    array: pa.Array,
    convert: Callable[[npt.NDArray[np.float64]], npt.NDArray[Any]],
    dtype: type[np.float32 | np.int64],
) -> pa.Array:
    """Converts numbers, scalars or in lists, by a float64 function.

    Nulls stay null. Subnormal floats count as 0, as in TensorFlow's kernels (denormals are zero).

    Args:
      array: int64, float32 or float64, or lists of them.
      convert: float64[n] -> n numbers; the input at nulls is arbitrary.
      dtype: of the result; floats are rounded to the nearest.
    """

    def convert_array(values: pa.Array) -> pa.Array:
        numbers = to_float64(values)
        with np.errstate(all="ignore"):
            result = np.asarray(convert(numbers)).astype(dtype, copy=False)
        return pa.array(result, mask=~is_valid(values) if values.null_count else None)

    return map_values(array, convert_array)


def to_float64(array: pa.Array) -> npt.NDArray[np.float64]:
    """Returns int64, float32 or float64 scalars as float64.

    Nulls and subnormal floats become 0.
    """
    filled = array.fill_null(0) if array.null_count else array
    numbers: npt.NDArray[np.float64] = filled.to_numpy(zero_copy_only=False).astype(np.float64)
    if pa.types.is_floating(array.type):
        np.copyto(numbers, 0.0, where=np.abs(numbers) < smallest_normal(array.type))
    return numbers


def map_exact(array: pa.Array, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> pa.Array:
    """Converts numbers, scalars or in lists, in their own type.

    Nulls stay null. The function takes and returns arrays of int64, float32 or float64.
    """

    def convert_array(values: pa.Array) -> pa.Array:
        filled = values.fill_null(0) if values.null_count else values
        with np.errstate(all="ignore"):
            result = convert(filled.to_numpy(zero_copy_only=False))
        return pa.array(result, mask=~is_valid(values) if values.null_count else None)

    return map_values(array, convert_array)


def elementwise(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function for values that may be null.

    Null stays null.
    """

    def convert(value: Any) -> Any:
        return None if value is None else function(value)

    return convert


def narrow(number: float) -> float:
    """Returns the float32 that is nearest to a float64."""
    return float(np.float32(number))


def narrowed(array: pa.Array) -> pa.Array:
    """Returns float64 scalars, or the items of lists, as the nearest float32.

    Other values stay as they are.

    Raises:
      pa.ArrowInvalid: a finite number is beyond the range of float32.
    """
    if not pa.types.is_float64(value_type(array.type)):
        return array
    check_range(flattened(array))
    return pc.cast(array, _narrow_type(array.type), safe=False)


def check_range(values: pa.Array) -> None:
    """Raises ``pa.ArrowInvalid`` if a finite float64 is beyond the range of float32."""
    ends = pc.min_max(values)
    if not any(abs(end.as_py() or 0.0) > LARGEST for end in (ends["min"], ends["max"])):
        return
    small = pc.cast(values, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(small), pc.is_finite(values))).as_py():
        raise pa.ArrowInvalid(BEYOND)


def flattened(array: pa.Array) -> pa.Array:
    """Returns the values of scalars, lists, or lists of lists."""
    while pa.types.is_list(array.type):
        array = array.flatten()
    return array


def _narrow_type(type_: pa.DataType) -> pa.DataType:
    is_list = pa.types.is_list(type_)
    return pa.list_(_narrow_type(type_.value_type)) if is_list else pa.float32()


def narrowed_value(value: Any) -> Any:
    """Returns ``narrowed`` of one row: a float, numpy's numbers, or ``None``.

    Raises:
      ValueError: a finite number is beyond the range of float32.
    """
    if isinstance(value, float):
        number = narrow(value)
        if number - number != 0 and math.isfinite(value):
            raise ValueError(BEYOND)
        return number
    if isinstance(value, np.ndarray):
        return narrowed(pa.array(value)).to_numpy()
    return value


def smallest_normal(dtype: Any) -> float:
    """Returns the smallest normal number above 0 of a type."""
    is_wide = dtype in (pa.float64(), "float64", np.float64)
    return float(np.finfo(np.float64 if is_wide else np.float32).tiny)


def widened(feature: Feature) -> Callable[[Any], float]:
    """Returns ``to_float64`` for single values of a feature of numbers."""
    if pa.types.is_integer(feature.type):
        return float
    least = smallest_normal(feature.type)
    return lambda number: 0.0 if -least < number < least else number


def need_text(parameters: Mapping[str, Any], name: str, expected: str) -> str:
    """Returns a parameter that must be a text.

    Raises:
      ValueError: it is missing or no text.
    """
    value = parameters.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"found {value!r}, expected {expected}.")
    return value


def need_number(value: Any, expected: str) -> int | float:
    """Returns a parameter that must be a finite float32 number.

    Raises:
      ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"found {value!r}, expected {expected}.")
    return value


def need_whole(value: Any, least: int, expected: str, most: int = MOST_IDS) -> int:
    """Returns a parameter, a whole number from ``least`` to ``most``.

    Raises:
      ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"found {value!r}, expected {expected}.")
    if value > most:
        raise ValueError(f"found {value:,}, expected {expected}, at most {most:,}.")
    return value


def short_form(parameters: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns the parameters with VALUE of ``{kind: VALUE}`` under a name."""
    return {name if key == "value" else key: value for key, value in parameters.items()}


def need_flag(parameters: Mapping[str, Any], name: str) -> bool:
    """Returns a parameter that is true or false; False by default.

    Raises:
      ValueError: it is neither.
    """
    value = parameters.get(name, False)
    if value is not True and value is not False:
        raise ValueError(f"found {name} {value!r}, expected true or false.")
    return bool(value)
