"""Finds rows of a split by their numbers, through the index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.reader.order import Int64s
from beam_pipelines.reader.parse import BlockRows
from beam_pipelines.reader.parts import Block, ReadSplit, read_part

# Parts that are kept for later rows, of about 256 KiB each.
HELD_PARTS = 64


class RowFinder:
    """Reads the parts with some rows, and keeps the last ones.

    Threads may share it.
    """

    def __init__(self, split: ReadSplit) -> None:
        self._split = split
        self._firsts = np.cumsum(split.rows_of_parts) - split.rows_of_parts
        self._held: dict[int, pa.LargeBinaryArray | pa.Table] = {}
        self._lock = Lock()

    def find(self, rows: Sequence[int]) -> BlockRows:
        """Returns rows, in the order of their numbers in ``rows``.

        Raises:
          IndexError: there is no such row.
          DataError: a shard is missing, damaged, or another file than the index is of.
        """
        numbers = np.asarray(rows, np.int64)
        is_wrong = (numbers < 0) | (numbers >= self._split.rows)
        if is_wrong.any():
            raise IndexError(
                f"row: found {numbers[is_wrong][0]:,}, expected 0 to {self._split.rows - 1:,}"
            )
        if not len(numbers):
            return BlockRows([], numbers)
        parts = np.searchsorted(self._firsts, numbers, side="right") - 1
        needed, which = np.unique(parts, return_inverse=True)
        frames = [self._frames(part) for part in needed.tolist()]
        counts = self._split.rows_of_parts[needed]
        records: Int64s = (np.cumsum(counts) - counts - self._firsts[needed])[which] + numbers
        return BlockRows([Block(self._split, needed.tolist(), frames, records, counts)], records)

    def _frames(self, part: int) -> pa.LargeBinaryArray | pa.Table:
        with self._lock:
            frames = self._held.pop(part, None)
        if frames is None:
            frames = read_part(*self._split.find(part))
        with self._lock:
            self._held[part] = frames  # the last one is the last used
            if len(self._held) > HELD_PARTS:
                del self._held[next(iter(self._held))]
        return frames
