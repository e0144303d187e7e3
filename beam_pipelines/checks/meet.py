"""Rules by which rows meet, and deciders of their pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.equal_hashes import find_repeats
from beam_pipelines.sql.expressions import Expression

Pairs = npt.NDArray[np.int64]
# Gets the hashes of a partition in order of their rows, with the fields high, low, row and split.
# Returns int64[2, pairs]: an earlier row and the one it decides on, in order of the latter.
Decide = Callable[[npt.NDArray[Any]], Pairs]


class Drop(NamedTuple):
    """Which check leaves a row out, why, and its column if any."""

    check: str
    reason: str
    column: str


class Meet(NamedTuple):
    """Rows with equal or similar values that meet.

    Attributes:
      name: no other meet has it.
      values: columns or expressions, whose hash chunks carry.
      decide: on the rows of a partition.
      skips_null: whether a row with a null meets none; else a null is a value.
      has_splits: whether rows meet with their splits, after they are assigned.
      similarity: the least of values of one column, texts or images; ``None``: they are equal. Then
        a row is decided on if one before it, or of an earlier split, is similar.
      drop: leaves the rows out that are decided on; ``None``: they stay.
    """

    name: str
    values: tuple[str | Expression, ...]
    decide: Decide
    skips_null: bool = False
    has_splits: bool = False
    drop: Drop | None = None
    similarity: float | None = None


def repeats(sent: npt.NDArray[Any]) -> Pairs:
    """Decides on rows whose hash an earlier row has."""
    pairs: Pairs = find_repeats(sent).T
    return pairs


def later_splits(sent: npt.NDArray[Any]) -> Pairs:
    """Decides on rows whose hash a row of an earlier split has."""
    several = np.unique(find_repeats(sent))
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
