"""Readers and base classes of adapters.

Readers are made where they are needed: a process that a framework starts gets a copy without
threads and open files.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, ClassVar

import pyarrow as pa

from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.frameworks import Batch, find_rank, mapped
from beam_pipelines.reader.reader import Reader

# Module -> name to install, and the version that the tests pass with.
_TESTED = {
    "datasets": ("datasets", "5.2"),
    "grain": ("grain", "0.2.18"),
    "keras": ("keras", "3.15"),
    "ray": ("ray[data]", "2.60"),
    "torch": ("torch", "2.15"),
}


def import_package(module: str) -> ModuleType:
    """Imports a module of a package that this one does not require.

    Raises:
      ImportError: it is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package, version = _TESTED[module.split(".", maxsplit=1)[0]]
        raise ImportError(
            f"beam_pipelines.adapters: found no package '{package}' that can be imported "
            f"({error}). Install {package}; {version} is tested."
        ) from error


class ReaderSource:
    """Makes readers of a split, all with the same arguments.

    Attributes:
      dataset: to read.
      batches: in a pass of a rank.
      epochs: in a pass.
      is_shuffled: whether epochs have different orders.
      rows: of the split.
      row_bytes: of a row's record, uncompressed, on average.
    """

    def __init__(
        self, dataset: Dataset | Folders, split: str | None, options: dict[str, Any]
    ) -> None:
        """Checks the arguments.

        Args:
          dataset: an open dataset, or what ``bp.open`` takes.
          split: default: the first.
          options: other arguments of ``Dataset.batches``. The rank is found here, as the processes
            of a data loader know no ranks.

        Raises:
          DataError, ValueError: as ``Dataset.batches``.
        """
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        if options.get("as_") == "tf":
            raise ValueError("as_: found 'tf', expected arrays or records. Leave it out.")
        rank, world_size = find_rank(options.get("rank"), options.get("world_size"))
        self._options = {**options, "split": split, "rank": rank, "world_size": world_size}
        with self.reader() as reader:
            self.batches, self.epochs = len(reader), reader.options.epochs
            (stream,) = reader.streams
        self.is_shuffled = bool(options.get("shuffle", True))
        self.rows, self.row_bytes = stream.split.rows, stream.split.row_bytes

    def reader(self, first: int = 0) -> Reader:
        """Returns a new reader.

        Args:
          first: the batch to begin with, counted from the first one of epoch 0.
        """
        reader: Reader = self.dataset.batches(**self._options)
        if first:
            reader.seek(first)
        return reader

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"{self.dataset.shown}, {shown}"


class Portion(Iterator[Batch]):
    """A worker's batches of one pass, as an iterator with a state."""

    def __init__(self, source: ReaderSource, first: int, worker: int = 0, workers: int = 1) -> None:
        """Begins a pass.

        Args:
          source: makes the reader.
          first: the batch to begin with, counted from the first one of epoch 0.
          worker, workers: worker w of n has the batches w, w + n, … of the pass.
        """
        self._source, self._workers = source, workers
        self._is_in_worker = multiprocessing.parent_process() is not None
        self.number = first // source.batches
        self._reader = source.reader(first)
        self._reader.select(worker, None, workers)
        self._is_over = False

    def __next__(self) -> Batch:
        if self._is_over:
            raise StopIteration
        try:
            batch = next(self._reader)
        except StopIteration:
            self.close()
            raise
        if not self._is_in_worker:
            return batch
        return {name: mapped(_alone, value) for name, value in batch.items()}

    def close(self) -> None:
        """Ends the threads, and the iteration."""
        self._is_over = True
        self._reader.close()

    def state_dict(self) -> dict[str, int | str]:
        """Returns the place behind the last batch."""
        state = self._reader.state_dict()
        own = {"pass": self.number, "skip": self._reader.skipped, "workers": self._workers}
        return {**state, **own}

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Goes on behind the last batch of the state's iterator.

        Raises:
          ValueError: the state is of something else, or of another number of workers.
        """
        rest = dict(state)
        number, skip, workers = (rest.pop(name, None) for name in ("pass", "skip", "workers"))
        if workers != self._workers or not isinstance(number, int) or not isinstance(skip, int):
            raise ValueError(
                f"state: found {dict(state)}, expected that of an iterator of this kind with "
                f"{self._workers} workers. With another number of workers, begin at a batch."
            )
        self._reader.close()
        self._reader = self._source.reader()
        self._reader.load_state_dict(rest)
        self._reader.select(skip, None, self._workers)
        self.number = number
        self._is_over = int(state["epoch"]) >= (number + 1) * self._source.epochs


class RankSource:
    """Base of classes that give the batches of a rank."""

    _defaults: ClassVar[Mapping[str, Any]] = {}  # arguments of ``Dataset.batches``

    def __init__(
        self,
        dataset: Dataset | Folders,
        split: str | None = None,
        batch_size: int = 512,
        **options: Any,
    ) -> None:
        """Checks the arguments.

        Args:
          dataset: an open dataset, or what ``bp.open`` takes.
          split: default: the first.
          batch_size: rows of a rank's batch.
          options: other arguments of ``Dataset.batches``.

        Raises:
          DataError, ValueError: as ``Dataset.batches``.
        """
        super().__init__()
        options = {**self._defaults, **options, "batch_size": batch_size}
        self._source = ReaderSource(dataset, split, options)

    def __len__(self) -> int:
        """Returns the number of a rank's batches in a pass."""
        return self._source.batches


def _alone(array: Any) -> Any:
    """Returns an array without Arrow's rows around it, to be sent."""
    return pa.concat_arrays([array, array[:0]]) if isinstance(array, pa.Array) else array
