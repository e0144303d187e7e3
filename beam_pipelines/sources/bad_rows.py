"""Finds the rows that make Arrow refuse a block, and words what is wrong with them. Costs nothing until one does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

T = TypeVar("T")

MAX_TEXT = 1_000
# Rows up to which cutting around single rows beats halving: with 1 % bad rows of 40 columns 2.5 ms a bad row, against 9.5.
_SHORT = 512
# pyarrow.csv counts from 1, "Row #12", pyarrow.json from 0, "in row 11".
_ROW = re.compile(r"Row #(?P<from_one>[0-9]+)|in row (?P<from_zero>[0-9]+)")
_MAX_FOUND = 100

# The largest of each type; what is beyond would be infinite.
_FLOAT_RANGES = {"halffloat": " within ±65,504", "float": " within ±3.4e38", "double": " within ±1.8e308"}

# What a reader says of a value that it cannot take.
ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)


class BadRow(NamedTuple):
    """A row that cannot be read: its number among the rows tried, and the error for this row alone."""

    number: int
    error: Exception


def sift(attempt: Callable[[int, int], T], start: int, end: int) -> Iterator[T | BadRow]:
    """Yields what was made of the good rows of [start, end), and the bad ones, in order, by cutting up what fails.

    Long stretches are halved. A short one is cut around the row that the error names, which spares most of the attempts; should the
    error name another row than the bad one, that costs time and changes nothing.

    Args:
      attempt: reads rows [start, end), or raises one of ``ERRORS`` if any of them is bad. Whether a row is bad must not depend on
        its neighbours.
      start, end: the rows to read.
    """
    try:
        if start < end:
            yield attempt(start, end)
        return
    except ERRORS as error:
        if end - start == 1:
            yield BadRow(start, error)
            return
        cuts = _around_named_row(error, start, end) if end - start <= _SHORT else ((start + end) // 2,)
    for begin, stop in itertools.pairwise((start, *cuts, end)):
        yield from sift(attempt, begin, stop)


def _around_named_row(error: Exception, start: int, end: int) -> tuple[int, ...]:
    """Returns where to cut so that the row that pyarrow's error names is alone; the middle if it names none."""
    match = _ROW.search(str(error))
    if match is None:
        return ((start + end) // 2,)
    named = start + (int(match["from_one"]) - 1 if match["from_one"] else int(match["from_zero"]))
    row = min(max(named, start), end - 1)
    return row, row + 1


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Shortens text to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown_row(row: pa.RecordBatch) -> str:
    """Returns the values of a batch of one row, where there is no text to show; ``""`` if Python has no equal of one, as of late dates."""
    try:
        return clip(str(row.to_pylist()[0]))
    except (ValueError, OverflowError):
        return ""


def wrong_value(found: object, type_: pa.DataType, cure: str) -> str:
    """Returns ``found 'n/a', expected an integer. <cure>``."""
    shown = repr(clip(found, _MAX_FOUND)) if isinstance(found, str) else clip(repr(found), _MAX_FOUND)
    return f"found {shown}, expected {expected(type_)}. {cure}"


def expected(type_: pa.DataType) -> str:
    """Describes the values that a column type takes, for people."""
    types = pa.types
    if types.is_list(type_):
        return f"a list, each item {expected(type_.value_type)}"
    if types.is_integer(type_):
        bits = type_.bit_width - types.is_signed_integer(type_)
        low = -(1 << bits) if types.is_signed_integer(type_) else 0
        high = (1 << bits) - 1 if type_ != pa.uint64() else (1 << 63) - 1
        return f"an integer from {low} to {high}"
    for matches, words in (
        (types.is_boolean, "true or false"),
        (types.is_floating, f"a number{_FLOAT_RANGES.get(str(type_), '')}"),
        (types.is_date, "a date such as 2013-01-31"),
        (types.is_time, "a time such as 05:15:00"),
        (types.is_string, "text in UTF-8"),
        (types.is_binary, "bytes"),
    ):
        if matches(type_):
            return words
    zone = " with an offset from UTC, such as 2013-01-31T05:15:00Z" if getattr(type_, "tz", None) else ""
    return f"a timestamp{zone or ' such as 2013-01-31 05:15:00'}"
