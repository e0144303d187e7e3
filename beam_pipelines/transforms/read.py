"""Reads sources: byte ranges into chunks."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import apache_beam as beam
import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import ROW, Chunk, Rejected, add_counts
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.core.private import hide_row
from beam_pipelines.sources import format_of, source_format
from beam_pipelines.sources.bad_input.bad_values import LargeCell, large_cell
from beam_pipelines.sources.images.columns import first_damage
from beam_pipelines.sources.plan import ByteRange, QuoteStates, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.quotes import fold
from beam_pipelines.sources.wrapping.derived import read_rows, read_together, reject_rows
from beam_pipelines.transforms.take import Take, take_chunks

Transition = tuple[int, int, int]
# Small files that are parsed as one. If one of them is unusual, each is parsed alone.
_TOGETHER = 256


def read_range(
    plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
) -> Iterator[Chunk]:
    """Reads one byte range into chunks, numbered from 0; at least one.

    Args:
      plan: the source's plan.
      byte_range: one of its ranges.
      quote_states: of the files that ``ranges_to_scan`` covers.
      reject: leaves out bad rows and lists them in the chunks, instead of raising at the first one.

    Raises:
      DataError: a bad row, or a damaged file.
    """
    waiting: Chunk | None = None
    crc32c = None
    is_gathered = byte_range.members != (0, 0) and not format_of(plan).is_file_a_row
    found = (
        _read_gathered(plan, byte_range, reject)
        if is_gathered
        else _read_rows(plan, byte_range, quote_states, reject)
    )
    for rows in found:
        crc32c = crc32c if rows.crc32c is None else rows.crc32c
        if rows.batch.num_rows or rows.rejected:
            if waiting is not None:
                yield waiting
            part = 0 if waiting is None else waiting.part + 1
            waiting = _chunk(byte_range, part, rows, plan.private)
    waiting = waiting or _chunk(byte_range, 0, source_format.Rows(empty_batch(plan.schema)), ())
    yield waiting._replace(crc32c=crc32c)


def _read_rows(
    plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
) -> Iterator[source_format.Rows]:
    """Reads one range in its format; checks the size of its values."""
    before = 0
    left_out: list[Rejected] = []
    for rows in read_rows(plan, byte_range, quote_states, reject):
        left_out += rows.rejected
        if large := large_cell(rows.batch, plan.source.limits.cell_bytes):
            raise _too_large(plan, byte_range, quote_states, rows, before, large)
        if damage := first_damage(rows.batch, plan.images, plan.source.limits):
            numbers = [before + row for row in damage]
            places = format_of(plan).positions(
                plan.as_read, byte_range, quote_states, left_out, numbers
            )
            is_whole = np.ones(rows.batch.num_rows, np.bool_)
            is_whole[list(damage)] = False
            yield rows._replace(
                batch=rows.batch.filter(pa.array(is_whole)),
                rejected=(*rows.rejected, *reject_rows(plan, places, damage.values(), reject)),
            )
        else:
            yield rows
        before += rows.batch.num_rows


def _read_gathered(
    plan: SourcePlan, byte_range: ByteRange, reject: bool
) -> Iterator[source_format.Rows]:
    """Reads the files of a range, and combines their rows."""
    waiting: list[source_format.Rows] = []
    num_rows = size_bytes = crc32c = 0
    own = list(ranges_of_members(plan, byte_range))
    for start in range(0, len(own), _TOGETHER):
        for rows, checksums in _read_some(plan, own[start : start + _TOGETHER], reject):
            for checksum in checksums:
                # A single file keeps its checksum, as if it were read alone.
                crc32c = (
                    checksum
                    if len(own) == 1
                    else google_crc32c.extend(crc32c, struct.pack("<I", checksum))
                )
            if num_rows and (
                num_rows + rows.batch.num_rows > source_format.MAX_CHUNK_ROWS
                or size_bytes > source_format.CHUNK_BYTES
            ):
                yield _put_together(waiting, plan)
                waiting, num_rows, size_bytes = [], 0, 0
            waiting.append(rows)
            num_rows, size_bytes = num_rows + rows.batch.num_rows, size_bytes + rows.batch.nbytes
    yield _put_together(waiting, plan)._replace(crc32c=crc32c)


def _read_some(
    plan: SourcePlan, own: Sequence[ByteRange], reject: bool
) -> Iterator[tuple[source_format.Rows, Sequence[int]]]:
    """Yields the rows of small files, with the files' checksums.

    The checksums are of the files that end in the rows.
    """
    together = read_together(plan, [byte_range.file for byte_range in own])
    if plan.images:  # a row that is rejected belongs to its file
        together = None
    if together is not None and not large_cell(together[0], plan.source.limits.cell_bytes):
        *first, last = source_format.cut_rows(together[0], ())
        yield from ((rows, ()) for rows in first)
        yield last, together[1]
        return
    for byte_range in own:
        for rows in _read_rows(plan, byte_range, {}, reject):
            yield rows, () if rows.crc32c is None else (rows.crc32c,)


def ranges_of_members(plan: SourcePlan, byte_range: ByteRange) -> Iterator[ByteRange]:
    """Yields a range for each file of a gathered range.

    They have the same number.
    """
    for file in plan.files[slice(*byte_range.members)]:
        yield ByteRange(byte_range.number, 0, file, 0, file.size_bytes)


def _put_together(some: Sequence[source_format.Rows], plan: SourcePlan) -> source_format.Rows:
    batch = source_format.combine([rows.batch for rows in some], plan.schema)
    return source_format.Rows(batch, tuple(bad for rows in some for bad in rows.rejected))


def _too_large(
    plan: SourcePlan,
    byte_range: ByteRange,
    quote_states: QuoteStates,
    rows: source_format.Rows,
    before: int,
    large: LargeCell,
) -> DataError:
    """Returns the error for a value above the limit, with its position.

    The range is read again to find it.
    """
    file = (
        plan.files[byte_range.members[0] + before + large.row]
        if byte_range.members != (0, 0)
        else byte_range.file
    )
    row, left_out = before + large.row, list(rows.rejected)
    places = format_of(plan).positions(plan.as_read, byte_range, quote_states, left_out, [row])
    message = exceeded(plan.source.limits, "cell_bytes", f"a value of {large.size_bytes:,} bytes")
    return DataError(f"{file.path}, {places[0].place}, column '{large.column}': {message}")


def number_rows(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Adds the column ``ROW`` to the chunks of one range, in order.

    It is int64: the number of each row in the range, from 0.
    """
    before = 0
    for chunk in chunks:
        batch = chunk.batch
        numbers = pa.array(np.arange(before, before + batch.num_rows))
        before += batch.num_rows
        yield chunk._replace(batch=batch.append_column(ROW, numbers))


def _chunk(
    byte_range: ByteRange, part: int, rows: source_format.Rows, private: Sequence[str]
) -> Chunk:
    counts = {"read": rows.batch.num_rows, "rejected": len(rows.rejected)}
    rejected = tuple(hide_row(row, private) for row in rows.rejected)
    return Chunk(byte_range.number, part, rows.batch, counts, rejected, path=byte_range.file.path)


def read_table(
    plan: SourcePlan, reject: bool
) -> tuple[pa.Table, dict[str, int], tuple[Rejected, ...]]:
    """Reads a whole source, in order, into memory.

    Returns:
      The rows; the row counts (``read``, ``rejected``); the rejected rows.

    Raises:
      DataError: as in ``read_range``.
    """
    batches: list[pa.RecordBatch] = []
    rejected: list[Rejected] = []
    counts = {"read": 0, "rejected": 0}
    for chunk in read_chunks(plan, reject):
        batches.append(chunk.batch)
        counts = add_counts(counts, chunk.counts)
        rejected.extend(chunk.rejected)
    return pa.Table.from_batches(batches, plan.schema), counts, tuple(rejected)


def read_chunks(plan: SourcePlan, reject: bool) -> Iterator[Chunk]:
    """Reads a whole source, in order, chunk by chunk.

    Raises:
      DataError: as in ``read_range``.
    """
    scanned = [
        (byte_range.file.path, (byte_range.number_in_file, scan_range(plan, byte_range)))
        for byte_range in ranges_to_scan(plan)
    ]
    quote_states = {
        path: _fold_file(scan for other, scan in scanned if other == path) for path, _ in scanned
    }
    for byte_range in plan.ranges:
        yield from read_range(plan, byte_range, quote_states, reject)


def read_leading_ranges(plan: SourcePlan, reject: bool, limit: int) -> Iterator[tuple[int, int]]:
    """Yields number and rows of the first ranges with enough rows.

    Stops reading the last one there; its rows are those up to that point.

    Raises:
      DataError: as in ``read_range``.
    """
    scanned: dict[str, list[Transition]] = {}
    to_scan = ranges_to_scan(plan)
    next_to_scan = next(to_scan, None)
    for byte_range in plan.ranges:
        path = byte_range.file.path
        if byte_range == next_to_scan:
            scanned.setdefault(path, []).append(scan_range(plan, byte_range))
            next_to_scan = next(to_scan, None)
        states = {path: fold(scanned[path])} if path in scanned else {}
        rows = 0
        for chunk in read_range(plan, byte_range, states, reject):
            rows += chunk.batch.num_rows
            if rows >= limit:
                break
        yield byte_range.number, rows
        limit -= rows
        if limit <= 0:
            return


def ranges_to_scan(plan: SourcePlan) -> Iterator[ByteRange]:
    """Yields the ranges to scan for quotes before any is read.

    These are the ranges of files with more than one.
    """
    for _, of_file in itertools.groupby(plan.ranges, lambda byte_range: byte_range.file.path):
        first = next(of_file)
        member, own = format_of(plan).member_of(plan, first)
        # Others of the file are after the first one, or are not read.
        is_part = own.number_in_file > 0 or own.end < own.file.size_bytes
        is_cut = own.members == (0, 0) and is_part
        if is_cut and format_of(member).quoting(member.source) is not None:
            yield first
            yield from of_file  # noqa: B031 - the rest of it


def scan_range(plan: SourcePlan, byte_range: ByteRange) -> Transition:
    """Returns the effect of a range on the quote automaton.

    Reads the range. See ``csv_ranges``.
    """
    plan, byte_range = format_of(plan).member_of(plan, byte_range)
    dialect = format_of(plan).quoting(plan.source)
    if dialect is None:
        raise ValueError(f"{plan.format} needs no scan")
    return blocks.scan_range(byte_range, dialect)


def _fold_file(scanned: Iterable[tuple[int, Transition]]) -> bytes:
    return fold(transition for _, transition in sorted(scanned))


@dataclasses.dataclass
class ReadChunks(beam.PTransform):
    """Reads a source.

    Input: the pipeline's begin. Output: ``Chunk`` elements in any order, at least one for each byte
    range. Their content depends on the files and the plan only, so that a retry makes the same
    chunks.

    Attributes:
      plan: of the source.
      reject: leaves out bad rows and lists them in the chunks, instead of failing at the first one.
      numbered: adds the column ``ROW`` (``number_rows``).
      take: takes a part of the rows; ``None``: all.
    """

    plan: SourcePlan
    reject: bool = False
    numbered: bool = False
    take: Take | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Chunk]:
        """Scans for quotes before the read, if the format needs it."""
        plan = self.plan
        ranges = begin | "Ranges" >> _Elements(plan, lambda plan: plan.ranges)
        if next(ranges_to_scan(plan), None) is None:
            return ranges | "Read" >> beam.FlatMap(self._read, {})
        states = begin | "ScanQuotes" >> ScanQuotes(plan)
        return ranges | "Read" >> beam.FlatMap(self._read, beam.pvalue.AsDict(states))

    def _read(self, byte_range: ByteRange, quote_states: QuoteStates) -> Iterator[Chunk]:
        chunks = read_range(self.plan, byte_range, quote_states, self.reject)
        chunks = number_rows(chunks) if self.numbered else chunks
        return chunks if self.take is None else take_chunks(self.take, chunks)


@dataclasses.dataclass
class ScanQuotes(beam.PTransform):
    """Scans the files of a source that are cut into ranges.

    The scan tells quoted line ends from those between rows.

    Input: the pipeline's begin. Output: for each such file its path and one byte for each of its
    ranges: the state of the quote automaton at the start of the range.
    """

    plan: SourcePlan

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[tuple[str, bytes]]:
        plan = self.plan
        return (
            begin
            | "Ranges" >> _Elements(plan, ranges_to_scan)
            | "Scan"
            >> beam.Map(
                lambda byte_range: (
                    byte_range.file.path,
                    (byte_range.number_in_file, scan_range(plan, byte_range)),
                )
            )
            | "GroupByFile" >> beam.GroupByKey()  # (path, [(number in the file, transition)])
            | "FoldStates" >> beam.MapTuple(lambda path, scanned: (path, _fold_file(scanned)))
        )


@dataclasses.dataclass
class _Elements(beam.PTransform):
    """Distributes byte ranges over all workers, by their numbers."""

    plan: SourcePlan
    of: Callable[[SourcePlan], Iterable[ByteRange]]

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[ByteRange]:
        return (
            begin
            | "Start" >> beam.Create([None], reshuffle=False)
            | "List"
            >> beam.FlatMap(
                lambda _, of, plan: (each.number for each in of(plan)), self.of, self.plan
            )
            | "Spread" >> beam.Reshuffle()
            | "Range" >> beam.Map(lambda number, plan: plan.ranges[number], self.plan)
        )
