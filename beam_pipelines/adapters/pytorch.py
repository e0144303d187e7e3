"""Datasets for PyTorch's ``DataLoader`` and torchdata's ``StatefulDataLoader``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from beam_pipelines.adapters.source import Portion, RankSource, import_package
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.frameworks import Batch

torch = import_package("torch")
data = import_package("torch.utils.data")

# Each has a number in shared memory.
MOST_WORKERS = 1024


class TorchBatches(RankSource, data.IterableDataset):  # type: ignore[name-defined]
    """Batches for ``DataLoader(…, batch_size=None)``, with any number of workers.

    Worker w of n gives the batches w, w + n, … of a rank, so their order does not depend on n. Each
    loop is the next pass of ``epochs`` epochs. Processes that live for one loop do not know how
    many there were: with several loops, call ``set_epoch`` before each, or give the loader
    ``persistent_workers=True``. ``as_`` is ``torch`` by default.
    """

    _defaults = MappingProxyType({"as_": "torch"})

    def __init__(
        self,
        dataset: Dataset | Folders,
        split: str | None = None,
        batch_size: int = 512,
        **options: Any,
    ) -> None:
        super().__init__(dataset, split, batch_size, **options)
        self._first = 0
        # Calls of ``start_at``, and for each worker those before its last process began.
        self._starts = 1
        self._begun = torch.zeros(MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._process = 0  # the worker process that has begun a loop

    def set_epoch(self, epoch: int) -> None:
        """Begins the next loop at an epoch, from 0."""
        self.start_at(epoch * self._source.batches // self._source.epochs)

    def start_at(self, batch: int) -> None:
        """Begins the next loop at a batch.

        Batches are counted from the first one of epoch 0. The loop goes on to the end of the
        batch's pass. A training of k batches is continued by ``start_at(k)``, with any number of
        workers.
        """
        if batch < 0:
            raise ValueError(f"batch: found {batch}, expected a number from 0.")
        self._first = batch
        self._starts += 1  # a process of an earlier loop may still run, with its own number

    def __iter__(self) -> Iterator[Batch]:
        worker = data.get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if count > MOST_WORKERS:
            raise ValueError(f"num_workers: found {count}, expected at most {MOST_WORKERS}.")
        is_new = worker is not None and self._process != os.getpid()
        self._process = os.getpid()
        return _Loop(self, Portion(self._source, self._first, number, count), number, is_new)

    def end_with(self, number: int) -> None:
        """Makes the next loop begin after a pass."""
        self._first = (number + 1) * self._source.batches

    def note_begin(self, worker: int) -> None:
        """Notes that a new worker process begins at the batch of ``set_epoch``.

        Raises:
          ValueError: an earlier process has begun there.
        """
        if self._begun[worker] >= self._starts and self._source.is_shuffled:
            raise ValueError(
                "DataLoader: found a second loop with new worker processes, which would have the "
                "epoch of the first. Call set_epoch(epoch) of the dataset before each loop, or "
                "give DataLoader persistent_workers=True."
            )
        self._begun[worker] = self._starts


class _Loop(Iterator[Batch]):
    """A worker's batches of one loop, with a state for ``StatefulDataLoader``."""

    def __init__(self, owner: TorchBatches, portion: Portion, worker: int, is_new: bool) -> None:
        self._owner, self._portion = owner, portion
        self._worker, self._is_new = worker, is_new
        owner.end_with(portion.number)

    def __next__(self) -> Batch:
        if self._is_new:
            self._owner.note_begin(self._worker)
            self._is_new = False
        return next(self._portion)

    def state_dict(self) -> dict[str, int | str]:
        """Returns the place behind the last batch."""
        return self._portion.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Goes on behind the last batch of the state's loop."""
        self._portion.load_state_dict(state)
        self._owner.end_with(self._portion.number)
        self._is_new = False
