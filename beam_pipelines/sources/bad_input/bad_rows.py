"""Finds the rows that make Arrow refuse a block.

Costs nothing until a block is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from beam_pipelines.core.arrow.python_values import python_rows
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten

T = TypeVar("T")

_MAX_FOUND = 100

# The largest of each type; larger numbers would be infinite.
_FLOAT_RANGES = {
    "halffloat": " within ±65,504",
    "float": " within ±3.4e38",
    "double": " within ±1.8e308",
}

# Errors of readers for values that they refuse.
ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)


class BadRow(NamedTuple):
    """A row that cannot be read.

    Attributes:
      number: of the row among the rows tried.
      error: of this row alone.
    """

    number: int
    error: Exception


def sift(attempt: Callable[[int, int], T], start: int, end: int) -> Iterator[T | BadRow]:
    """Yields results of good rows and the bad rows, in order.

    A block that fails is cut in the middle; a row that fails alone is bad. How many rows are tried
    next depends on how many were good before: a bad row among good ones costs few attempts, and one
    among bad ones a single one.

    Args:
      attempt: reads rows [start, end), or raises one of ``ERRORS`` if any of them is bad. Whether a
        row is bad must not depend on its neighbours.
      start, end: the rows to read.
    """
    length, good = end - start, 0
    cleared = start  # the first row after all rows known to be, or to precede, a bad one
    while start < end:
        stop = min(start + length, end)
        try:
            made = attempt(start, stop)
        except ERRORS as error:
            cleared = stop
            if stop - start > 1:
                length = (stop - start) // 2
                continue
            yield BadRow(start, error)
            length, good = max(1, 2 * good), 0
        else:
            yield made
            good += stop - start
            length = (cleared - stop + 1) // 2 if stop < cleared else 2 * length
        start = stop


def reject_or_raise(bad: Rejected, rejected: list[Rejected], reject: bool) -> None:
    """Keeps a bad row where rows may be rejected; raises otherwise.

    Raises:
      DataError: rows may not be rejected; describes the row.
    """
    if not reject:
        raise DataError(bad.describe())
    rejected.append(bad)


def shown_row(row: pa.RecordBatch) -> str:
    """Returns the values of a batch of one row, for messages.

    They are ``""`` if Python has no equal of one, such as a nanosecond.
    """
    try:
        return shorten(str(python_rows(row)[0]))
    except UnicodeDecodeError:
        texts = pa.RecordBatch.from_arrays(
            [as_bytes(column) for column in row.columns], row.schema.names
        )
        return shorten(str(texts.to_pylist()[0]))
    except (ValueError, OverflowError):
        return ""


def as_bytes(array: pa.Array) -> pa.Array:
    """Returns an array with its texts as bytes, not necessarily UTF-8."""
    return array.cast(_with_bytes(array.type))


def _with_bytes(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _with_bytes(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_bytes(field.type)) for field in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_with_bytes(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_with_bytes(type_.key_type), _with_bytes(type_.item_type))
    if pa.types.is_string(type_) or pa.types.is_string_view(type_):
        return pa.binary()
    return pa.large_binary() if pa.types.is_large_string(type_) else type_


def wrong_value(found: object, wanted: pa.DataType | str, cure: str) -> str:
    """Returns ``found 'n/a', expected an integer. <cure>``.

    ``wanted`` is a type, or words for it.
    """
    shown = (
        repr(shorten(found, _MAX_FOUND))
        if isinstance(found, str)
        else shorten(repr(found), _MAX_FOUND)
    )
    words = wanted if isinstance(wanted, str) else expected(wanted)
    return f"found {shown}, expected {words}. {cure}"


def integer_range(type_: pa.DataType) -> tuple[int, int]:
    """Returns the smallest and largest integer of a type, within int64."""
    bits = type_.bit_width - pa.types.is_signed_integer(type_)
    low = -(1 << bits) if pa.types.is_signed_integer(type_) else 0
    return low, (1 << min(bits, 63)) - 1


def expected(type_: pa.DataType) -> str:
    """Describes the values that a column type takes, for people."""
    types = pa.types
    if types.is_list(type_):
        return f"a list, each item {expected(type_.value_type)}"
    if types.is_integer(type_):
        low, high = integer_range(type_)
        return f"an integer from {low} to {high}"
    for matches, words in (
        (types.is_boolean, "true or false"),
        (types.is_floating, f"a number{_FLOAT_RANGES.get(str(type_), '')}"),
        (types.is_date, "a date such as 2013-01-31"),
        (types.is_time, "a time in whole microseconds, such as 05:15:00"),
        (types.is_string, "text in UTF-8"),
        (types.is_binary, "bytes"),
    ):
        if matches(type_):
            return words
    zone = " with an offset from UTC, such as 2013-01-31T05:15:00Z"
    end = zone if getattr(type_, "tz", None) else ", such as 2013-01-31 05:15:00"
    return f"a timestamp in whole microseconds{end}"
