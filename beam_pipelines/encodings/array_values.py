"""Reads encodings' parameters and maps values of scalars and lists alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import byte_lengths, is_valid
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.errors import nearest
from beam_pipelines.encodings.feature import Feature

# The largest float32, and the smallest normal numbers above 0.
LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = {32: float(np.finfo(np.float32).tiny), 64: float(np.finfo(np.float64).tiny)}
_WIDE = (pa.float64(), "float64", np.float64)
BEYOND = "a number beyond the range of float32"
# Columns of one of these types, of fewer rows, are converted as one array: a call costs as much as
# some hundred values. Hashing a type takes as long as all else of a column.
_CONVERTED = {
    type_.id
    for type_ in (pa.float64(), pa.bool_(), pa.date32(), pa.time64("us"), pa.timestamp("us"))
}
_FEW_ROWS = 2_000
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


def map_together(
    conversions: Mapping[str, Callable[[pa.Array], pa.Array]], arrays: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """Returns converted arrays, those of one type by one call.

    Args:
      conversions: name -> conversion of values one by one.
      arrays: name -> array; all of as many rows.

    Returns:
      Nothing if a conversion fails.
    """
    blocks: dict[Any, list[str]] = {}
    together = _CONVERTED if 0 < len(next(iter(arrays.values()), ())) < _FEW_ROWS else ()
    for name, convert in conversions.items():
        kind = arrays[name].type.id
        blocks.setdefault((convert, kind) if kind in together else name, []).append(name)
    converted: dict[str, pa.Array] = {}
    try:
        for first, *more in blocks.values():
            convert, array = conversions[first], arrays[first]
            if not more:
                converted[first] = convert(array)
                continue
            joined = pa.concat_arrays([array, *(arrays[name] for name in more)])
            whole = convert(joined)
            if whole is joined:  # was checked only
                converted |= {name: arrays[name] for name in (first, *more)}
                continue
            for place, name in enumerate((first, *more)):
                converted[name] = whole.slice(place * len(array), len(array))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return {}
    return converted


def as_lists(
    values: pa.Array, lengths: npt.NDArray[np.int64], nulls: pa.BooleanArray | None = None
) -> pa.ListArray:
    """Returns values as lists of these lengths.

    Rows that are null have length 0.

    Raises:
      pa.ArrowInvalid: there are more than 2**31 - 1 values.
    """
    if len(values) >= 1 << 31:
        raise pa.ArrowInvalid(f"{len(values):,} values of lists together, expected less than 2**31")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, dtype=np.int32, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=nulls)


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
    return _map(array, to_float64, lambda x: np.asarray(convert(x)).astype(dtype, copy=False))


def to_float64(array: pa.Array) -> npt.NDArray[np.float64]:
    """Returns int64, float32 or float64 scalars as float64.

    Nulls and subnormal floats become 0.
    """
    numbers: npt.NDArray[np.float64] = _filled(array).astype(np.float64)
    if pa.types.is_floating(array.type):
        numbers[np.abs(numbers) < smallest_normal(array.type)] = 0.0
    return numbers


def map_exact(array: pa.Array, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> pa.Array:
    """Converts numbers, scalars or in lists, in their own type.

    Nulls stay null. The function takes and returns arrays of int64, float32 or float64.
    """
    return _map(array, _filled, convert)


def _filled(array: pa.Array) -> npt.NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _map(array: pa.Array, to_numpy: Callable[..., Any], convert: Callable[..., Any]) -> pa.Array:
    def convert_array(values: pa.Array) -> pa.Array:
        numbers = to_numpy(values)
        with np.errstate(all="ignore"):
            result = convert(numbers)
        return pa.array(result, mask=~is_valid(values) if values.null_count else None)

    return map_values(array, convert_array)


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
    numbers = values.to_numpy(zero_copy_only=False)  # null is NaN
    is_large = np.abs(numbers) > LARGEST
    if not is_large.any():
        return
    large = numbers[is_large]
    with np.errstate(over="ignore"):
        if (np.isinf(large.astype(np.float32)) & np.isfinite(large)).any():
            raise pa.ArrowInvalid(BEYOND)


def flattened(array: pa.Array) -> pa.Array:
    """Returns the values of scalars, lists, or lists of lists."""
    while pa.types.is_list(array.type):
        array = array.flatten()
    return array


def _narrow_type(type_: pa.DataType) -> pa.DataType:
    is_list = pa.types.is_list(type_)
    return pa.list_(_narrow_type(type_.value_type)) if is_list else pa.float32()


def smallest_normal(dtype: Any) -> float:
    """Returns the smallest normal number above 0 of a type."""
    return _SMALLEST[64 if dtype in _WIDE else 32]


def only_value(parameters: Mapping[str, Any], expected: str, default: Any = None) -> Any:
    """Returns the value of an encoding that has no other parameters.

    Raises:
      ValueError: there are others.
    """
    check_parameters(parameters, {"value": expected})
    return parameters.get("value", default)


def need_text(value: Any, expected: str) -> str:
    """Returns a parameter that must be a text.

    Raises:
      ValueError: it is missing or no text.
    """
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
    """Returns the parameters with VALUE of ``{kind: VALUE}`` under a name.

    Raises:
      ValueError: both are given.
    """
    if "value" in parameters and name in parameters:
        raise ValueError(f"found both 'value' and '{name}', expected one of them.")
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
