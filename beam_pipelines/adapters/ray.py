"""A datasource of Ray Data."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines.adapters.source import ReaderSource, import_package
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders

data = import_package("ray.data")
block = import_package("ray.data.block")


class RayDatasource(data.Datasource):  # type: ignore[name-defined]
    """Rows for ``ray.data.read_datasource``.

    Each read task has neighbouring batches of one pass. Ray Data keeps their order if its
    ``DataContext`` says ``preserve_order``.
    """

    def __init__(
        self,
        dataset: Dataset | Folders,
        split: str | None = None,
        batch_size: int = 4096,
        **options: Any,
    ) -> None:
        """Checks the arguments.

        Args:
          dataset: an open dataset, or what ``bp.open`` takes.
          split: default: the first.
          batch_size: rows of a block.
          options: other arguments of ``Dataset.batches`` without ``as_``. Ray divides rows among
            its own workers, so ``world_size`` is 1 by default.

        Raises:
          DataError, ValueError: as ``Dataset.batches``.
        """
        super().__init__()
        more = {"rank": 0, "world_size": 1, **options, "as_": "arrow", "batch_size": batch_size}
        self._source, self._batch_size = ReaderSource(dataset, split, more), batch_size

    def get_name(self) -> str:
        """Returns the name of read tasks."""
        return "BeamPipelines"

    def estimate_inmemory_data_size(self) -> int:
        """Returns the bytes of the records in a pass, uncompressed."""
        return self._source.row_bytes * self._source.rows * self._source.epochs

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002 - Ray gives it
    ) -> list[Any]:
        """Divides the batches of a pass among at most ``parallelism`` tasks."""
        batches = self._source.batches
        count = max(1, min(parallelism, batches))
        edges = [batches * number // count for number in range(count + 1)]
        tasks = []
        for first, last in itertools.pairwise(edges):
            rows = (last - first) * self._batch_size
            about = block.BlockMetadata(rows, rows * self._source.row_bytes, None, None)
            read = functools.partial(_read, self._source, first, last)
            tasks.append(data.ReadTask(read, about, per_task_row_limit=per_task_row_limit))
        return tasks


def _read(source: ReaderSource, first: int, last: int) -> Iterator[pa.Table]:
    """Yields batches as tables."""
    with source.reader(first) as reader:
        reader.select(0, last - first)
        for batch in reader:
            yield pa.table(batch)
