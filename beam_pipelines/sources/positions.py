"""Where rows of a range lie in their file, for people: asked for only when something is wrong with
them, so nobody pays before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from beam_pipelines.core import files
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sources import FORMATS, FORMATS_OF_FOLDERS
from beam_pipelines.sources.csv.format import Csv, cut_header
from beam_pipelines.sources.format import QuoteStates
from beam_pipelines.sources.images.cifar import Cifar
from beam_pipelines.sources.images.idx import Idx
from beam_pipelines.sources.json.format import JsonLines
from beam_pipelines.sources.libsvm.format import Libsvm
from beam_pipelines.sources.libsvm.lines import tokenise
from beam_pipelines.sources.lines import Lines, split_lines
from beam_pipelines.sources.parquet.format import Parquet, first_byte
from beam_pipelines.sources.plan import ByteRange, SourcePlan
from beam_pipelines.sources.text import blocks as text
from beam_pipelines.sources.text.quotes import (
    NEWLINE,
    OUTSIDE,
    Positions,
    record_spans,
    toggling_quotes,
)
from beam_pipelines.sources.tfrecord.format import TFRecord
from beam_pipelines.sources.tfrecord.raw_records import RawRecords


class Position(NamedTuple):
    """Where a row is: its file; ``line 48112``, ``row 17`` where there are no lines, empty where
    the file is the row; its text, if it has one.
    """

    file: str
    place: str
    text: str


def positions_of(
    plan: SourcePlan,
    byte_range: ByteRange,
    states: QuoteStates,
    rejected: Sequence[Rejected],
    rows: Sequence[int],
) -> list[Position]:
    """Finds rows that were read from a range.

    Args:
      plan: the source's plan.
      range_: one of its ranges.
      states: as ``read.read_range`` takes them.
      rejected: rows of the range that could not be read, and so are not counted.
      rows: numbers of rows that could, within the range, from 0, ascending.
    """
    format_ = FORMATS[plan.format]
    path = byte_range.file.path
    if isinstance(format_, Csv | JsonLines | Libsvm | Lines):
        return list(
            _in_text(plan, byte_range, states, _numbers(rejected), np.asarray(rows, np.int64))
        )
    if plan.format in FORMATS_OF_FOLDERS:
        bad_files = {bad.file for bad in rejected}
        good = [
            file.path
            for file in plan.files[slice(*byte_range.members)]
            if file.path not in bad_files
        ]
        return [Position(good[row], "", "") for row in rows]
    word, first = _numbering(plan, byte_range)
    numbers = _skipping(first + np.asarray(rows, np.int64), np.sort(_numbers(rejected)))
    return [Position(path, f"{word} {number}", "") for number in numbers.tolist()]


def _numbers(rejected: Sequence[Rejected]) -> Positions:
    """Returns the numbers of rows, or lines, in their file."""
    return np.array([int(bad.position.rpartition(" ")[2]) for bad in rejected], np.int64)


def _numbering(plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
    """Returns what the format's messages call a row, and the number of the range's first one."""
    format_ = FORMATS[plan.format]
    if isinstance(format_, TFRecord | RawRecords):
        return "record", 0
    if isinstance(format_, Idx):
        return "image", format_.first_item(plan.source, byte_range)
    if isinstance(format_, Cifar):
        return "image", format_.first_image(plan, byte_range)
    return "row", 1 + (_rows_before(byte_range) if isinstance(format_, Parquet) else 0)


def _skipping(numbers: Positions, left_out: Positions) -> Positions:
    """Returns the numbers of rows in the file, given their numbers among those that were not left
    out; both ascend.
    """
    kept_before = left_out - np.arange(len(left_out))
    skipped: Positions = numbers + np.searchsorted(kept_before, numbers, "right")
    return skipped


def _rows_before(byte_range: ByteRange) -> int:
    with files.open_read(byte_range.file.path) as file:
        metadata = pq.ParquetFile(file).metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return sum(group.num_rows for group in groups if first_byte(group) < byte_range.start)


def _in_text(
    plan: SourcePlan,
    byte_range: ByteRange,
    states: QuoteStates,
    left_out: Positions,
    rows: Positions,
) -> Iterator[Position]:
    """Yields the positions of rows of a text file: counts its records, without parsing them."""
    before = 0
    for body, starts, ends in _records(plan, byte_range, states):
        lines = text.LineNumbers(plan.source, byte_range.file, body)
        spans = np.stack([starts, ends], axis=1)
        if len(left_out):
            spans = spans[~np.isin(lines.lines(starts), left_out)]
        here = rows[(rows >= before) & (rows < before + len(spans))]
        for start, end in spans[here - before].tolist():
            record = body.data[start:end].decode("utf-8", errors="backslashreplace").rstrip("\r\n")
            yield Position(byte_range.file.path, f"line {lines.line(start)}", shorten(record))
        before += len(spans)


def _records(
    plan: SourcePlan, byte_range: ByteRange, states: QuoteStates
) -> Iterator[tuple[text.Body, Positions, Positions]]:
    """Yields each body of a range, and where its records begin and end."""
    format_ = FORMATS[plan.format]
    if isinstance(format_, Libsvm | Lines):
        for body in text.read_bodies(plan.source, byte_range, states, text.LINES):
            if isinstance(format_, Lines):
                _, starts = split_lines(body.data)
                yield body, starts, np.append(starts[1:], len(body.data))
            else:
                tokens = tokenise(body.data)
                yield body, tokens.row_starts, tokens.row_ends
        return
    if not isinstance(format_, Csv):
        for body in text.read_bodies(plan.source, byte_range, states, text.LINES):
            starts, ends = record_spans(body.data, np.empty(0, np.int64))
            filled = [
                bool(body.data[start:end].strip())
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            ]
            yield body, starts[filled], ends[filled]
        return
    dialect = format_.dialect(plan.source)
    for body in text.read_bodies(plan.source, byte_range, states, dialect):
        records = body
        if plan.source.header and body.begins_file:
            records, _ = cut_header(body, dialect, byte_range.file.path, plan.source.limits)
        toggles = toggling_quotes(records.data, OUTSIDE, NEWLINE, dialect)
        yield records, *record_spans(records.data, toggles)
