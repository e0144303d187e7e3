"""A dataset for ``fit`` of Keras, with any backend."""

from __future__ import annotations

import warnings
from typing import Any

from beam_pipelines.adapters.source import RankSource, import_package
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.frameworks import Batch
from beam_pipelines.reader.reader import Reader

keras = import_package("keras")


class KerasBatches(RankSource, keras.utils.PyDataset):  # type: ignore[name-defined]
    """Pairs of features and label for ``fit(…, shuffle=False)``.

    The batches have a random order already.

    Attributes:
      epoch: Keras' epoch to read, from 0. The first batch behind the last one is the next epoch's.
        Set it to ``initial_epoch`` to continue a training.
    """

    def __init__(
        self,
        dataset: Dataset | Folders,
        split: str | None = None,
        batch_size: int = 512,
        steps_per_epoch: int | None = None,
        **options: Any,
    ) -> None:
        """Checks the arguments.

        Args:
          dataset: an open dataset, or what ``bp.open`` takes.
          split: default: the first.
          batch_size: rows of a rank's batch.
          steps_per_epoch: batches of an epoch of Keras, which stores a training between epochs;
            default: those of an epoch of the dataset.
          options: other arguments of ``Dataset.batches``; ``epochs`` is one of ``fit``.

        Raises:
          DataError, ValueError: as ``Dataset.batches``.
        """
        if options.get("epochs", 1) != 1:
            raise ValueError("epochs: found it among the arguments of a dataset. Give it to fit().")
        if steps_per_epoch is not None and steps_per_epoch < 2:  # fit() reads the first one twice
            raise ValueError(f"steps_per_epoch: found {steps_per_epoch}, expected 2 or more.")
        super().__init__(dataset, split, batch_size, **options)
        self._steps = steps_per_epoch or self._source.batches
        self._label = self._source.dataset.label
        self.epoch = 0
        self._reader: Reader | None = None
        self._next = 0  # counted from the first batch of epoch 0
        self._lock = Lock()

    def __len__(self) -> int:
        """Returns the number of a rank's batches in an epoch of Keras."""
        return self._steps

    def __getitem__(self, index: int) -> tuple[Batch, Any] | Batch:
        """Returns a batch of the epoch.

        It is features and label, or a dictionary if the dataset has no label. Batches are read
        ahead: any but the next one takes the time of a new start.

        Raises:
          IndexError: the epoch has no such batch.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"batch: found {index}, expected 0 to {len(self) - 1}")
        with self._lock:
            if index == 0 and self._next == (self.epoch + 1) * len(self):
                self.epoch += 1
            batch = self._read(self.epoch * len(self) + index)
        if self._label is None or self._label not in batch:
            return batch
        label = batch.pop(self._label)
        return batch, label

    def _read(self, batch: int) -> Batch:
        if self._reader is None:
            self._reader = self._source.reader(batch)
        elif batch != self._next:
            if batch % len(self):
                warnings.warn(
                    f"found batch {batch % len(self)} after {self._next % len(self) - 1}, expected "
                    "batches in order, which takes a fraction of the time: give fit() "
                    "shuffle=False.",
                    stacklevel=4,
                )
            self._reader.seek(batch)
        self._next = batch + 1
        try:
            return next(self._reader)
        except StopIteration:  # the end of the epoch before; the reader is at the next one
            return next(self._reader)
