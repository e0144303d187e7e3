"""TensorFlow Datasets: the guide's ``GeneratorBasedBuilder``, with ``csv.DictReader``.

Missing values are TFDS's ``optional`` features. It shuffles by a hash of each example's key and
writes TFRecords without compression.
"""

from __future__ import annotations

import csv
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import options
import pyarrow.parquet as pq
import tensorflow_datasets as tfds


class Clicks(tfds.core.GeneratorBasedBuilder):
    """The table."""

    VERSION = tfds.core.Version("1.0.0")
    # TFDS makes a builder again from its class and folder, so the class holds the table's path.
    TABLE = pathlib.Path()

    def _info(self) -> tfds.core.DatasetInfo:
        features = {options.LABEL: tfds.features.Scalar(np.int64)}
        features |= {
            name: tfds.features.Scalar(np.int64, optional=True) for name in options.INTEGERS
        }
        features |= {
            name: tfds.features.Scalar(np.object_, optional=True) for name in options.TEXTS
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:  # noqa: ARG002
        return {"train": self._generate_examples(self.TABLE)}

    def _generate_examples(self, path: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(rows_of(path))


def rows_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields each row as a dictionary, with None for a missing value."""
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
        return
    numbers = set(options.NUMBERS)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield {
                name: (int(text) if name in numbers else text) if text else None
                for name, text in row.items()
            }


def main() -> None:
    """Builds."""
    arguments = options.parse(__doc__)
    start = time.perf_counter()
    Clicks.TABLE = arguments.input
    Clicks(data_dir=str(arguments.output)).download_and_prepare()
    options.report(time.perf_counter() - start)


if __name__ == "__main__":
    main()
