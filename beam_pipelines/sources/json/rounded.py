"""Integers of JSON lines that a column of float64 refuses.

The parser gives a column of floats as floats, so the digits are looked for in the text: patterns
find them in all lines at once. Python's parser confirms what they find. It alone reads lines whose
keys have escapes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.columns import RAW, TENSOR, is_list, only_chunk
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import nested, whole_numbers
from beam_pipelines.sources.json.bad_lines import values_of

# At least 2**53, perhaps. It may be part of a text.
_LONG = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{16,}(?![0-9.eE])")
# The last escape of a key, and the rest of the key. Texts may have it, too.
_ESCAPED_KEY = re.compile(rb'\\.[^"\\\n]*"[ \t]*:')
# Behind a key: an integer, or lists of anything but texts and objects.
_VALUE = rb'"[ \t]*:[ \t]*(-?[0-9]{16,}(?![0-9.eE])|\[[^"{}:\r\n]*)'


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
    if not large or not _LONG.search(data):
        return None
    if b"\\" in data and (found := _confirmed(data, _ESCAPED_KEY, large)):
        return found
    for name in large:
        if found := _among_values(data, name):
            return found
    return None


def _among_values(data: bytes, name: str) -> tuple[str, int] | None:
    """Returns ``rounded_integer`` of one column, where keys have no escapes."""
    key = re.escape(name.rpartition(".")[2].encode())
    values = re.compile(rb'[".]' + key + _VALUE)
    # A text may look so, and another object may have the key: hence the parser, for these lines.
    digits = _LONG.findall(b"\n".join(values.findall(data)))
    texts = pa.array(digits, pa.binary()).cast(pa.string())
    if not pc.any(whole_numbers.refused(texts)).as_py():
        return None
    return _confirmed(data, values, [name])


def _confirmed(
    data: bytes, pattern: re.Pattern[bytes], names: Sequence[str]
) -> tuple[str, int] | None:
    """Returns the first refused integer of lines that match, by Python's parser."""
    end = 0
    while match := pattern.search(data, end):
        start = data.rfind(b"\n", 0, match.start()) + 1
        end = (data.find(b"\n", match.start()) + 1) or len(data)
        for line in data[start:end].splitlines() if _LONG.search(data, start, end) else ():
            if found := next(_refused(line, names), None):
                return found
    return None


def _refused(line: bytes, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(ValueError):  # a bad line, which is reported when it is read
        value = json.loads(line)
        for name in names:
            for number in values_of(value, name):
                if type(number) is int and whole_numbers.why_refused(number):
                    yield name, number


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
