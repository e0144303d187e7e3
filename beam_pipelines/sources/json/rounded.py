"""Numbers of JSON lines that float64 rounds: integers, refused, and fractions.

The parser gives a column of floats as floats, so the digits are looked for in the text: a pattern
finds the lines that may have them, and Python's parser reads these.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import RAW, TENSOR, is_list, only_chunk
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import whole_numbers
from beam_pipelines.sources.csv.codes import is_kept
from beam_pipelines.sources.nesting import nested

# At least 2**53, perhaps. It may be part of a text.
_LONG = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{16,}(?![0-9.eE])")
# A fraction of 18 digits or more, as above.
_FRACTION = re.compile(
    rb"(?<![0-9.eE+-])-?(?:0\.0*[1-9][0-9]{17}|(?=[0-9.]{19})[1-9][0-9]*\.[0-9])"
)


def rounded_integer(
    data: bytes, table: pa.Table | pa.RecordBatch, source: Source
) -> tuple[str, int] | None:
    """Returns an undeclared column of float64 and an integer that it refuses.

    Args:
      data: whole lines.
      table: the lines as they were parsed, nested or not; nulls are fine.
      source: the recipe's, with declared types.
    """
    large = [name for name, values in _leaves(table) if _may_be_rounded(source, name, values)]
    return _confirmed(data, _LONG, large, _is_refused) if large else None


def lost_fraction(
    data: bytes, table: pa.Table, source: Source, known: Collection[str]
) -> tuple[str, Decimal] | None:
    """Returns an undeclared column and a fraction with more digits than float64.

    Args:
      data, table, source: as in ``rounded_integer``.
      known: other columns, which are not looked at.
    """
    floats = [name for name, values in _leaves(table) if values.type == pa.float64()]
    names = [name for name in floats if name not in source.types and name not in known]
    return _confirmed(data, _FRACTION, names, _is_lost) if names else None


def _confirmed(
    data: bytes,
    pattern: re.Pattern[bytes],
    names: Sequence[str],
    is_wrong: Callable[[Any], bool],
) -> tuple[str, Any] | None:
    """Returns the first wrong number of lines that match, by Python's parser."""
    end = 0
    while match := pattern.search(data, end):
        start = data.rfind(b"\n", 0, match.start()) + 1
        end = (data.find(b"\n", match.start()) + 1) or len(data)
        for line in data[start:end].splitlines():
            with contextlib.suppress(ValueError):  # a bad line, which is reported when it is read
                value = json.loads(line, parse_float=Decimal)
                for name in names:
                    for number in filter(is_wrong, values_of(value, name)):
                        return name, number
    return None


def values_of(value: Any, name: str) -> Iterator[Any]:
    """Yields a parsed line's values in a flat column."""
    if isinstance(value, list):
        for item in value:
            yield from values_of(item, name)
    elif name == "":
        yield value
    elif value is None:
        yield None
    elif isinstance(value, dict):
        for key, item in value.items():
            if name == key or name.startswith(f"{key}."):
                yield from values_of(item, name[len(key) + 1 :])


def _is_refused(number: object) -> bool:
    return type(number) is int and bool(whole_numbers.why_refused(number))


def _is_lost(number: Any) -> bool:
    is_long = type(number) is Decimal and len(number.as_tuple().digits) > 17
    return is_long and not is_kept(number)


def _leaves(table: pa.Table | pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Yields the flat columns, lists as their values."""
    for field, column in zip(table.schema, table.columns, strict=True):
        array = only_chunk(column) if isinstance(column, pa.ChunkedArray) else column
        for name, values in nested.flatten_array(field.name, array):
            has_lists = is_list(values.type)
            yield name, pc.list_flatten(values, recursive=True) if has_lists else values


def _may_be_rounded(source: Source, name: str, values: pa.Array) -> bool:
    is_inferred = source.types.get(name, TENSOR) in (TENSOR, RAW)
    return is_inferred and values.type == pa.float64() and whole_numbers.may_be_rounded(values)
