"""Parses libsvm, libfm and libffm lines into columns.

A line is ``label idx:val …``, of libffm ``label field:idx:val …``, with ``qid:5`` after the label
if rows are ranked by query. Blanks and tabs separate tokens; ``#`` begins a comment. numpy finds
the tokens. Once labels are cut out and blanks turned into line ends, the rest is a CSV file with
``:`` between its cells, and Arrow's CSV parser reads it at about ten times the speed of a loop.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.sparse_columns import MOST_INDEX
from beam_pipelines.sources import whole_numbers

LABEL, QID = "label", "qid"
INTEGER = r"^[+-]?[0-9]+$"
NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

_NEWLINE, _RETURN, _BLANK, _HASH = b"\n\r #"
_PLAIN = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LINE = re.compile(
    rb"%b(?:[ \t]+qid:[0-9]+)?([ \t]+[0-9]+(?::[0-9]+)?:%b)+[ \t]*(?:#.*)?" % (_PLAIN, _PLAIN)
)
# Bytes to look at, and lines of comments that may come first.
HEAD_BYTES = 1 << 16
_MOST_COMMENTS = 1_000
_TO_LINES = bytes.maketrans(b" \t\r", b"\n\n\n")

Integers = npt.NDArray[np.int64]


class LibsvmLayout(NamedTuple):
    """The columns of a source's lines, and the ranges of its keys.

    Attributes:
      name: of the features; their columns are ``<name>_index`` and ``<name>_value``, with fields
        ``<name>_field``.
      has_fields: whether a feature has a field before its index.
      has_qid: whether there is a column for queries.
      label: type of the label that is read.
      base: the first index in the text; columns count from 0.
      size, fields: numbers of indices and of fields; ``None``: not known, any is taken.
      is_sorted: whether keys must ascend in the text; else they are sorted.
      is_label_exact: whether a label may be no integer that float64 rounds; unless declared.
    """

    name: str
    has_fields: bool
    has_qid: bool
    label: pa.DataType
    base: int
    size: int | None
    fields: int | None
    is_sorted: bool
    is_label_exact: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that locate a value: index, and field before it."""
        return (*([f"{self.name}_field"] if self.has_fields else []), f"{self.name}_index")

    @property
    def form(self) -> str:
        """How a feature is written."""
        return "field:index:value" if self.has_fields else "index:value"

    @property
    def value(self) -> str:
        """The column of values."""
        return f"{self.name}_value"

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """First and last number of each of ``keys`` in the text."""
        fields, size = ((number or MOST_INDEX + 1) - 1 for number in (self.fields, self.size))
        return (*([(0, fields)] if self.has_fields else []), (self.base, self.base + size))

    @property
    def schema(self) -> pa.Schema:
        """All columns, in order; the label with the type that is read."""
        return pa.schema(
            [
                (LABEL, self.label),
                *([(QID, pa.int64())] if self.has_qid else []),
                *((key, pa.list_(pa.int64())) for key in self.keys),
                (self.value, pa.list_(pa.float32())),
            ]
        )


class Tokens(NamedTuple):
    """The tokens of some lines, which are rows if they have tokens.

    Attributes:
      lines: the text, with line ends instead of blanks and comments.
      starts, ends: of each token.
      first, number: of each row, its first token and the number of its tokens.
      row_starts, row_ends: of each row, where its line begins and ends.
    """

    lines: bytes
    starts: Integers
    ends: Integers
    first: Integers
    number: Integers
    row_starts: Integers
    row_ends: Integers

    def texts(self, chosen: Integers, skip: int = 0) -> tuple[pa.Array, Integers]:
        """Returns some tokens as binary, and the positions of all their bytes.

        Args:
          chosen: numbers of the tokens.
          skip: bytes to leave out at the start of each.
        """
        starts = self.starts[chosen] + skip
        lengths = self.ends[chosen] - starts
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        values = np.frombuffer(self.lines, np.uint8)[positions]
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.binary(), len(chosen), buffers), positions

    def queries(self) -> Integers:
        """Returns the rows whose second token is a query, ``qid:…``."""
        if b"qid:" not in self.lines:
            return np.empty(0, np.int64)
        rows = np.flatnonzero(self.number > 1)
        starts = self.starts[self.first[rows] + 1]
        text = np.frombuffer(self.lines, np.uint8)
        same = [
            text[np.minimum(starts + place, len(text) - 1)] == byte
            for place, byte in enumerate(b"qid:")
        ]
        return rows[np.logical_and.reduce(same)]


def tokenise(data: bytes) -> Tokens:
    """Finds the tokens of whole lines."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(
        (text == _NEWLINE) | (text == _RETURN) if b"\r" in data else text == _NEWLINE
    )
    ends = np.append(ends, len(text))
    lines = _without_comments(data, text, ends).translate(_TO_LINES)
    filled = np.zeros(len(text) + 2, np.bool_)
    np.not_equal(np.frombuffer(lines, np.uint8), _NEWLINE, out=filled[1:-1])
    edges = np.flatnonzero(filled[1:] != filled[:-1])
    starts = edges[0::2]
    before = np.concatenate([np.zeros(1, np.int64), np.searchsorted(starts, ends)])
    number = np.diff(before)
    rows = np.flatnonzero(number)
    row_starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    return Tokens(
        lines, starts, edges[1::2], before[rows], number[rows], row_starts[rows], ends[rows]
    )


def _without_comments(data: bytes, text: npt.NDArray[np.uint8], line_ends: Integers) -> bytes:
    """Returns the text with blanks instead of comments."""
    if b"#" not in data:
        return data
    is_hash = text == _HASH
    is_hash[1:] &= text[:-1] != _HASH  # several in a row are one
    hashes = np.flatnonzero(is_hash)
    ends = line_ends[np.searchsorted(line_ends, hashes)]
    begins = np.concatenate(
        [np.ones(1, np.bool_), ends[1:] != ends[:-1]]
    )  # the first one of its line
    depth = np.zeros(len(text) + 1, np.int8)
    depth[hashes[begins]] += 1
    depth[ends[begins]] -= 1
    return np.where(np.cumsum(depth[:-1], dtype=np.int8) > 0, np.uint8(_BLANK), text).tobytes()


def parse_lines(data: bytes, layout: LibsvmLayout) -> pa.RecordBatch:
    """Parses whole lines.

    Returns:
      A batch of ``layout.schema``, the label as a column type; lists are empty where a row has no
        features, and never null. Indices count from 0 and ascend within a row, with fields within a
        field.

    Raises:
      ValueError: rows that do not fit the layout.
    """
    tokens = tokenise(data)
    lines = np.frombuffer(tokens.lines, np.uint8).copy()
    labels, positions = tokens.texts(tokens.first)
    lines[positions] = _NEWLINE
    numbers = [_labels(labels, layout)]
    counts = tokens.number - 1
    rows = tokens.queries()
    if len(rows) and not layout.has_qid:
        raise ValueError("a query in a source without")
    if len(rows):
        counts[rows] -= 1
        lines[tokens.texts(tokens.first[rows] + 1)[1]] = _NEWLINE
    if layout.has_qid:
        numbers.append(_queries(tokens, rows))
    features = _features(lines, counts, layout)
    arrays = [*numbers, *_lists(features, counts, layout)]
    fields = [
        pa.field(name, array.type) for name, array in zip(layout.schema.names, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _labels(texts: pa.Array, layout: LibsvmLayout) -> pa.Array:
    type_ = layout.label
    labels = _numbers(texts, _label_pattern(type_), type_)
    if pa.types.is_floating(type_):
        _check(pc.is_finite(labels))
    if layout.is_label_exact and type_ == pa.float64() and whole_numbers.may_be_rounded(labels):
        _check(pc.invert(whole_numbers.refused(texts)))
    return labels


def _label_pattern(type_: pa.DataType) -> str:
    return INTEGER if pa.types.is_integer(type_) else NUMBER


def _numbers(texts: pa.Array, pattern: str, type_: pa.DataType) -> pa.Array:
    """Casts texts of a pattern to a type and its column type."""
    _check(pc.match_substring_regex(texts, pattern))
    plain = pc.utf8_ltrim(texts.cast(pa.string()), characters="+")
    return columns.normalise(plain.cast(type_))


def _check(fine: Any) -> None:
    """Raises ``ValueError`` unless all rows pass."""
    if not pc.all(pa.array(fine), min_count=0).as_py():
        raise ValueError("bad rows")


def _queries(tokens: Tokens, rows: Integers) -> pa.Array:
    """Returns the query of each row, null where there is none."""
    places = np.full(len(tokens.first), -1)
    places[rows] = np.arange(len(rows))
    texts, _ = tokens.texts(tokens.first[rows] + 1, skip=len("qid:"))
    values = texts.take(pa.array(places, mask=places < 0))
    return _numbers(values, INTEGER, pa.int64())


def _features(lines: npt.NDArray[np.uint8], counts: Integers, layout: LibsvmLayout) -> pa.Table:
    """Parses the tokens that are left in ``lines``, one a row."""
    types = {name: pa.int64() for name in layout.keys} | {layout.value: pa.float32()}
    number = int(counts.sum())
    if not number:
        return pa.schema(list(types.items())).empty_table()
    if ((lines | 0x20) == ord("x")).any():  # Arrow would read 0x1F as a number
        raise ValueError("a letter")
    table = _parse_features(lines, types)
    if table.num_rows != number:
        raise ValueError(f"found {number} features, read {table.num_rows}")
    return table.combine_chunks()


def _parse_features(lines: npt.NDArray[np.uint8], types: dict[str, pa.DataType]) -> pa.Table:
    return pa_csv.read_csv(
        pa.BufferReader(pa.py_buffer(lines)),
        pa_csv.ReadOptions(column_names=list(types), use_threads=False, block_size=len(lines) + 1),
        pa_csv.ParseOptions(delimiter=":", quote_char=False, newlines_in_values=False),
        pa_csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
    )


def _lists(features: pa.Table, counts: Integers, layout: LibsvmLayout) -> list[pa.Array]:
    """Checks features, and returns their keys and values as lists."""
    keys = [columns.only_chunk(features.column(name)).to_numpy() for name in layout.keys]
    values = columns.only_chunk(features.column(layout.value))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    if not layout.is_sorted and not (_ascends(keys) | _begins_row(offsets)[1:]).all():
        order = np.lexsort((*keys[::-1], np.repeat(np.arange(len(counts)), counts)))
        keys, values = [key[order] for key in keys], values.take(pa.array(order))
    wrong = ~np.isfinite(values.to_numpy())
    for key, (low, high) in zip(keys, layout.bounds, strict=True):
        wrong |= (key < low) | (key > high)
    wrong[1:] |= ~_ascends(keys) & ~_begins_row(offsets)[1:]
    _check(~wrong)
    keys[-1] = keys[-1] - layout.base
    offsets_array = pa.array(offsets, pa.int32())
    return [
        pa.ListArray.from_arrays(offsets_array, array) for array in (*map(pa.array, keys), values)
    ]


def _ascends(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
    """Returns whether keys ascend, for each feature but the first.

    The keys of a feature are compared with those of the one before, in order.
    """
    above = keys[-1][1:] > keys[-1][:-1]
    for key in keys[-2::-1]:
        above = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & above)
    return above


def _begins_row(offsets: Integers) -> npt.NDArray[np.bool_]:
    begins = np.zeros(offsets[-1] + 1, np.bool_)
    begins[offsets] = True
    return begins[:-1]


def sparse_format(head: bytes) -> tuple[str, str]:
    """Returns the format of the first line of data, and that line.

    Args:
      head: the first ``HEAD_BYTES`` of a text file, or all of it.

    Returns:
      ``libsvm`` (which libfm looks like) or ``libffm``; empty for other text.
    """
    if len(head) == HEAD_BYTES:  # perhaps within a token
        head = head[: max(head.rfind(b" "), head.rfind(b"\t"), head.rfind(b"\n"), 0)]
    for line in map(bytes.strip, head.splitlines()[:_MOST_COMMENTS]):
        if line and not line.startswith(b"#"):
            match = _LINE.fullmatch(line)
            if not match:
                break
            return ("libffm" if match[1].count(b":") == 2 else "libsvm"), line.decode()
    return "", ""
