"""The batches of a split, in an order that can be resumed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.reader import frameworks, sequence
from beam_pipelines.reader.columns import with_keyed
from beam_pipelines.reader.features import ReadFeature, Wishes
from beam_pipelines.reader.images import image_bytes
from beam_pipelines.reader.order import ORDER_VERSION
from beam_pipelines.reader.parse import RowFinder, parse_rows
from beam_pipelines.reader.parts import check_files
from beam_pipelines.reader.pipeline import MOST_BATCHES, Reading, read_groups

if TYPE_CHECKING:
    from typing_extensions import Self

    from beam_pipelines.reader.devices import Device

KINDS = ("numpy", "torch", "jax", "arrow", "records")
# Rows that are parsed at once, and bytes of their records and of their pixels; or one batch, if it
# is larger.
GROUP_ROWS = 65536
GROUP_BYTES = 32 << 20
IMAGE_BYTES = 32 << 20


class BatchOptions(Wishes, total=False):
    """Arguments of ``Dataset.batches``; it describes them and has their defaults."""

    sharding: Any
    device: Any
    shuffle: bool
    seed: int
    epochs: int
    remainder: sequence.Remainder
    rank: int | None
    world_size: int | None


def options_of(batch_size: int, as_: str, given: BatchOptions) -> tuple[Wishes, ReadOptions]:
    """Returns what the features are to be, and how they are read.

    Raises:
      TypeError: an argument has another name.
      ValueError: only one of ``rank`` and ``world_size`` is given.
    """
    known = BatchOptions.__optional_keys__
    for name in given:
        if name not in known:
            raise TypeError(f"batches() has no argument {name!r}.{nearest(name, known)}")
    rest: Any = dict(given)
    wishes: Any = {name: rest.pop(name) for name in Wishes.__optional_keys__ & rest.keys()}
    ranks = frameworks.find_rank(rest.pop("rank", None), rest.pop("world_size", None))
    own = {name: rest[name] for name in rest if name in ReadOptions._fields}
    return wishes, ReadOptions(batch_size, as_, *ranks, **own)


class ReadOptions(NamedTuple):
    """Options of reading; ``Dataset.batches`` describes them."""

    batch_size: int
    as_: str
    rank: int
    world_size: int
    epochs: int = 1
    remainder: sequence.Remainder = "short"
    sharding: Any = None
    device: Any = None


class Reader(Iterator[frameworks.Batch]):
    """Iterates over batches: dictionaries of feature -> values.

    One pass (a ``for`` loop to its end) is ``epochs`` epochs; the next pass goes on with the epochs
    behind. A loop that was left goes on with the next batch, in a fork as well. Leaving the context
    closes the reader.

    Attributes:
      features, options: what ``Dataset.batches`` was asked for.
    """

    def __init__(
        self,
        streams: Sequence[sequence.Stream],
        weights: Sequence[int],
        features: Sequence[ReadFeature],
        options: ReadOptions,
    ) -> None:
        """Prepares to read; ``Dataset.batches`` and ``mix`` are the public calls.

        Raises:
          DataError: a shard is missing, or of another size than the manifest says.
          ValueError: an option is wrong.
        """
        _check(streams, features, options)
        for stream in streams:
            for found in stream.split.indexed:
                check_files(found)
        size = options.batch_size * options.world_size
        self._order = sequence.GlobalBatches(
            tuple(streams), tuple(weights), size, options.remainder
        )
        self.features, self.options = features, options
        self._place, self._chosen = sequence.StreamPlace(0, 0), sequence.Chosen()
        self._finder = RowFinder(streams[0].split)
        self._batches: (
            Generator[tuple[sequence.StreamPlace, frameworks.Batch], None, None] | None
        ) = None
        self._device: Device | None = None
        if options.device is not None:  # the imports take as long as a first batch
            from beam_pipelines.reader import devices

            self._device = devices.Device(options.device, options.as_, features)
        self._is_closed = False
        self._process = os.getpid()

    def __len__(self) -> int:
        """Returns the number of batches in a pass, equal on all ranks."""
        return len(self._order) * self.options.epochs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> frameworks.Batch:
        if self._is_closed:
            raise ValueError("reader: found it closed, expected an open one. Make another.")
        if self._process != os.getpid():
            self._use_in_fork()
        if self._batches is None:
            self._batches = self._read()
        try:
            self._place, batch = next(self._batches)
        except StopIteration:  # the next call begins the next pass
            self._stop()
            self._chosen = sequence.Chosen()
            raise
        except BaseException:
            self._stop()
            raise
        self._chosen = self._chosen.behind()
        return batch

    @property
    def streams(self) -> tuple[sequence.Stream, ...]:
        """The splits that are read; a mixture has several."""
        return self._order.streams

    @property
    def skipped(self) -> int:
        """The number of batches before the next one that ``select`` leaves out."""
        return self._chosen.start

    def select(self, start: int = 0, stop: int | None = None, step: int = 1) -> None:
        """Chooses batches of the rest of the pass.

        The next pass has all again. They are those with the numbers ``start, start + step, …``
        before ``stop``. The next batch has the number 0. So ``select(worker, None, workers)``
        divides batches among workers.

        Raises:
          ValueError: ``start`` or ``stop`` is below 0, or ``step`` below 1.
        """
        if start < 0 or step < 1 or (stop is not None and stop < 0):
            raise ValueError(
                f"select: found {start}, {stop} and {step}, expected start and stop from 0, step "
                "from 1."
            )
        self._stop()
        self._chosen = sequence.Chosen(start, stop, step)

    def seek(self, batch: int) -> None:
        """Goes to a batch, counted from the first one of epoch 0.

        Raises:
          ValueError: it is below 0.
        """
        if batch < 0:
            raise ValueError(f"batch: found {batch}, expected a number from 0.")
        self._stop()
        self._place, self._chosen = self._order.start_of(batch), sequence.Chosen()

    def take(self, rows: Sequence[int]) -> frameworks.Batch:
        """Returns rows by their numbers, without a change of the reader's place.

        Args:
          rows: numbers in the order of the shards, from 0; each reads its part, if it is not among
            the last ones. A mixture's are those of the first dataset. Random crops are those of
            epoch 0. A ``sharding`` is not applied.

        Raises:
          IndexError: there is no such row.
          DataError: as while reading.
        """
        options, found = self.options, self._finder.find(rows)
        count = len(found.records)
        found = found._replace(seed=self._order.seed, epochs=np.zeros(count, np.int64))
        columns = parse_rows(found, self.features, options.as_)
        columns = with_keyed(columns, self.features, [0, count])
        batch = {name: column.cut(0, count) for name, column in columns.items()}
        if self._device is not None:
            return self._device.copy(batch, self._order.seed)
        return frameworks.handover(options.as_)(batch)

    def state_dict(self) -> dict[str, int | str]:
        """Returns the place behind the last batch.

        As JSON it has at most 200 bytes. Every rank has the same state after as many batches.
        """
        return {
            "order": ORDER_VERSION,
            "data": self._order.data,
            "rows": f"{self._order.fingerprint:08x}",
            "seed": self._order.seed,
            "epoch": self._place.epoch,
            "row": self._place.row,
        }

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Goes on behind the last batch of the state's reader.

        Batch size and number of ranks may differ from that reader's. If their product is the same,
        the global batches are.

        Raises:
          DataError: the state is of other data.
          ValueError: it is no state, or of another seed or order.
        """
        own = self.state_dict()
        if set(state) != set(own):
            raise ValueError(
                f"state: found the keys {', '.join(state)}, expected {', '.join(own)}, as "
                "state_dict() of this version returns. Begin the epoch again: an earlier version's "
                "state may name other rows."
            )
        if state["data"] != own["data"]:
            raise DataError(
                f"{self._order.streams[0].split.indexed[0].parts.path}: found a state of other "
                f"data ({state['data']!r}, expected {own['data']!r}). The data were converted "
                "again, or these are another split, another mixture, or more or fewer folders. "
                "Open the folders that the state's reader had, in the same order, and give "
                "batches() its split; or begin again."
            )
        for key, cause in (
            ("order", "another version of this package ordered the rows"),
            ("rows", "it is of other names, weights or another 'shuffle'. Give the same ones"),
            ("seed", "give batches() the same seed"),
        ):
            if state[key] != own[key]:
                raise ValueError(
                    f"state: found {key} {state[key]!r}, expected {own[key]!r}: {cause}."
                )
        found = []
        for key, most in (("epoch", 1 << 62), ("row", self._order.rows - 1)):
            value = state[key]
            if not isinstance(value, int) or not 0 <= value <= most:
                raise ValueError(f"state: found {key} {value!r}, expected 0 to {most:,}.")
            found.append(value)
        self._stop()
        self._place, self._chosen = sequence.StreamPlace(*found), sequence.Chosen()

    def close(self) -> None:
        """Ends threads and processes. A closed reader gives no more batches."""
        self._stop()
        if self._device is not None:
            self._device.close()
        self._is_closed = True

    def _use_in_fork(self) -> None:
        """Begins a pass in a fork, which has none of the threads."""
        if self._device is not None:
            raise ValueError(
                "device: found a reader in a fork of its process, which cannot use the CUDA "
                "device. Make a reader in the fork, without a device."
            )
        self._batches, self._process = None, os.getpid()

    def _stop(self) -> None:
        if self._batches is not None and self._process == os.getpid():
            self._batches.close()
        self._batches = None

    def _read(self) -> Generator[tuple[sequence.StreamPlace, frameworks.Batch], None, None]:
        """Yields the rest of a pass: batches with the places behind them."""
        options, place = self.options, self._place
        end = (place.epoch // options.epochs + 1) * options.epochs
        reading = Reading(
            self._order,
            place,
            end,
            min(MOST_BATCHES, max(1, self._group_rows() // options.batch_size)),
            self._chosen,
            self.features,
            options.as_,
            options.rank,
            options.world_size,
        )
        batches = self._device.read(reading) if self._device else self._on_host(reading)
        try:
            yield from batches
            self._place = sequence.StreamPlace(end, 0)  # also if no batch was left
        finally:
            batches.close()

    def _on_host(
        self, reading: Reading
    ) -> Generator[tuple[sequence.StreamPlace, frameworks.Batch], None, None]:
        options = self.options
        hand_over = frameworks.handover(options.as_, options.sharding, options.batch_size)

        groups = read_groups(reading, lambda group: group)
        try:
            for places, edges, columns in groups:
                for behind, (start, stop) in zip(places, itertools.pairwise(edges), strict=True):
                    batch = {name: column.cut(start, stop) for name, column in columns.items()}
                    yield behind, hand_over(batch)
        finally:
            groups.close()

    def _group_rows(self) -> int:
        """Returns how many rows are parsed at once."""
        pixels = sum(image_bytes(feature.image) for feature in self.features if feature.image)
        records = max(stream.split.row_bytes for stream in self.streams)
        rows = min(GROUP_ROWS, GROUP_BYTES // max(1, records))
        return min(rows, IMAGE_BYTES // pixels) if pixels else rows


def _check(
    streams: Sequence[sequence.Stream], features: Sequence[ReadFeature], options: ReadOptions
) -> None:
    for name, value, least in (
        ("batch_size", options.batch_size, 1),
        ("world_size", options.world_size, 1),
        ("epochs", options.epochs, 1),
        *(("seed", stream.seed, 0) for stream in streams),
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
    frameworks.check_installed(options.as_)
    _check_place(features, options)
    if options.remainder not in sequence.REMAINDERS:
        raise ValueError(
            f"remainder: found {options.remainder!r}, expected one of "
            f"{', '.join(sequence.REMAINDERS)}."
            f"{nearest(str(options.remainder), sequence.REMAINDERS)}"
        )
    size = options.batch_size * options.world_size
    rows = sum(stream.split.rows for stream in streams)
    if options.remainder != "short" and size > rows:
        raise ValueError(
            f"batch_size: found {options.batch_size:,} on {options.world_size:,} ranks, expected "
            f"together at most the {rows:,} rows there are, or remainder='short'."
        )
    rest = rows % size if options.remainder == "short" else 0
    if options.sharding is not None and rest % options.world_size:
        raise ValueError(
            f"sharding: found {rest:,} rows in the last batch, which {options.world_size:,} ranks "
            "do not divide evenly. Give remainder='drop'."
        )
    sizes = {min(size, rows), rest} - {0}
    frameworks.check_sharding(options.as_, options.sharding, features, sorted(sizes, reverse=True))


def _check_place(features: Sequence[ReadFeature], options: ReadOptions) -> None:
    if options.device is not None:
        from beam_pipelines.reader.devices import check_device

        check_device(options.device, options.as_, options.sharding, features)
    for feature in features:
        if feature.image is not None and feature.image.device and options.device is None:
            raise ValueError(
                f"images: found a device for feature '{feature.name}', but batches on the host. "
                "Give batches() device='cuda' as well."
            )
