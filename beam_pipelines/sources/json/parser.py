"""The parser of JSON lines: types, errors, and what it rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import whole_numbers
from beam_pipelines.sources.exact_cast import NULL_INSIDE
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks

_TWO_KINDS = re.compile(r"Column\(/(?P<path>.*)\) changed from (?P<old>\w+) to (?P<new>\w+)")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*(?:\n|[ \t\r]\Z)")
# It ends a line, as in a CSV file, although pyarrow takes it for a blank within an object: else
# rows would depend on where a file is cut.
_LONE_RETURN = re.compile(rb"\r(?!\n)")
# Such a line is ``null`` or no JSON. pyarrow takes a line of null for a row of nulls, and crashes
# if it infers types from one first.
_NULL_LINES = (
    re.compile(rb"\A[ \t\r\n]*n"),
    re.compile(rb"\n[ \t\r]*n"),
    re.compile(rb"\r[ \t]*n"),
)
_OPENS, _CLOSES = b"{}"
# Types of the numbers of tensors and raw bytes that take fractions.
_FLOATS = ("float16", "float32", "float64")

_STRING = re.compile(rb'"[^"\n]*"')
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def parse_lines(data: bytes, schema: pa.Schema | None, unexpected: str) -> pa.Table:
    """Parses lines in one block and one thread.

    Raises:
      pa.ArrowInvalid: a line that is not an object as the schema wants it, bytes that are not
        UTF-8, a line with two objects.
    """
    if not data.strip():
        return pa.schema([]).empty_table()
    if not blocks.is_utf8(data):  # the parser does not check
        raise pa.ArrowInvalid("bytes that are not UTF-8")
    if data.startswith(
        blocks.BYTE_ORDER_MARK
    ):  # the parser would skip one, also in the middle of a file
        raise pa.ArrowInvalid("a byte order mark within the file")
    if any(pattern.search(data) for pattern in _NULL_LINES):
        raise pa.ArrowInvalid("null in the place of an object")
    table = pa_json.read_json(
        pa.BufferReader(data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa_json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=unexpected
        ),
    )
    try:
        table.validate()
    except pa.ArrowInvalid as error:
        # pyarrow loses a null before the first value of a list whose type it infers. The type is
        # right, unless there are nulls only, in the place of objects.
        if table.schema != schema:
            return parse_lines(data, table.schema, unexpected)
        raise pa.ArrowInvalid(f"{NULL_INSIDE} of objects, and no object in it") from error
    if table.num_rows != _count_lines(data) or not _are_whole(data, table.num_rows):
        raise pa.ArrowInvalid("a line that is not exactly one object")
    return table


def _are_whole(data: bytes, lines: int) -> bool:
    """Whether all lines begin and end with a brace.

    Then none of as many objects is broken over two lines, because within one only white space is
    between ``}`` and ``{``.
    """
    ends_well = data[-3:].rstrip(b"\r\n").endswith(b"}")
    if (
        data.startswith(b"{")
        and ends_well
        and data.count(b"}\n{") + data.count(b"}\r\n{") == lines - 1
    ):
        return True
    starts, ends = blocks.filled_lines(data)
    characters = np.frombuffer(data, np.uint8)
    filled = np.flatnonzero(blocks.IS_FILLED[characters])
    first, last = filled[np.searchsorted(filled, starts)], filled[np.searchsorted(filled, ends) - 1]
    return bool((characters[first] == _OPENS).all() and (characters[last] == _CLOSES).all())


def _count_lines(data: bytes) -> int:
    """Counts the lines that are not blank."""
    if data[:1].isspace() or _BLANK_LINE.search(data) or _LONE_RETURN.search(data):
        return len(blocks.filled_lines(data)[0])
    return data.count(b"\n") + (not data.endswith(b"\n"))


def plain(error: Exception) -> str:
    """Returns the parser's message without its row number, which misleads."""
    words = re.sub(
        r" in row \d+$", "", str(error).removeprefix("JSON parse error: ").strip()
    ).rstrip(". ")
    return re.sub(
        r"Column\(/?(.*?)\)",
        lambda match: f"field '{match[1].replace('/[]', '').replace('/', '.')}'",
        words,
    )


def cure_of_kinds(error: Exception) -> str:
    """Returns the remedy for a field with two kinds of values."""
    if "Column() changed from object to array" in str(error):
        return "Make objects of lists, for example: jq -c '{a: .[0], b: .[1]}' old > new.jsonl"
    if (found := text_for_kinds(error)) is None:
        return "Mend the line."
    name, type_ = found
    return (
        f"Mend the line, declare 'types: {{{yaml_text(name)}: {type_}}}' of the source, which "
        "keeps objects and lists as the text of their JSON, or leave the field out with 'columns'."
    )


def text_for_kinds(error: Exception) -> tuple[str, str] | None:
    """Returns the column with two kinds of values.

    The type that takes both.
    """
    if (match := _TWO_KINDS.search(str(error))) is None:
        return None
    parts = match["path"].split("/")
    name = ".".join(part for part in parts if part != "[]")
    return name, "list<text>" if "[]" in parts and parts[-2:] != ["[]", "[]"] else "text"


def parsed_schema(source: Source, schema: pa.Schema, read_schema: pa.Schema) -> pa.Schema:
    """Returns the nested types for the parser, of the columns to read."""
    read_types = {field.name: field.type for field in read_schema}

    def parsed(name: str, found: pa.DataType) -> pa.DataType | None:
        if name not in read_types:
            return None
        if array := columns.array_type(source.types.get(name)):
            # Integers and fractions may both be in a column of declared floats.
            return shapes.with_leaf(found, pa.float64()) if array[1] in _FLOATS else found
        # The parser takes times with an offset for times without one, and no others than these.
        is_time = pa.types.is_temporal(shapes.leaf(read_types[name]))
        type_ = shapes.with_leaf(read_types[name], pa.string()) if is_time else read_types[name]
        if name in source.types and pa.types.is_string(shapes.leaf(found)):
            type_ = shapes.with_leaf(type_, pa.string())
        return shapes.with_leaf(found, shapes.leaf(type_)) if shapes.depth(found) > 1 else type_

    return pa.schema(nested.map_leaves(schema, parsed))


def check_depth(source: Source, file: FileInfo, body: blocks.Body) -> None:
    """Checks that lines are not nested deeper than the limit.

    Raises:
      DataError: one is.
    """
    most = source.limits.nesting_depth
    data = body.data
    # Each line that begins with an object has one bracket for it; if the others are few, no line
    # can be deep.
    if data.count(b"{") + data.count(b"[") - data.count(b"\n{") - data.startswith(b"{") < most:
        return
    start = 0
    for line in data.split(b"\n"):  # to the parser, a carriage return alone ends none
        if line.count(b"{") + line.count(b"[") > most and _depth(line) > most:
            found = f"values nested more than {most:,} levels deep"
            message = exceeded(source.limits, "nesting_depth", found)
            place = blocks.LineNumbers(source, file, body).line(start)
            raise DataError(f"{file.path}, line {place}: {message}")
        start += len(line) + 1


def _depth(line: bytes) -> int:
    """Returns the most brackets that are open at once."""
    # An escaped character ends no string.
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in line else line
    brackets = np.frombuffer(_STRING.sub(b"", plain), np.uint8)
    return int(np.cumsum(_STEPS[brackets], dtype=np.int64).max(initial=0))


# At least 2**53, perhaps. It may be part of a text.
_LONG = re.compile(rb"(?<=[:,\[ \t\r])-?[0-9]{16,}(?=[],} \t\r\n]|\Z)")


def may_have_rounded(data: bytes, batch: pa.RecordBatch, source: Source) -> bool:
    """Whether columns of float64 may have integers that they refuse.

    Declared ones refuse none.

    Args:
      data: whole lines.
      batch: the lines as they were parsed, nested or not; nulls are fine.
      source: the recipe's, with declared types.
    """
    return any(_may_be_rounded(source, name, values) for name, values in _leaves(batch)) and any(
        whole_numbers.why_text_refused(number.decode()) for number in set(_LONG.findall(data))
    )


def _leaves(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Yields the flat columns, lists as their values."""
    for name, values in nested.flat_arrays(batch).items():
        has_lists = columns.is_list(values.type)
        yield name, pc.list_flatten(values, recursive=True) if has_lists else values


def _may_be_rounded(source: Source, name: str, values: pa.Array) -> bool:
    is_inferred = source.types.get(name, columns.TENSOR) in (columns.TENSOR, columns.RAW)
    return is_inferred and values.type == pa.float64() and whole_numbers.may_be_rounded(values)
