"""Data sources and datasets of Grain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_pipelines.adapters.source import Portion, RankSource, import_package
from beam_pipelines.reader.frameworks import Batch

grain = import_package("grain")


class GrainBatches(RankSource, grain.IterDataset):  # type: ignore[name-defined]
    """Batches of one pass, as an ``IterDataset`` whose iterator has a state.

    In ``mp_prefetch``, worker w of n gives the batches w, w + n, …: the order does not depend on n.
    """

    _worker, _workers = 0, 1

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Takes a worker's share; ``mp_prefetch`` calls it.

        Raises:
          ValueError: the share is no stride.
        """
        if sequential_slice:
            raise ValueError("mp_prefetch: found sequential_slice=True, expected False.")
        self._worker, self._workers = sl.start or 0, sl.step or 1

    def __iter__(self) -> GrainIterator:
        return GrainIterator(Portion(self._source, 0, self._worker, self._workers))


class GrainIterator(grain.DatasetIterator):  # type: ignore[name-defined]
    """The iterator of ``GrainBatches``."""

    def __init__(self, portion: Portion) -> None:
        super().__init__()
        self._portion = portion

    def __next__(self) -> Batch:
        return next(self._portion)

    def get_state(self) -> dict[str, Any]:
        """Returns the place behind the last batch."""
        return dict(self._portion.state_dict())

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on behind the last batch of the state's iterator."""
        self._portion.load_state_dict(state)

    def close(self) -> None:
        """Ends the threads."""
        self._portion.close()
