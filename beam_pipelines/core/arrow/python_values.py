"""Values of Arrow as Python's and as texts.

Python has dates of the years 1 to 9999, Arrow has texts of years up to 32,767. Neither has the time
24:00:00 of databases.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SPACES = str.maketrans("\n\r\t", "   ")
_WITH_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NO_TEXT = "<value out of range"  # Arrow writes it in the place of a text


def python_values(array: pa.Array) -> list[Any]:
    """Returns the values of ``to_pylist``; texts where Python has no equal.

    An array with one such value becomes texts as a whole.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    found: list[Any]
    try:
        found = array.to_pylist()
    except UnicodeDecodeError:
        raise
    except (OverflowError, ValueError):  # years that Python has no dates of
        found = array.cast(_with_texts(array.type)).to_pylist()
    if pa.types.is_time(array.type):  # Python's times wrap at 24 hours
        texts = texts_of(array).to_pylist()
        found = texts if any(text and text[:2] >= "24" for text in texts) else found
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
    """Returns scalars as texts, as Arrow does; also times past 24 hours.

    Raises:
      pa.ArrowInvalid: a time below 0, a year beyond 32,767, or a value that is no text.
      pa.ArrowNotImplementedError: the type has no texts.
    """
    if pa.types.is_time(array.type):
        return _clock(array)
    texts = pc.cast(array, pa.string())
    if pa.types.is_temporal(array.type) and pc.any(pc.starts_with(texts, _NO_TEXT)).as_py():
        raise pa.ArrowInvalid("a year beyond 32,767")
    return texts


def _clock(times: pa.Array) -> pa.StringArray:
    """Returns the texts of times, with as many hours as there are."""
    type_ = times.type
    numbers = pc.fill_null(times.cast(f"int{type_.bit_width}"), 0).cast("int64").to_numpy()
    hours, rest = np.divmod(numbers, 3600 * _UNITS_A_SECOND[type_.unit])
    if (hours < 0).any():
        raise pa.ArrowInvalid("a time below 0")
    minutes = pa.array(rest).cast(f"int{type_.bit_width}").cast(type_).cast(pa.string())
    shown = pc.utf8_lpad(pa.array(hours).cast(pa.string()), 2, padding="0")
    texts = pc.binary_join_element_wise(shown, pc.utf8_slice_codeunits(minutes, 2), "")
    return pc.if_else(times.is_valid(), texts, pa.scalar(None, pa.string()))


def _with_texts(type_: pa.DataType) -> pa.DataType:
    """Returns a type with texts in the place of dates and times."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_texts(field.type)) for field in type_])
    if pa.types.is_dictionary(type_):
        return _with_texts(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_with_texts(type_.value_type))
    return pa.string() if pa.types.is_temporal(type_) else type_
