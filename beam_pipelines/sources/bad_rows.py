"""Finds the rows that make Arrow refuse a block, and words what is wrong with them. Costs nothing until one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

T = TypeVar("T")

MAX_TEXT = 1_000
_MAX_FOUND = 100

# What a reader says of a value that it cannot take.
ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)


class BadRow(NamedTuple):
    """A row that cannot be read: its number among the rows tried, and the error for this row alone."""

    number: int
    error: Exception


def sift(attempt: Callable[[int, int], T], start: int, end: int) -> Iterator[T | BadRow]:
    """Yields what was made of the good rows of [start, end), and the bad ones, in order, by halving what fails.

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
    middle = (start + end) // 2
    yield from sift(attempt, start, middle)
    yield from sift(attempt, middle, end)


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Shortens text to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


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
        (types.is_floating, "a number"),
        (types.is_date, "a date such as 2013-01-31"),
        (types.is_time, "a time such as 05:15:00"),
        (types.is_string, "text in UTF-8"),
        (types.is_binary, "bytes"),
    ):
        if matches(type_):
            return words
    zone = " with an offset from UTC, such as 2013-01-31T05:15:00Z" if getattr(type_, "tz", None) else ""
    return f"a timestamp{zone or ' such as 2013-01-31 05:15:00'}"
