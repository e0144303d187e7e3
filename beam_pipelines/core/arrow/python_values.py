"""Values of Arrow as Python's and as texts, however far dates are.

Python has dates of the years 1 to 9999, Arrow has texts of years up to 32,767. Neither has the time
24:00:00 of databases.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SPACES = str.maketrans("\n\r\t", "   ")
_WITH_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_A_DAY = 86_400
# Days from 1970-01-01 of Python's first and last date. A zone can move a timestamp by one.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def python_values(array: pa.Array) -> list[Any]:
    """Returns the values of ``to_pylist``; texts where Python has no equal.

    An array with one such value becomes texts as a whole.
    """
    found: list[Any] = _within_python(array).to_pylist()
    return found


def python_value(array: pa.Array, row: int) -> Any:
    """Returns one value of ``python_values``."""
    return python_values(array.slice(row, 1))[0]


def python_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns the rows of a batch, with the values of ``python_values``.

    A name that several columns have is that of the last one.
    """
    columns = [python_values(column) for column in batch.columns]
    named = list(zip(batch.schema.names, columns, strict=True))
    return [{name: column[row] for name, column in named} for row in range(batch.num_rows)]


def json_value(value: Any) -> Any:
    """Returns a value for JSON.

    Dates and times become texts, bytes that are no printable text their length.
    """
    if isinstance(value, bytes):
        text = printable(value)
        return f"({len(value):,} bytes)" if text is None else text
    if isinstance(value, _WITH_TEXT):
        return str(value)
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    return value


def printable(value: bytes) -> str | None:
    """Returns bytes as text if they are printable UTF-8.

    Line ends and tabs count as printable.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate(_SPACES).isprintable() else None


def texts_of(array: pa.Array) -> pa.StringArray:
    """Returns scalars as texts, as Arrow does, and all dates and times.

    Raises:
      pa.ArrowInvalid: a time below 0, or a value that is no text.
      pa.ArrowNotImplementedError: the type has no texts.
    """
    is_far = _is_far(array)
    if is_far is None:
        return pc.cast(array, pa.string())
    # Arrow writes an error, or another time, for values that it has no text of.
    near = pc.cast(pc.if_else(is_far, pa.scalar(None, array.type), array), pa.string())
    return pc.replace_with_mask(near, is_far, _far_texts(array.filter(is_far)))


def _far_texts(array: pa.Array) -> pa.StringArray:
    """Returns the texts of values without nulls."""
    if pa.types.is_time(array.type):
        return _clock(array.cast(f"int{array.type.bit_width}").cast("int64"), array.type.unit)
    if pa.types.is_date32(array.type):
        return _calendar(array.cast("int32").to_numpy())
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    number = array.cast("int64").to_numpy()
    days, rest = np.divmod(number, _SECONDS_A_DAY * _UNITS_A_SECOND[unit])
    if pa.types.is_date64(array.type):
        return _calendar(days)
    # The numbers of a timestamp with a zone are of UTC.
    zone = "" if array.type.tz is None else "Z"
    return pc.binary_join_element_wise(
        _calendar(days), pc.binary_join_element_wise(_clock(pa.array(rest), unit), zone, ""), " "
    )


def _calendar(days: npt.NDArray[Any]) -> pa.StringArray:
    return pa.array(np.datetime_as_string(days.astype("datetime64[D]")).astype(object), pa.string())


def _clock(numbers: pa.Int64Array, unit: str) -> pa.StringArray:
    """Returns the texts of times, with as many hours as there are."""
    hours, rest = np.divmod(numbers.to_numpy(), 3600 * _UNITS_A_SECOND[unit])
    if (hours < 0).any():
        raise pa.ArrowInvalid("a time below 0")
    type_ = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    minutes = pa.array(rest).cast(f"int{type_.bit_width}").cast(type_).cast(pa.string())
    shown = pc.utf8_lpad(pa.array(hours).cast(pa.string()), 2, padding="0")
    return pc.binary_join_element_wise(shown, pc.utf8_slice_codeunits(minutes, 2), "")


def _within_python(array: pa.Array) -> pa.Array:
    """Returns an array, with texts for times out of Python's range."""
    types, type_ = pa.types, array.type
    if isinstance(array, pa.ExtensionArray):
        return _within_python(array.storage)
    if types.is_dictionary(type_):
        return _within_python(array.dictionary_decode())
    if types.is_struct(type_):
        fields = [_within_python(array.field(place)) for place in range(type_.num_fields)]
        names = [type_.field(place).name for place in range(type_.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, names, mask=mask)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        values = _within_python(array.flatten())
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast("int64")
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]), pa.int64())
        mask = array.is_null() if array.null_count else None
        return pa.LargeListArray.from_arrays(offsets, values, mask=mask)
    return array if _is_far(array) is None else texts_of(array)


def _is_far(array: pa.Array) -> pa.BooleanArray | None:
    """Returns which values are out of Python's range; ``None``: none."""
    types, type_ = pa.types, array.type
    if types.is_date32(type_):
        low, high = _FIRST_DAY, _LAST_DAY
    elif types.is_time(type_):
        low, high = 0, _SECONDS_A_DAY * _UNITS_A_SECOND[type_.unit] - 1
    elif types.is_date64(type_) or types.is_timestamp(type_):
        unit = "ms" if types.is_date64(type_) else type_.unit
        day = _SECONDS_A_DAY * _UNITS_A_SECOND[unit]
        zone = 0 if types.is_date64(type_) or type_.tz in (None, "UTC") else 1
        low, high = (_FIRST_DAY + zone) * day, (_LAST_DAY + 1 - zone) * day - 1
    else:
        return None
    if type_.bit_width == 64:
        # All nanoseconds of an int64 are of years that Python has.
        low, high = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
    numbers = array.cast(f"int{type_.bit_width}")
    is_far = pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), False)
    return is_far if pc.any(is_far).as_py() else None
