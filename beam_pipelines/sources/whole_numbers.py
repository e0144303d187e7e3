"""Integers in text whose column is inferred as float64, which rounds some.

A declared float asks for the nearest number. An inferred one does not: an integer without an equal
float64, or beyond int64, is an error then.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.recipe.text.yaml_text import yaml_text

ROUNDED = "an integer that float64 rounds"
ROUNDS = "none that float64, as which the column's other values are read, rounds"
# float64 has every integer up to here.
_MOST_EXACT = 1 << 53
_LONG = r"^\s*[+-]?[0-9]{16,}(\.[0-9]*)?\s*$"
_PARTLESS, _WITH_PART = re.compile(r"\.0*$"), re.compile(r"[+-]?[0-9]{16,4000}\.[0-9]{1,4000}")
# Python refuses to parse thousands of digits. So many are beyond int64, leading zeros aside.
_MOST_DIGITS = 4_000


def may_be_rounded(numbers: pa.Array) -> bool:
    """Whether some of n float64 values may be rounded integers.

    Nulls are fine. It is called for every column of floats, and takes a tenth of the time of
    ``pc.min_max``.
    """
    if not len(numbers):
        return False
    buffer: Any = numbers.buffers()[1]
    values = np.frombuffer(buffer, np.float64, len(numbers), numbers.offset * 8)  # nulls' slots too
    most = max(np.fmax.reduce(values), -np.fmin.reduce(values))
    return not (most < _MOST_EXACT or np.isnan(most))


def why_refused(number: int) -> str:
    """Returns what float64 expects in an integer's place, or ``""``."""
    if not -(1 << 63) <= number < 1 << 63:
        return "none beyond int64"
    if int(float(number)) != number:
        return ROUNDS
    return ""


def cure(name: str, declared: str | None, rank: int) -> str:
    """Returns what to do about a refused integer of a JSON column.

    Args:
      name: of the column.
      declared: its type in the recipe: none, ``tensor`` or ``raw``.
      rank: number of lists around a value.
    """
    key = yaml_text(name)
    type_ = f"{declared}<float64>" if declared else "list<float64>" if rank else "float64"
    round_it = f"Declare 'types: {{{key}: {type_}}}' to round it"
    if rank > 1 and not declared:
        round_it += f" in flat lists, or 'types: {{{key}: tensor<float64>}}' to keep the shape"
    if declared:  # text makes no numbers
        return f"{round_it}, or leave the column out with 'columns'."
    if rank > 1:
        return f"{round_it}, or write every value of the column as a string."
    text = "list<text>" if rank else "text"
    keep = f"Declare 'types: {{{key}: {text}}}' to keep its digits"
    return f"{keep}, or{round_it.removeprefix('Declare')}."


def why_text_refused(text: str) -> str:
    """Returns ``why_refused`` of a text of digits; ``""`` for any other text."""
    text = _PARTLESS.sub("", text.strip())
    if _WITH_PART.fullmatch(text):
        is_rounded = abs(float(text)) >= _MOST_EXACT and Decimal(float(text)) != Decimal(text)
        return ROUNDS if is_rounded else ""
    if not text.lstrip("+-").isdigit():
        return ""
    return why_refused(int(text)) if len(text) <= _MOST_DIGITS else "none beyond int64"


def refused(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns which texts are integers that a column of float64 refuses.

    Args:
      texts: n texts or bytes; nulls are fine. Only long integers are looked at one by one.

    Returns:
      bool[n], without nulls.
    """
    is_long = pc.fill_null(pc.match_substring_regex(texts, _LONG), False)
    long = pc.unique(texts.filter(is_long))
    bad = [text for text in long.cast(pa.string()).to_pylist() if why_text_refused(text)]
    return pc.is_in(texts, value_set=pa.array(bad, texts.type))
