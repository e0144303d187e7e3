"""Classes of rows: combinations of the values of some columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.python_values import python_values
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten

# Their counts and names are one element, of at most 1 MiB.
MOST_CLASSES = 4096
_SEED = 0x636C617373  # "class"
_SHOWN_CHARACTERS = 60


@dataclasses.dataclass(frozen=True)
class Coded:
    """The classes of the rows of a batch.

    Attributes:
      codes: int64[rows], the number of each row's class in the batch.
      classes: uint64[classes], the hash of each class, the same in all batches.
      firsts: int64[classes], a row of each.
    """

    codes: npt.NDArray[np.int64]
    classes: npt.NDArray[np.uint64]
    firsts: npt.NDArray[np.int64]

    @property
    def of_rows(self) -> npt.NDArray[np.uint64]:
        """The class of each row, uint64[rows]."""
        return self.classes[self.codes]


def code_classes(batch: pa.RecordBatch, columns: tuple[str, ...], key: str) -> Coded:
    """Finds the classes of a batch.

    Args:
      batch: rows.
      columns: one or more; a null is a value.
      key: of the recipe, for messages.

    Raises:
      DataError: there are too many classes.
    """
    hashes = _native.hash_rows([batch.column(name) for name in columns], _SEED)
    coded = pa.array(hashes).dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    classes: npt.NDArray[np.uint64] = coded.dictionary.to_numpy()
    _check_number(len(classes), key)
    firsts = np.empty(len(classes), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return Coded(codes, classes, firsts)


def name_classes(batch: pa.RecordBatch, columns: tuple[str, ...], coded: Coded) -> dict[int, str]:
    """Returns class -> its values, as text."""
    rows = batch.select(list(columns)).take(pa.array(coded.firsts))
    values = zip(*(python_values(rows.column(name)) for name in columns), strict=True)
    shown = (", ".join(map(show_value, of_class)) for of_class in values)
    return dict(zip(coded.classes.tolist(), shown, strict=True))


def show_value(value: Any) -> str:
    """Returns a value of a class as a recipe writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return shorten(text, _SHOWN_CHARACTERS)


def merge_names(named: Iterable[Mapping[int, str]], key: str) -> dict[int, str]:
    """Returns the names of all classes.

    Raises:
      DataError: there are too many.
    """
    merged: dict[int, str] = {}
    for names in named:
        merged.update(names)
        _check_number(len(merged), key)
    return merged


def _check_number(classes: int, key: str) -> None:
    if classes > MOST_CLASSES:
        raise DataError(
            f"{key}: found more than {MOST_CLASSES:,} classes, expected at most as many. Name "
            "columns with fewer values, or make some with 'derive'."
        )
