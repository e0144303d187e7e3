"""The meaning of a text cell, by a second implementation.

The rules use Python's own numbers, and patterns for dates.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Sequence
from typing import Any

_DAY = r"(\d{4})-(\d{2})-(\d{2})"
_CLOCK = r"(\d{2})(?::?(\d{2})(?::?(\d{2})(?:\.(\d{1,9}))?)?)?"
_ZONE = r"(?:(Z)|([+-])(\d{2})(?::?(\d{2}))?)?"
_TIMESTAMP = re.compile(rf"{_DAY}(?:[T ]{_CLOCK}{_ZONE})?")


def means(cell: bytes, value: Any, kind: str, nulls: Sequence[str]) -> bool:
    """Whether a cell may have become a value of an Arrow type."""
    if cell in [null.encode() for null in nulls]:
        return value is None
    if value is None:
        return False
    if kind == "binary":
        return bool(value == cell)
    try:
        text = cell.decode()
    except UnicodeDecodeError:
        return False
    if kind == "string":
        return bool(value == text)
    return bool(_meaning(text.strip(" \t"), value, kind))


def _meaning(text: str, value: Any, kind: str) -> bool:  # noqa: PLR0911 - a kind of value each
    if kind.startswith(("int", "uint")):
        return integer(text) == value
    if kind in ("float", "double", "halffloat"):
        return is_float(text, value, kind)
    if kind == "bool":
        return bool(
            {"true": True, "false": False, "1": True, "0": False}.get(text.lower()) is value
        )
    if kind.startswith("time64"):
        return str(timestamp(f"1970-01-01 {text}")).removeprefix("1970-01-01 ") == str(value)
    if kind.startswith("date"):
        return re.fullmatch(_DAY, text) is not None and str(timestamp(text)) == f"{value} 00:00:00"
    if kind.startswith("timestamp"):
        return timestamp(text) == value.replace(tzinfo=None)
    return False


def integer(text: str) -> int | None:
    """Returns a whole number in decimal, or in Arrow's hexadecimal form."""
    text = re.sub(r"(?<=[0-9])\.0+(?=[ \t]*\Z)", "", text)
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text) if len(text) < 4_000 else None
    return int(text, 16) if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]+", text) else None


def is_float(text: str, value: float, kind: str) -> bool:
    """Whether text means a number of that precision.

    Halves are read as single precision first.
    """
    if "_" in text:
        return False
    try:
        number = float(text)
    except ValueError:
        return False
    if math.isnan(number):
        return math.isnan(value)
    if kind == "float":
        return is_nearest_float32(number, value)
    return number == value


def is_nearest_float32(number: float, value: float) -> bool:
    """Whether a float32 is the nearest one to a number.

    If rounding twice makes a difference, either of two neighbours is.
    """
    if math.isinf(number):
        return number == value
    try:
        near = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return False
    return bool(near == value or abs(near - value) <= 2.0**-23 * abs(near))


def timestamp(text: str) -> datetime.datetime | None:
    """Returns a point in time in UTC, or without a zone.

    ``None`` means no point in time, or one with parts of a microsecond.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = (
        match.groups()
    )
    if fraction and fraction[6:].strip("0"):
        return None
    try:
        clock = (
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "")[:6].ljust(6, "0")),
        )
        found = datetime.datetime(int(year), int(month), int(day), *clock)  # noqa: DTZ001
        away = datetime.timedelta(hours=int(zone_hour or 0), minutes=int(zone_minute or 0))
        return found - away if sign == "+" else found + away
    except (ValueError, OverflowError):
        return None
