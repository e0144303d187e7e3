"""Rules by which rows meet, their hashes, and deciders of their pairs.

A hash is two 64-bit hashes with seeds of their own (``core/arrow/hashing.py``). Two of a billion
rows with different values have one hash with a probability of 10^-21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.sources.plan import SourcePlan

_SEEDS = (0x657175616C30, 0x657175616C31)  # "equal0", "equal1"
# Bytes of a hash in a column.
_WIDTH = 16
HASH = "\0equal"

Pairs = npt.NDArray[np.int64]
# Gets the hashes of a partition in order of their rows, with the fields high, low, row and split.
# Returns int64[2, pairs]: an earlier row and the one it decides on, in order of the latter.
Decide = Callable[[npt.NDArray[Any]], Pairs]


class RowDrop(NamedTuple):
    """Which check leaves a row out, why, and its column if any."""

    check: str
    reason: str
    column: str


class Meeting(NamedTuple):
    """The inputs of a transform in which rows meet.

    Attributes:
      base: read again to find the positions of rows that are left out.
      partitions: of hashes of whole rows.
      exchange_of: returns the folder of an exchange that no other one has.
      split: the ``SplitPlan`` that assigns rows, if they meet with their splits.
    """

    base: SourcePlan
    partitions: int
    exchange_of: Callable[[str], str]
    split: Any = None


class Meet(NamedTuple):
    """Rows with equal values, which meet.

    Attributes:
      name: no other meet has it.
      columns: whose hash chunks carry.
      decide: on the rows of a partition.
      skips_null: whether a row with a null meets none; else a null is a value.
      has_splits: whether rows meet with their splits, after they are assigned.
      drop: leaves the rows out that are decided on; ``None``: they stay.
    """

    name: str
    columns: tuple[str, ...]
    decide: Decide
    skips_null: bool = False
    has_splits: bool = False
    drop: RowDrop | None = None


def repeats(sent: npt.NDArray[Any]) -> Pairs:
    """Decides on rows whose hash an earlier row has."""
    pairs: Pairs = _native.find_repeats(sent).T
    return pairs


def later_splits(sent: npt.NDArray[Any]) -> Pairs:
    """Decides on rows whose hash a row of an earlier split has."""
    several = np.unique(_native.find_repeats(sent))
    own = sent[several]
    # Of equal hashes the earliest split comes first, and in it the first row.
    order = several[np.lexsort((own["split"], own["low"], own["high"]))]
    ordered = sent[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (ordered["high"][1:] != ordered["high"][:-1]) | (
        ordered["low"][1:] != ordered["low"][:-1]
    )
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    leaked = np.flatnonzero(ordered["split"] > ordered["split"][firsts])
    pairs = np.stack([order[firsts[leaked]], order[leaked]])
    return pairs[:, np.argsort(pairs[1])]


def hash_name(meet: str) -> str:
    """Returns the column of a meet's hashes.

    No column of a source can have this name.
    """
    return f"{HASH} {meet}"


def meet_hashes(meets: Iterable[Meet], rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Yields the columns that chunks carry, with their names."""
    for meet in meets:
        arrays = [rows.column(name) for name in meet.columns]
        yield hash_name(meet.name), hash_values(arrays, meet.skips_null)


def hash_values(arrays: Sequence[pa.Array], skips_null: bool) -> pa.Array:
    """Returns the hash of each row's values, binary of 16 bytes.

    Numbers are equal as in SQL: NaN equals NaN, and -0.0 equals 0.0.

    Args:
      arrays: one or more, of n values of column types.
      skips_null: whether a row with a null has no hash, which is null; else a null is a value.
    """
    pairs = np.empty((len(arrays[0]), 2), "<u8")
    for number, seed in enumerate(_SEEDS):
        pairs[:, number] = _native.hash_rows(arrays, seed)
    validity = None
    if skips_null and any(array.null_count for array in arrays):
        is_valid = np.logical_and.reduce(
            [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
        )
        validity = pa.array(is_valid).buffers()[1]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_WIDTH), len(pairs), [validity, pa.py_buffer(pairs)]
    )
