"""The meaning of text cells, one function a type.

Kernels are quicker and give the same; what they decline is decided here.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.sources.bad_input import bad_rows

ParseCell = Callable[[str], Any]
Flags = npt.NDArray[np.bool_]

# Python's own parsers take more: other digits than ASCII's, 1_000, more kinds of blanks.
_INTEGER = re.compile(r"([+-]?)0*([0-9]+)(?:\.0+)?")
_HEXADECIMAL = re.compile(r"\+?0[xX]([0-9a-fA-F]+)")
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|(inf(?:inity)?)|(nan)(?:\(\w*\))?)",
    re.IGNORECASE | re.ASCII,
)
_DAY = "([0-9]{4}-[0-9]{2}-[0-9]{2})"
_CLOCK = r"([01][0-9]|2[0-3])(?::([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{0,9}))?)?)?"
_DATE, _TIME = re.compile(_DAY), re.compile(_CLOCK)
_TIMESTAMP = re.compile(rf"{_DAY}(?:[ T]{_CLOCK})?(Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?")
_BOOLEANS = {
    form(text): text == "true" for text in ("true", "false") for form in (str, str.title, str.upper)
} | {"0": False, "1": True}
_BLANKS = " \t"
_SECOND, _DAY_MICROS = 1_000_000, 86_400_000_000
# Moments that are remembered: a column has few days, and some times again and again.
_KNOWN = 1 << 16


@functools.cache
def cell_parser(type_: pa.DataType) -> ParseCell:
    """Returns the function that makes values of cells.

    The values are those of the type's column type: days count from 1970, times and timestamps are
    microseconds. A text that is not UTF-8 has surrogates (``surrogateescape``). The function raises
    ``ValueError`` for a cell that has no equal in the type.
    """
    types = pa.types
    if types.is_integer(type_):
        return functools.partial(_integer, type_, *bad_rows.integer_range(type_))
    if types.is_floating(type_):
        return functools.partial(_float, None if types.is_float64(type_) else pa.float32())
    for matches, parse in (
        (types.is_boolean, _boolean),
        (types.is_string, _text),
        (types.is_binary, functools.partial(str.encode, errors="surrogateescape")),
        (types.is_date, _date),
        (types.is_time, _time),
    ):
        if matches(type_):
            return parse
    return functools.lru_cache(_KNOWN)(functools.partial(_timestamp, bool(type_.tz)))


def parsed(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags]:
    """Parses n texts, each distinct one once.

    Args:
      texts: texts, or bytes of them; nulls stay nulls.
      type_: of the cells.

    Returns:
      The values, in the type's column type, null where a text has none; and flags of these texts.
    """
    parse, values, bad = cell_parser(type_), [], []
    encoded = texts.cast(pa.binary()).dictionary_encode()
    for number, cell in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(parse(cell.decode("utf-8", "surrogateescape")))
        except ValueError:
            values.append(None)
            bad.append(number)
    wrong = pc.is_in(encoded.indices, value_set=pa.array(bad, encoded.indices.type))
    found = pa.array(values, columns.column_type(type_)).take(encoded.indices)
    return found, wrong.to_numpy(zero_copy_only=False)


def _integer(type_: pa.DataType, low: int, high: int, text: str) -> int:
    text = text.strip(_BLANKS)
    if (match := _INTEGER.fullmatch(text)) and (low or text[0] != "-"):
        number = int(match[1] + match[2])
    elif (match := _HEXADECIMAL.fullmatch(text)) and 4 * len(match[1]) <= type_.bit_width:
        number = int(match[1], 16)  # bits, as Arrow reads them
        number -= (number > high) << type_.bit_width if low else 0
    else:
        raise ValueError(text)
    if not low <= number <= high:
        raise ValueError(text)
    return number


def _float(single: pa.DataType | None, text: str) -> float:
    text = text.strip(_BLANKS)
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if match[2]:
        return math.copysign(math.nan, -1 if text[0] == "-" else 1)
    # Rounded once: Python has no float32.
    number: float = float(text) if single is None else pa.scalar(text).cast(single).as_py()
    if math.isinf(number) and not match[1]:
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text]


def _text(text: str) -> str:
    if not text.isascii():
        text.encode()  # refuses surrogates
    return text


@functools.lru_cache(_KNOWN)
def _date(text: str) -> int:
    text = text.strip(_BLANKS)
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return int(np.datetime64(text, "D").astype(np.int64))  # it has a year 0


def _micros(hour: str | None, minute: str | None, second: str | None, part: str | None) -> int:
    seconds = 3600 * int(hour or 0) + 60 * int(minute or 0) + int(second or 0)
    nanos = int((part or "").ljust(9, "0"))
    if nanos % 1000:
        raise ValueError(part)
    return seconds * _SECOND + nanos // 1000


@functools.lru_cache(_KNOWN)
def _time(text: str) -> int:
    match = _TIME.fullmatch(text.strip(_BLANKS))
    if match is None or match[2] is None:
        raise ValueError(text)
    return _micros(*match.groups())


def _timestamp(has_zone: bool, text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[6] is not None) != has_zone:
        raise ValueError(text)
    if (has_zone and match[2] is None) or match[5] == "":
        raise ValueError(text)
    found = _date(match[1]) * _DAY_MICROS + _micros(*match.groups()[1:5])
    away = 60 * (60 * int(match[8] or 0) + int(match[9] or 0)) * _SECOND
    return found + (away if match[7] == "-" else -away)
