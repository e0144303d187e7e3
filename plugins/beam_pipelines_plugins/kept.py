"""Rows that are read before a run and kept in files.

A run reads a database's table, or what only a lakehouse's own library reads, once. It keeps the
rows in files, which its steps read as often as they need. Commands that need some rows only read
them live.
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.files.beam import files
from beam_pipelines.sources import plan as source_plans
from beam_pipelines.sources import tables
from beam_pipelines.sources.source_format import Format, Rows


class KeptFile(NamedTuple):
    """Rows in an Arrow file.

    Attributes:
      path: of the file.
      rows: number of its rows.
      size_bytes: of their values.
    """

    path: str
    rows: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptRows(Format):
    """A format that defines ``live``, ``infer`` and ``keep``.

    Attributes:
      range_rows: rows of each range of kept ones but the last.
      kept: files with the rows, in order; ``None``: they are read live.
    """

    range_rows: int = 0
    kept: tuple[KeptFile, ...] | None = None

    suffixes = ()
    has_arrays = True
    is_kept = True
    has_files = False

    @abc.abstractmethod
    def live(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows from where they are."""

    def read(
        self,
        plan: source_plans.SourcePlan,
        byte_range: source_plans.ByteRange,
        quote_states: source_plans.QuoteStates,
        reject: bool,
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        row, crc32c = byte_range.number_in_file * self.range_rows + 1, 0
        batches = self.live() if self.kept is None else self._kept(byte_range)
        for batch in batches:
            for rows in tables.rows_of(batch, plan, byte_range.file, row, reject):
                if rows.batch.num_rows:
                    hashes = _native.hash_rows(rows.batch.columns)
                    crc32c = google_crc32c.extend(crc32c, hashes.tobytes())
                yield rows
            row += batch.num_rows
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(
        self, plan: source_plans.SourcePlan, byte_range: source_plans.ByteRange
    ) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        return "row", byte_range.number_in_file * self.range_rows + 1

    def _kept(self, byte_range: source_plans.ByteRange) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range from files, as one batch."""
        if not self.kept:
            return
        start = byte_range.number_in_file * self.range_rows
        ends = np.cumsum([kept.rows for kept in self.kept]).tolist()
        end = min(start + self.range_rows, ends[-1])
        parts = []
        for number in range(bisect.bisect_right(ends, start), bisect.bisect_left(ends, end) + 1):
            kept = self.kept[number]
            before = ends[number] - kept.rows
            with files.open_read(kept.path) as file, files.reading(kept.path):
                rows = pa.ipc.open_file(file).read_all()
            first = max(0, start - before)
            parts.append(rows.slice(first, end - before - first))
        yield from pa.concat_tables(parts).combine_chunks().to_batches()


def keep_batches(
    batches: Iterable[pa.RecordBatch], folder: str, note_rows: Callable[[int], None]
) -> tuple[KeptFile, ...]:
    """Writes batches to files of a folder.

    ``note_rows`` is told how many rows came.
    """
    kept = list[KeptFile]()
    for batch in batches:
        path = files.join(folder, f"{len(kept):06d}.arrow")
        with files.open_write(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        kept.append(KeptFile(path, batch.num_rows, sum(map(value_bytes, batch.columns))))
        note_rows(batch.num_rows)
    return tuple(kept)


def kept_plan(
    plan: source_plans.SourcePlan,
    reader: KeptRows,
    kept: tuple[KeptFile, ...],
    snapshot: source_plans.Snapshot,
) -> source_plans.SourcePlan:
    """Returns the plan of kept rows.

    Ranges have a number of rows that depends on the values alone, so that batches of a driver do
    not show in the dataset.
    """
    rows, size_bytes = sum(file.rows for file in kept), sum(file.size_bytes for file in kept)
    most = max(1, source_plans.RANGE_BYTES * rows // max(1, size_bytes))
    range_rows = 1 << (most.bit_length() - 1)
    file = dataclasses.replace(plan.files[0], size_bytes=size_bytes)
    return dataclasses.replace(
        plan,
        files=(file,),
        ranges=ranges_of(file, rows, range_rows),
        reader=dataclasses.replace(reader, range_rows=range_rows, kept=kept),
        snapshot=snapshot,
    )


def ranges_of(
    file: source_plans.FileInfo, rows: int, range_rows: int
) -> tuple[source_plans.ByteRange, ...]:
    """Returns ranges of equal numbers of rows, with shares of the bytes."""
    count = max(1, math.ceil(rows / range_rows))
    starts = [number * range_rows * file.size_bytes // max(1, rows) for number in range(count)]
    bounds = [*starts, file.size_bytes]
    return tuple(
        source_plans.ByteRange(number, number, file, bounds[number], bounds[number + 1])
        for number in range(count)
    )


def value_bytes(array: pa.Array) -> int:
    """Returns the bytes of an array's values and lengths, whatever its buffers."""
    type_ = array.type
    if pa.types.is_struct(type_):
        return sum(map(value_bytes, array.flatten()))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        values = pc.sum(pc.binary_length(array)).as_py() or 0
    elif pa.types.is_map(type_):
        values = value_bytes(array.keys) + value_bytes(array.items)
    elif pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        values = value_bytes(array.flatten())
    else:
        width = 1 if pa.types.is_null(type_) else max(1, type_.bit_width // 8)
        return int(len(array) * width)
    return int(4 * len(array) + values)
