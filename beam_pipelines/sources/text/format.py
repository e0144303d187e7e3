"""The base of text formats: records that end where lines do."""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.files.compression import no_zlib
from beam_pipelines.sources.options import EncodedOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.quotes import Dialect, Positions


def digits_type(declared: pa.DataType) -> pa.DataType:
    """Returns the type that digits are read as: float32 for float16.

    Lists keep their level. All text formats read declared numbers so.
    """
    if pa.types.is_list(declared):
        return pa.list_(digits_type(declared.value_type))
    return pa.float32() if pa.types.is_float16(declared) else declared


# A bad record: where it begins and ends, its column and error.
BadRecord = tuple[int, int, str, str]
# Records of so many bytes are tried together, then looked at one by one.
PIECE_BYTES = (1 << 16, 1 << 12)
Slow = Callable[[Sequence[int], Sequence[int]], Iterable[pa.RecordBatch | BadRecord]]


def try_pieces(
    data: bytes,
    spans: tuple[Positions, Positions],
    fast: Callable[[bytes], pa.RecordBatch | None],
    slow: Slow,
    sizes: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch | BadRecord]:
    """Yields batches of good records, and bad ones, in order.

    Pieces are tried again, so that Python reads little more than what is unusual.

    Args:
      data: whole records.
      spans: where records begin and end.
      fast: reads some records; gives ``None`` or raises one of ``bad_rows.ERRORS`` if any is bad.
      slow: reads records by their starts and ends.
      sizes: bytes of the pieces, and of those in a piece that ``fast`` declines.
    """
    starts, ends = spans
    sizes = PIECE_BYTES if sizes is None else sizes
    if not sizes:
        yield from slow(starts.tolist(), ends.tolist())
        return
    edges = np.flatnonzero(np.diff(ends // sizes[0])) + 1
    for first, last in itertools.pairwise([0, *edges.tolist(), len(ends)]):
        some = starts[first:last], ends[first:last]
        batch = None
        with contextlib.suppress(*bad_rows.ERRORS):
            batch = fast(blocks.joined(data, *some))
        if batch is None:
            yield from try_pieces(data, some, fast, slow, sizes[1:])
        else:
            yield batch


def settled(
    plan: SourcePlan,
    file: FileInfo,
    body: blocks.Body,
    found: Iterable[pa.RecordBatch | BadRecord],
    reject: bool,
) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
    """Returns good rows and bad ones, as ``TextFormat.read_body`` does.

    Args:
      plan, file, body, reject: as there.
      found: the rows in order, bad records between batches.
    """
    lines = blocks.LineNumbers(plan.source, file, body)
    good: list[pa.RecordBatch] = []
    rejected: list[Rejected] = []
    for one in found:
        if isinstance(one, pa.RecordBatch):
            good.append(one)
            continue
        start, end, column, reason = one
        record = body.data[start:end].decode("utf-8", errors="backslashreplace").rstrip("\r\n")
        place = f"line {lines.line(start)}"
        bad = Rejected(plan.source.name, file.path, place, column, reason, shorten(record))
        bad_rows.reject_or_raise(bad, rejected, reject)
    return source_format.combine(good, plan.schema), tuple(rejected)


class TextFormat(source_format.Format):
    """A format of text, whose rows have line numbers.

    A text format defines ``suffixes``, ``infer`` and ``read_body``; ``records`` as well if its
    records are not the lines that are not blank.
    """

    Options: ClassVar[Any] = EncodedOptions
    infers_types = True
    has_lines = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return no_zlib(source)

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut: neither compressed nor encoded ones can."""
        return not blocks.is_stream(source, path)

    def dialect(self, source: Source) -> Dialect:
        """Returns delimiter and quote of a source; by default no quote."""
        return blocks.LINES

    def quoting(self, source: Source) -> Dialect | None:
        """Returns the dialect if line ends may be inside quotes."""
        dialect = self.dialect(source)
        return None if dialect.quote is None else dialect

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        dialect = self.dialect(plan.source)
        for body in blocks.read_bodies(plan.source, byte_range, quote_states, dialect):
            *first, last = source_format.cut_rows(
                *self.read_body(plan, byte_range.file, body, reject)
            )
            yield from first
            yield last._replace(crc32c=body.crc32c)

    @abc.abstractmethod
    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole records of a file.

        Returns:
          The good rows, in the plan's ``schema``; the bad ones, if ``reject``.

        Raises:
          DataError: a bad row, unless ``reject``; a record beyond a limit.
        """

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, Positions, Positions]:
        """Returns a body of records, and their starts and ends in it."""
        return body, *blocks.filled_lines(body.data)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Finds rows by counting records, without parsing them; see ``Format``."""
        file, left_out, wanted = (
            byte_range.file,
            source_format.row_numbers(rejected),
            np.asarray(rows, np.int64),
        )
        dialect = self.dialect(plan.source)
        found: list[source_format.Position] = []
        before = 0
        for whole in blocks.read_bodies(plan.source, byte_range, quote_states, dialect):
            body, starts, ends = self.records(plan, file, whole)
            lines = blocks.LineNumbers(plan.source, file, body)
            spans = np.stack([starts, ends], axis=1)
            if len(left_out):
                spans = spans[~np.isin(lines.lines(starts), left_out)]
            here = wanted[(wanted >= before) & (wanted < before + len(spans))]
            for start, end in spans[here - before].tolist():
                record = body.data[start:end].decode("utf-8", errors="backslashreplace")
                place = f"line {lines.line(start)}"
                found.append(
                    source_format.Position(file.path, place, shorten(record.rstrip("\r\n")))
                )
            before += len(spans)
        return found
