"""Datasets of Hugging Face's package ``datasets``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.adapters.source import ReaderSource, import_package
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.reader import Reader

datasets = import_package("datasets")
iterable_dataset = import_package("datasets.iterable_dataset")

# An IterableDataset has a description of each shard in memory.
_MOST_SHARDS = 4096


def iterable(
    dataset: Dataset | Folders,
    split: str | None = None,
    batch_size: int = 512,
    **options: Any,
) -> Any:
    """Returns the rows of a pass as a ``datasets.IterableDataset`` with features.

    It has Arrow tables of ``batch_size`` rows: ``with_format("torch").iter(batch_size)`` copies
    least. Its ``state_dict`` resumes it; the workers of a ``DataLoader`` divide it.

    Args:
      dataset: an open dataset, or what ``bp.open`` takes.
      split: default: the first.
      batch_size: rows of a table.
      options: other arguments of ``Dataset.batches`` without ``as_``.

    Raises:
      DataError, ValueError: as ``Dataset.batches``.
    """
    source = ReaderSource(dataset, split, {**options, "as_": "arrow", "batch_size": batch_size})
    # Shards are runs of batches. A resumed one is read from its beginning.
    size = -(-source.batches // _MOST_SHARDS)
    runs = [(at, min(source.batches, at + size)) for at in range(0, source.batches, size)]
    examples = iterable_dataset.ArrowExamplesIterable(_Tables(source), {"runs": runs})
    info = datasets.DatasetInfo(features=features_of(source))
    return datasets.IterableDataset(examples, info=info)


def features_of(source: ReaderSource) -> Any:
    """Returns the ``datasets.Features`` of a source of Arrow arrays."""
    with source.reader() as reader:
        return datasets.Features.from_arrow_schema(pa.table(reader.take([])).schema)


class _Tables:
    """Generates the tables of runs of batches.

    The reader of a run goes on with the run behind it, if that one comes next.
    """

    def __init__(self, source: ReaderSource) -> None:
        self._source = source
        self._left: tuple[Reader, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source, "_left": None}

    def __call__(self, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, pa.Table]]:
        for first, last in runs:
            reader = self._reader_at(first)
            for number in range(first, last):
                yield number, pa.table(next(reader))
            if last < self._source.batches:
                self._left = reader, last
            else:
                reader.close()

    def _reader_at(self, first: int) -> Reader:
        left, self._left = self._left, None
        if left is not None and left[1] == first:
            return left[0]
        if left is not None:
            left[0].close()
        return self._source.reader(first)
