"""Chunks, the elements of the pipeline: keyed RecordBatches with their counts."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# A column with a row's number in its range, where rows may still be rejected. No source column can
# have this name.
ROW = "\0row"
# A row's number in the selected chunk, where others have been left out since.
PLACE = "\0selected"
# A column with what decides a row's split, between the stage that knows it and the split.
SPLIT_KEY = "\0split"
# A column with the number of a row's split, where the counts of all rows decide it.
ASSIGNED = "\0assigned"


class Rejected(NamedTuple):
    """A row that could not be processed, as stored in ``rejected/``.

    It could not be read, selected or encoded.

    Attributes:
      source: the source's name.
      file: the file's path.
      position: where in the file, for people: ``line 48112``, or ``row 17`` where there are no
        lines; ``""`` where the file is the row.
      column: the offending column, or ``""`` when it is the whole row.
      reason: what was found and what was expected.
      text: the row as found, shortened to 1,000 characters; ``""`` if it has no text.
    """

    source: str
    file: str
    position: str
    column: str
    reason: str
    text: str

    def describe(self) -> str:
        """Returns ``users.csv, line 48112, column 'age': found 'n/a', expected …``."""
        column = f"column '{self.column}'" if self.column else ""
        return f"{', '.join(filter(None, (self.file, self.position, column)))}: {self.reason}"


class Chunk(NamedTuple):
    """A RecordBatch with its address and its counts.

    ``(range_number, part)`` orders chunks; with a row's place in the batch it identifies the row.
    ``split.SplitChunks`` takes ``counts``, ``rejected`` and ``crc32c`` off as a ``ChunkCounts``.

    Attributes:
      range_number: number of the range in its source's plan, from 0.
      part: number of the chunk within its range, from 0; a range has at least one chunk, which may
        have no rows.
      batch: the rows; only column types (``core/arrow/columns.py``).
      counts: what happened to rows on the way: ``read`` (rows kept), ``rejected``, ``filtered`` and
        those ``filtered_first``, before the joins, and per join ``matched/<n>``,
        ``unmatched/<n>``, ``dropped/<n>``, ``added/<n>``, ``null_keys/<n>`` with the join's number
        in the recipe, from 0; ``merged`` (rows that became steps of another row's sequence);
        and ``undone`` (rows that joins had added to rejected ones).
      rejected: the rejected rows, in order.
      crc32c: CRC-32C of the range's bytes, on the last part of a range; else ``None``.
      path: path of the range's file.
      split: name of the split; empty before SplitChunks.
      start: number of its first row in the chunk that it was cut from; 0 for a whole chunk.
      pieces: for each check of the recipe, what was found in the rows; JSON data.
    """

    range_number: int
    part: int
    batch: pa.RecordBatch
    counts: Mapping[str, int]
    rejected: tuple[Rejected, ...] = ()
    crc32c: int | None = None
    path: str = ""
    split: str = ""
    start: int = 0
    pieces: tuple[Any, ...] = ()

    def about(self) -> dict[str, Any]:
        """Returns all but range and rows, as JSON data."""
        known = self._asdict()
        return {name: known[name] for name in known if name not in ("range_number", "batch")}

    @classmethod
    def of(cls, range_number: int, batch: pa.RecordBatch, about: Mapping[str, Any]) -> Chunk:
        """Returns the chunk of ``about`` with rows."""
        rejected = tuple(Rejected(*row) for row in about["rejected"])
        own = {**about, "rejected": rejected, "pieces": tuple(about["pieces"])}
        return cls(range_number, batch=batch, **own)


class ChunkCounts(NamedTuple):
    """The counts of a chunk, without its rows.

    They are gathered for the conservation check, reports and shard plans.

    Attributes:
      range_number, part: the chunk's address.
      counts: as in ``Chunk``.
      rows: split name -> rows of the chunk in that split.
      rejected: file of the rejected rows (``transforms/row_counts.py``); ``""`` if there are
        none.
      crc32c, path, pieces: as in ``Chunk``.
    """

    range_number: int
    part: int
    counts: Mapping[str, int]
    rows: Mapping[str, int]
    rejected: str = ""
    crc32c: int | None = None
    path: str = ""
    pieces: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class MergedCounts:
    """The counts of many chunks, in order of their addresses.

    Attributes:
      ranges, parts: int64[chunks] each: the addresses.
      counts: sums of ``Chunk.counts``.
      rows: split -> int64[chunks]: its rows of each chunk.
      crc32c: path of a file, and uint32[n]: CRC-32Cs of ranges of it, in order.
      rejected: number of a range, and a file of its rejected rows.
      pieces: addresses and pieces of chunks that have some.
    """

    ranges: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]
    counts: Mapping[str, int]
    rows: Mapping[str, npt.NDArray[np.int64]]
    crc32c: Sequence[tuple[str, npt.NDArray[np.uint32]]]
    rejected: Sequence[tuple[int, str]]
    pieces: Sequence[tuple[tuple[int, int], tuple[Any, ...]]]

    @classmethod
    def of(cls, chunk_counts: Iterable[ChunkCounts]) -> MergedCounts:
        """Merges the counts of chunks, in any order."""
        ordered = sorted(chunk_counts, key=lambda counted: counted[:2])
        names = dict.fromkeys(name for each in ordered for name in each.rows)
        ends = (each for each in ordered if each.crc32c is not None)
        return cls(
            np.array([each.range_number for each in ordered], np.int64),
            np.array([each.part for each in ordered], np.int64),
            functools.reduce(add_counts, (each.counts for each in ordered), {}),
            {name: np.array([each.rows.get(name, 0) for each in ordered]) for name in names},
            [
                (path, np.array([each.crc32c for each in own], np.uint32))
                for path, own in itertools.groupby(ends, lambda each: each.path)
            ],
            [(each.range_number, each.rejected) for each in ordered if each.rejected],
            [(each[:2], each.pieces) for each in ordered if each.pieces],
        )

    @classmethod
    def merged(cls, parts: Sequence[MergedCounts]) -> MergedCounts:
        """Merges what follows each other, one at least."""
        names = dict.fromkeys(name for part in parts for name in part.rows)
        lists = zip(*((part.crc32c, part.rejected, part.pieces) for part in parts), strict=True)
        return cls(
            np.concatenate([part.ranges for part in parts]),
            np.concatenate([part.parts for part in parts]),
            functools.reduce(add_counts, (part.counts for part in parts)),
            {name: np.concatenate([part.rows_of(name) for part in parts]) for name in names},
            *([*itertools.chain.from_iterable(each)] for each in lists),
        )

    def rows_of(self, split: str) -> npt.NDArray[np.int64]:
        """Returns int64[chunks]: the rows of a split, which may have none."""
        return self.rows.get(split, np.zeros(len(self.ranges), np.int64))


# Rows that a run leaves out; after a ``/`` the name of a check that does.
LEFT_OUT = "left_out"


def add_counts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Returns the sum of two mappings of counts, key by key."""
    total: dict[str, Any] = dict(left)
    for key, value in right.items():
        total[key] = total.get(key, 0) + value
    return total
