"""Plans the global batches of one split or of several."""

from __future__ import annotations

import dataclasses
import functools
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from beam_pipelines.reader import order
from beam_pipelines.reader.parts import ReadSplit

Remainder = Literal["short", "drop", "pad"]
REMAINDERS: tuple[Remainder, ...] = ("short", "drop", "pad")


class StreamPlace(NamedTuple):
    """An epoch, and the number of its rows read so far."""

    epoch: int
    row: int


class StreamEpoch(NamedTuple):
    """An epoch of a stream.

    Attributes:
      key: number of the stream, and of the epoch.
      split: of the stream.
      epoch: the order.
    """

    key: tuple[int, int]
    split: ReadSplit
    epoch: order.Epoch


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """The rows of a split, epoch after epoch."""

    split: ReadSplit
    seed: int
    is_shuffled: bool

    @functools.lru_cache(maxsize=2)  # noqa: B019 - a reader has few streams, and ends with them
    def epoch(self, number: int) -> order.Epoch:
        """Returns the order of an epoch."""
        split = self.split
        return order.make_epoch(
            split.rows_of_parts,
            split.extents,
            split.runs,
            split.framed_bytes,
            self.seed,
            number,
            self.is_shuffled,
        )

    @functools.cached_property
    def fingerprint(self) -> int:
        """A checksum of the order's inputs, without compressed sizes."""
        shards = [
            (os.path.basename(file.path), file.rows)
            for found in self.split.indexed
            for file in found.files
        ]
        found = (self.split.name, shards, self.split.framed_bytes, self.is_shuffled)
        parts = zlib.crc32(self.split.rows_of_parts.data, zlib.crc32(repr(found).encode()))
        return zlib.crc32(self.split.runs.data, zlib.crc32(self.split.extents.data, parts))

    @functools.cached_property
    def data(self) -> bytes:
        """A digest of the parts' checksums, which are those of uncompressed records."""
        import hashlib  # takes milliseconds of a first batch, and states alone need it

        digest = hashlib.sha256()
        for found in self.split.indexed:
            columns = found.parts.columns
            digest.update(columns.crc32.tobytes())
            digest.update(columns.rows.tobytes())
        return digest.digest()


class ReadPlan(NamedTuple):
    """Global batches to read next.

    Attributes:
      sources: what they take rows of.
      taken: the rows of each source.
      sizes: int64[n], rows of each batch.
      behind: the place behind each batch.
    """

    sources: tuple[StreamEpoch, ...]
    taken: tuple[order.Entries, ...]
    sizes: order.Int64s
    behind: tuple[StreamPlace, ...]


class Chosen(NamedTuple):
    """Numbers of batches to read: ``start, start + step, …`` before ``stop``.

    The next batch has the number 0. Without ``stop``, they go on to the end of the pass.
    """

    start: int = 0
    stop: int | None = None
    step: int = 1

    def among(self, first: int) -> slice:
        """Returns the chosen ones among batches from a number on."""
        start = self.start - first if self.start >= first else (self.start - first) % self.step
        return slice(start, None if self.stop is None else max(0, self.stop - first), self.step)

    def behind(self) -> Chosen:
        """Returns the same choice, counted from behind the first chosen one."""
        stop = None if self.stop is None else max(0, self.stop - self.start - 1)
        return Chosen(self.step - 1, stop, self.step)


@dataclasses.dataclass(frozen=True, eq=False)
class GlobalBatches:
    """Global batches of streams.

    An epoch has as many rows as all streams have together.

    Attributes:
      streams: to read.
      weights: their shares of the rows, 1 or more each; of one stream all rows are read.
      size: rows of a batch.
      remainder: what becomes of a last batch of an epoch that is not full.
    """

    streams: tuple[Stream, ...]
    weights: tuple[int, ...]
    size: int
    remainder: Remainder

    @functools.cached_property
    def rows(self) -> int:
        """The number of rows of an epoch."""
        return sum(stream.split.rows for stream in self.streams)

    @property
    def seed(self) -> int:
        """The seed of the first stream."""
        return self.streams[0].seed

    @property
    def is_shuffled(self) -> bool:
        """Whether any stream is."""
        return any(stream.is_shuffled for stream in self.streams)

    @functools.cached_property
    def fingerprint(self) -> int:
        """A checksum of the order's inputs, without the seed."""
        if len(self.streams) == 1:
            return self.streams[0].fingerprint
        found = [(stream.fingerprint, stream.seed) for stream in self.streams]
        return zlib.crc32(repr((found, self.weights)).encode())

    @functools.cached_property
    def data(self) -> str:
        """A digest of the rows of all streams, as 16 hexadecimal digits."""
        import hashlib

        found = b"".join(stream.data for stream in self.streams)
        return hashlib.sha256(found).hexdigest()[:16]

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return self.rows // self.size if self.remainder == "drop" else -(-self.rows // self.size)

    def start_of(self, batch: int) -> StreamPlace:
        """Returns the place of a batch, counted from epoch 0 on."""
        epoch, number = divmod(batch, len(self))
        return StreamPlace(epoch, number * self.size)

    def plans(self, place: StreamPlace, end: int, most: int, chosen: Chosen) -> Iterator[ReadPlan]:
        """Yields plans from a place on, until an epoch.

        Args:
          place: of the first batch.
          end: number of the epoch to stop at.
          most: batches of a plan. The first one has one, so that it comes soon.
          chosen: the batches to read.
        """
        row, count, passed = place.row, 1, 0
        for number in range(place.epoch, end):
            starts = np.arange(row, self.rows, self.size)
            ends = np.minimum(starts + self.size, self.rows)
            if len(ends) and ends[-1] - starts[-1] < self.size:
                if self.remainder == "drop":
                    starts, ends = starts[:-1], ends[:-1]
                elif self.remainder == "pad":
                    starts[-1] = ends[-1] - self.size
            own = chosen.among(passed)
            passed += len(starts)
            starts, ends, at = starts[own], ends[own], 0
            while at < len(starts):
                yield self._plan(number, starts[at : at + count], ends[at : at + count])
                at, count = at + count, min(most, 2 * count)
            row = 0

    def _plan(self, number: int, starts: order.Int64s, ends: order.Int64s) -> ReadPlan:
        base = number * self.rows
        sources: list[StreamEpoch] = []
        taken: list[order.Entries] = []
        firsts, lasts = self._positions(base + starts), self._positions(base + ends)
        for stream_number, stream in enumerate(self.streams):
            rows, first, last = stream.split.rows, firsts[stream_number], lasts[stream_number]
            for epoch_number in range(int(first[0] // rows), int((last[-1] - 1) // rows) + 1):
                start = np.maximum(first - epoch_number * rows, 0)
                stop = np.minimum(last - epoch_number * rows, rows)
                (batches,) = np.nonzero(stop > start)
                if not len(batches):  # all in batches that are not chosen
                    continue
                epoch = stream.epoch(epoch_number)
                taken.append(
                    order.take(epoch, len(sources), batches, start[batches], stop[batches])
                )
                sources.append(StreamEpoch((stream_number, epoch_number), stream.split, epoch))
        behind = tuple(self._behind(number, row) for row in ends.tolist())
        return ReadPlan(tuple(sources), tuple(taken), ends - starts, behind)

    def _positions(self, positions: order.Int64s) -> Sequence[order.Int64s]:
        """Returns the positions in each stream that belong to some positions."""
        if len(self.streams) == 1:
            return [positions]
        return list(order.weighted_shares(self.weights, self.seed, positions).T)

    def _behind(self, epoch: int, row: int) -> StreamPlace:
        """Returns the place behind a batch, perhaps the next epoch's start."""
        missing = self.rows - row
        is_last = missing < self.size if self.remainder == "drop" else not missing
        return StreamPlace(epoch + 1, 0) if is_last else StreamPlace(epoch, row)
