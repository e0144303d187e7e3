"""Functions that the examples share, without TensorFlow, PyTorch and JAX.

They find the inputs of a model, measure how long a training waits, and score.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import pathlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from tensorflow_metadata.proto.v0 import schema_pb2

import beam_pipelines as bp


class Inputs(NamedTuple):
    """The features of a dataset that a model takes.

    Attributes:
      ids: a feature with ids -> the number of ids and of its values in a row.
      numbers: a feature with float numbers -> the number of its values in a row.
      label: of the dataset, 0 or 1.
      integers: those of them that are int64.
    """

    ids: dict[str, tuple[int, int]]
    numbers: dict[str, int]
    label: str
    integers: list[str]

    @property
    def columns(self) -> list[str]:
        """The names of all features."""
        return [*self.ids, *self.numbers, self.label]

    @property
    def width(self) -> int:
        """The number of values of a row, with all ids embedded."""
        embedded = sum(embedding_size(size) * values for size, values in self.ids.values())
        return embedded + sum(self.numbers.values())


def training_parser(description: str, output: str) -> argparse.ArgumentParser:
    """Returns a parser of the arguments that trainings share.

    Args:
      description: of the program.
      output: the default folder of model and checkpoints.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="out/flights-encoded", help="the dataset")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(output))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument(
        "--batch_size", type=int, default=1024, help="rows of a batch of all processes together"
    )
    parser.add_argument("--save_every", type=int, default=100, help="steps between checkpoints")
    return parser


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Ends the program with one line at a bad dataset.

    The exit status is 1.
    """
    try:
        yield
    except (bp.DataError, OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None


def find_inputs(dataset: bp.Dataset) -> Inputs:
    """Returns the features that encodings have made.

    They are floats, and ids with a domain.

    Raises:
      ValueError: the dataset has no label in every row, or no such feature.
    """
    ids, numbers, is_complete = {}, {}, False
    for feature in dataset.schema.feature:
        if not feature.HasField("shape") or feature.presence.min_fraction < 1:
            continue
        values = math.prod(dim.size for dim in feature.shape.dim)
        if feature.name == dataset.label:
            is_complete = feature.type != schema_pb2.BYTES
        elif feature.type == schema_pb2.FLOAT:
            numbers[feature.name] = values
        elif feature.int_domain.is_categorical:
            ids[feature.name] = feature.int_domain.max + 1, values
    if dataset.label is None or not is_complete:
        raise ValueError(
            f"{dataset.folder}: found no label with a number in every row, expected one to train "
            "on. Name a column as 'label' in the recipe, and convert again."
        )
    if not ids and not numbers:
        raise ValueError(
            f"{dataset.folder}: found no feature that the model can take, expected ids with a "
            "domain or float numbers, without nulls. Encode columns in the recipe, and convert "
            "again."
        )
    integers = {
        feature.name for feature in dataset.schema.feature if feature.type == schema_pb2.INT
    }
    return Inputs(
        ids, numbers, dataset.label, [name for name in (*ids, dataset.label) if name in integers]
    )


def embedding_size(ids: int) -> int:
    """Returns the length of an embedding of so many ids."""
    return min(16, round(2 * ids**0.25))


class Waiting(Iterator[Any]):
    """Iterates over batches, and measures how long a training waits.

    Attributes:
      seconds: spent in ``next``.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = iter(batches)
        self.seconds = 0.0
        self._start = time.perf_counter()

    def __next__(self) -> Any:
        start = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            self.seconds += time.perf_counter() - start

    def __str__(self) -> str:
        whole = time.perf_counter() - self._start
        return f"waited for batches: {self.seconds / whole:.1%} of {whole:.1f} s"


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the AUC.

    It is the share of pairs of rows, one with label 1 and one with 0, whose first has the higher
    score.
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # equal scores share a rank
    ones = int((labels > 0).sum())
    zeros = len(labels) - ones
    if not ones or not zeros:
        return math.nan
    return float((ranks[labels > 0].sum() - ones * (ones + 1) / 2) / (ones * zeros))
