"""The batches of a split, in an order that can be resumed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from beam_pipelines.reader import lanes
from beam_pipelines.reader.columns import Feature
from beam_pipelines.reader.order import ORDER_VERSION, make_epoch
from beam_pipelines.reader.pipeline import GROUP_ROWS, Plan, Split, read_groups

Batch = dict[str, Any]

KINDS = ("numpy", "torch", "arrow")


class ReadOptions(NamedTuple):
    """Options of reading; ``Dataset.batches`` describes them."""

    batch_size: int
    seed: int
    shuffle: bool
    as_: str
    rank: int
    world_size: int
    epochs: int
    drop_remainder: bool


class _Place(NamedTuple):
    """An epoch, and the number of its rows read so far."""

    epoch: int
    row: int


class Reader(Iterator[Batch]):
    """Iterates over batches: dictionaries of feature -> values.

    One pass (a ``for`` loop to its end) is ``epochs`` epochs; the next pass goes on with the epochs
    behind. A loop that was left goes on with the next batch. Leaving the context closes the reader.
    """

    def __init__(self, split: Split, features: Sequence[Feature], options: ReadOptions) -> None:
        """Prepares to read; ``Dataset.batches`` is the public call.

        Raises:
          DataError: a shard is missing, or of another size than the manifest says.
          ValueError: an option is wrong.
        """
        _check(split, options)
        for file in split.files:
            found = os.path.getsize(file.path) if os.path.exists(file.path) else None
            lanes.check_size(file, found)
        self._split, self._features, self._options = split, features, options
        self._rows = split.rows
        self._place = _Place(0, 0)
        self._batches: Generator[tuple[_Place, Batch], None, None] | None = None
        self._is_closed = False

    def __len__(self) -> int:
        """Returns the number of batches in a pass, equal on all ranks."""
        rows, size = self._rows, self._global_size()
        steps = rows // size if self._options.drop_remainder else -(-rows // size)
        return steps * self._options.epochs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Batch:
        if self._is_closed:
            raise ValueError("reader: found it closed, expected an open one. Make another.")
        if self._batches is None:
            self._batches = self._read()
        try:
            self._place, batch = next(self._batches)
        except BaseException:  # also the end: the next call begins the next pass
            self._stop()
            raise
        return batch

    def state_dict(self) -> dict[str, int | str]:
        """Returns the place behind the last batch.

        As JSON it has at most 200 bytes. Every rank has the same state after as many batches.
        """
        return {
            "order": ORDER_VERSION,
            "rows": self._fingerprint(),
            "seed": self._options.seed,
            "epoch": self._place.epoch,
            "row": self._place.row,
        }

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Goes on behind the last batch of the state's reader.

        Batch size and number of ranks may differ from that reader's. If their product is the same,
        the global batches are.

        Raises:
          ValueError: the state is no state, or of other rows, another seed or order.
        """
        own = self.state_dict()
        if set(state) != set(own):
            raise ValueError(f"state: found {dict(state)}, expected what state_dict() returns.")
        for key, cause in (
            ("order", "another version of this package ordered the rows"),
            ("rows", "it is of another dataset, split or 'shuffle'"),
            ("seed", "give batches() the same seed"),
        ):
            if state[key] != own[key]:
                raise ValueError(
                    f"state: found {key} {state[key]!r}, expected {own[key]!r}: {cause}."
                )
        found = []
        for key, most in (("epoch", 1 << 62), ("row", self._rows - 1)):
            value = state[key]
            if not isinstance(value, int) or not 0 <= value <= most:
                raise ValueError(f"state: found {key} {value!r}, expected 0 to {most:,}.")
            found.append(value)
        self._stop()
        self._place = _Place(*found)

    def close(self) -> None:
        """Ends the threads. A closed reader gives no more batches."""
        self._stop()
        self._is_closed = True

    def _stop(self) -> None:
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def _global_size(self) -> int:
        return self._options.batch_size * self._options.world_size

    def _fingerprint(self) -> str:
        """Returns a checksum of the order's inputs, without compressed sizes."""
        shards = [(os.path.basename(file.path), file.rows) for file in self._split.files]
        found = (self._split.name, shards, self._split.framed_bytes, self._options.shuffle)
        return f"{zlib.crc32(repr(found).encode()):08x}"

    def _read(self) -> Generator[tuple[_Place, Batch], None, None]:
        """Yields the rest of a pass: batches with the places behind them."""
        options = self._options
        groups = read_groups(
            self._split,
            self._features,
            options.as_,
            options.rank,
            options.world_size,
            self._plans(self._place),
        )
        try:
            for plan, edges, columns in groups:
                for number, row in enumerate(plan.positions[1:].tolist()):
                    start, end = int(edges[number]), int(edges[number + 1])
                    batch = {name: column.cut(start, end) for name, column in columns.items()}
                    yield self._behind(plan.epoch.number, row), batch
        finally:
            groups.close()

    def _behind(self, epoch: int, row: int) -> _Place:
        """Returns the place behind a batch, perhaps the next epoch's start."""
        missing = self._rows - row
        is_last = missing < self._global_size() if self._options.drop_remainder else not missing
        return _Place(epoch + 1, 0) if is_last else _Place(epoch, row)

    def _plans(self, place: _Place) -> Iterator[Plan]:
        """Yields groups of global batches from a place on."""
        options, size = self._options, self._global_size()
        rows_of_shards = [file.rows for file in self._split.files]
        row_bytes = self._split.framed_bytes // self._rows
        most = max(1, GROUP_ROWS // options.batch_size)
        batches = 1  # the first batch comes soon
        row = place.row
        for number in range(place.epoch, (place.epoch // options.epochs + 1) * options.epochs):
            epoch = make_epoch(rows_of_shards, row_bytes, options.seed, number, options.shuffle)
            end = self._rows - (self._rows - row) % size if options.drop_remainder else self._rows
            while row < end:
                last = min(end, row + size * batches)
                yield Plan(epoch, np.append(np.arange(row, last, size), last))
                row, batches = last, min(most, 2 * batches)
            row = 0


def _check(split: Split, options: ReadOptions) -> None:
    for name, value, least in (
        ("batch_size", options.batch_size, 1),
        ("world_size", options.world_size, 1),
        ("epochs", options.epochs, 1),
        ("seed", options.seed, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}: found {value!r}, expected an integer from {least}.")
    if not 0 <= options.rank < options.world_size:
        raise ValueError(
            f"rank: found {options.rank}, expected 0 to {options.world_size - 1}, as world_size is "
            f"{options.world_size}."
        )
    if options.as_ not in KINDS:
        raise ValueError(f"as_: found {options.as_!r}, expected one of {', '.join(KINDS)}.")
    if options.as_ == "torch":
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise ValueError(
                f"as_: found 'torch', but PyTorch cannot be imported ({error}). Install torch, or "
                "use as_='numpy'."
            ) from error
    size = options.batch_size * options.world_size
    if options.drop_remainder and size > split.rows:
        raise ValueError(
            f"batch_size: found {options.batch_size:,} on {options.world_size:,} ranks, expected "
            f"together at most the {split.rows:,} rows there are, or drop_remainder=False."
        )
