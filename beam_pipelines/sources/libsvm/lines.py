"""Parses libsvm and libfm lines into columns.

A line is ``label idx:val …``, with ``qid:5`` after the label if rows are ranked by query. White
space separates tokens; ``#`` begins a comment. Without labels and queries, the tokens are lines of
a CSV file with ``:`` between its cells, and Arrow's CSV parser reads it at about ten times the
speed of a loop.
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

_NEWLINE, _RETURN = b"\n\r"
_PLAIN = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LINE = re.compile(
    rb"%b(?:[ \t]+qid:[0-9]+)?(?:[ \t]+[0-9]+(?::[0-9]+)?:%b)+[ \t]*(?:#.*)?" % (_PLAIN, _PLAIN)
)
# Bytes to look at, and lines of comments that may come first.
HEAD_BYTES = 1 << 16
_MOST_COMMENTS = 1_000

Integers = npt.NDArray[np.int64]


class LibsvmLayout(NamedTuple):
    """The columns of a source's lines, and the range of indices.

    Attributes:
      name: of the features; their columns are ``<name>_index`` and ``<name>_value``.
      has_qid: whether there is a column for queries.
      label: type of the label that is read.
      base: the first index in the text; columns count from 0.
      size: number of indices; ``None``: not known, any is taken.
      is_sorted: whether indices must ascend in the text; else they are sorted.
      is_label_exact: whether a label may be no integer that float64 rounds; unless declared.
    """

    name: str
    has_qid: bool
    label: pa.DataType
    base: int
    size: int | None
    is_sorted: bool
    is_label_exact: bool

    @property
    def index_column(self) -> str:
        """The column of indices."""
        return f"{self.name}_index"

    @property
    def value(self) -> str:
        """The column of values."""
        return f"{self.name}_value"

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last index in the text."""
        return self.base, self.base + (self.size or MOST_INDEX + 1) - 1

    @property
    def schema(self) -> pa.Schema:
        """All columns, in order; the label with the type that is read."""
        return pa.schema(
            [
                (LABEL, self.label),
                *([(QID, pa.int64())] if self.has_qid else []),
                (self.index_column, pa.list_(pa.int64())),
                (self.value, pa.list_(pa.float32())),
            ]
        )


class Tokens(NamedTuple):
    """The tokens of lines that have any, each a row.

    Attributes:
      words: list<string>, the tokens of each row; bytes that are not UTF-8 are among them.
      starts, ends: where the line of each row begins and ends, in the text.
    """

    words: pa.ListArray
    starts: Integers
    ends: Integers

    @property
    def first(self) -> Integers:
        """Number of each row's first token."""
        first: Integers = self.words.offsets.to_numpy()[:-1]
        return first

    def labels(self) -> pa.Array:
        """Returns the first token of each row."""
        return self.words.values.take(pa.array(self.first))

    def queries(self) -> Integers:
        """Returns the rows whose second token is a query, ``qid:…``."""
        rows = np.flatnonzero(np.diff(self.words.offsets.to_numpy()) > 1)
        seconds = self.words.values.take(pa.array(self.first[rows] + 1))
        return rows[np.asarray(pc.starts_with(seconds, "qid:"), np.bool_)]


def tokenise(data: bytes) -> Tokens:
    """Finds the tokens of whole lines."""
    text = np.frombuffer(data, np.uint8)
    is_end = text == _NEWLINE
    ends = np.flatnonzero(is_end | (text == _RETURN) if b"\r" in data else is_end) + 1
    edges = np.concatenate([np.zeros(1, np.int64), ends, np.full(1, len(data))])
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
    if b"#" in data:
        lines = pc.replace_substring_regex(lines, "#.*", "")
    lines = pc.ascii_trim_whitespace(lines.view(pa.string()))
    is_row = np.asarray(pc.binary_length(lines)) > 0
    words = pc.ascii_split_whitespace(lines.filter(pa.array(is_row)))
    return Tokens(words, edges[:-1][is_row], edges[1:][is_row])


def parse_lines(data: bytes, layout: LibsvmLayout) -> pa.RecordBatch:
    """Parses whole lines.

    Returns:
      A batch of ``layout.schema``, the label as a column type; lists are empty where a row has no
        features, and never null. Indices count from 0 and ascend within a row.

    Raises:
      ValueError: rows that do not fit the layout.
    """
    tokens = tokenise(data)
    numbers = [_labels(tokens.labels(), layout)]
    counts = np.diff(tokens.words.offsets.to_numpy()) - 1
    rows = tokens.queries()
    if len(rows) and not layout.has_qid:
        raise ValueError("a query in a source without")
    counts[rows] -= 1
    is_feature = np.ones(len(tokens.words.values), np.bool_)
    is_feature[np.concatenate([tokens.first, tokens.first[rows] + 1])] = False
    if layout.has_qid:
        numbers.append(_queries(tokens, rows))
    features = _features(tokens.words.values.filter(pa.array(is_feature)), layout)
    arrays = [*numbers, *_lists(features, counts, layout)]
    fields = [
        pa.field(name, array.type) for name, array in zip(layout.schema.names, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _labels(texts: pa.Array, layout: LibsvmLayout) -> pa.Array:
    type_ = layout.label
    labels = _numbers(texts, INTEGER if pa.types.is_integer(type_) else NUMBER, type_)
    if pa.types.is_floating(type_):
        _check(pc.is_finite(labels))
    if layout.is_label_exact and type_ == pa.float64() and whole_numbers.may_be_rounded(labels):
        _check(pc.invert(whole_numbers.refused(texts)))
    return labels


def _numbers(texts: pa.Array, pattern: str, type_: pa.DataType) -> pa.Array:
    """Casts texts of a pattern to a type and its column type."""
    _check(pc.match_substring_regex(texts, pattern))
    plain = pc.utf8_ltrim(texts, characters="+")
    return columns.normalise(plain.cast(type_))


def _check(fine: Any) -> None:
    """Raises ``ValueError`` unless all rows pass."""
    if not pc.all(pa.array(fine), min_count=0).as_py():
        raise ValueError("bad rows")


def _queries(tokens: Tokens, rows: Integers) -> pa.Array:
    """Returns the query of each row, null where there is none."""
    places = np.full(len(tokens.words), -1)
    places[rows] = np.arange(len(rows))
    texts = tokens.words.values.take(pa.array(tokens.first[rows] + 1))
    texts = pc.utf8_slice_codeunits(texts, len("qid:"))
    values = texts.take(pa.array(places, mask=places < 0))
    return _numbers(values, INTEGER, pa.int64())


def _features(tokens: pa.Array, layout: LibsvmLayout) -> pa.Table:
    """Parses n tokens, one a row."""
    types = {layout.index_column: pa.int64(), layout.value: pa.float32()}
    if not len(tokens):
        return pa.schema(list(types.items())).empty_table()
    whole = pa.ListArray.from_arrays(pa.array([0, len(tokens)], pa.int32()), tokens)
    data = pc.binary_join(whole, "\n")[0].as_buffer()
    if ((np.frombuffer(data, np.uint8) | 0x20) == ord("x")).any():  # 0x1F is a number to Arrow
        raise ValueError("a letter")
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(column_names=list(types), use_threads=False, block_size=data.size + 1),
        pa_csv.ParseOptions(delimiter=":", quote_char=False, newlines_in_values=False),
        pa_csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
    )
    if table.num_rows != len(tokens):
        raise ValueError(f"found {len(tokens)} features, read {table.num_rows}")
    return table.combine_chunks()


def _lists(features: pa.Table, counts: Integers, layout: LibsvmLayout) -> list[pa.Array]:
    """Checks features, and returns their indices and values as lists."""
    indices = columns.only_chunk(features.column(layout.index_column)).to_numpy()
    values = columns.only_chunk(features.column(layout.value))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    begins = np.zeros(offsets[-1] + 1, np.bool_)
    begins[offsets] = True
    begins = begins[1:-1]
    if not layout.is_sorted and not ((indices[1:] > indices[:-1]) | begins).all():
        order = np.lexsort((indices, np.repeat(np.arange(len(counts)), counts)))
        indices, values = indices[order], values.take(pa.array(order))
    low, high = layout.bounds
    wrong = ~np.isfinite(values.to_numpy()) | (indices < low) | (indices > high)
    wrong[1:] |= (indices[1:] <= indices[:-1]) & ~begins
    _check(~wrong)
    offsets_array = pa.array(offsets, pa.int32())
    return [
        pa.ListArray.from_arrays(offsets_array, array)
        for array in (pa.array(indices - layout.base), values)
    ]


def sparse_line(head: bytes) -> str:
    """Returns the first line of data if it is libsvm's, or "".

    Args:
      head: the first ``HEAD_BYTES`` of a text file, or all of it.
    """
    if len(head) == HEAD_BYTES:  # perhaps within a token
        head = head[: max(head.rfind(b" "), head.rfind(b"\t"), head.rfind(b"\n"), 0)]
    for line in map(bytes.strip, head.splitlines()[:_MOST_COMMENTS]):
        if line and not line.startswith(b"#"):
            return line.decode() if _LINE.fullmatch(line) else ""
    return ""
