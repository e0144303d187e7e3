"""Pairs rows of two tables by key, and compares their features.

The counts have the names and definitions of TFDV's feature skew detector.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.key_index import KeyIndex, find_keys, index_keys

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class MatchStats:
    """Numbers of rows and keys of a base and a test table.

    Attributes:
      base_with_id_count, test_with_id_count: rows with a key.
      identifiers_count: distinct keys of both.
      ids_missing_in_base_count, ids_missing_in_test_count: keys of the other side only.
      matching_pairs_count: pairs of a base and a test row with one key.
      base_missing_id_count, test_missing_id_count: rows without a key.
      duplicate_id_count: keys of several rows of a side; their rows are not compared.
    """

    base_with_id_count: int = 0
    test_with_id_count: int = 0
    identifiers_count: int = 0
    ids_missing_in_base_count: int = 0
    ids_missing_in_test_count: int = 0
    matching_pairs_count: int = 0
    base_missing_id_count: int = 0
    test_missing_id_count: int = 0
    duplicate_id_count: int = 0


@dataclasses.dataclass(frozen=True)
class FeatureSkew:
    """Counts of a feature in the pairs of rows that are compared.

    Attributes:
      base_count, test_count: rows with a value.
      match_count: pairs with equal values, or with no value in two features that are there.
      base_only, test_only: pairs with a value in one row only.
      mismatch_count: pairs with other values.
    """

    base_count: int = 0
    test_count: int = 0
    match_count: int = 0
    base_only: int = 0
    test_only: int = 0
    mismatch_count: int = 0

    @property
    def diff_count(self) -> int:
        """Pairs that differ."""
        return self.base_only + self.test_only + self.mismatch_count


class Pairs(NamedTuple):
    """The pairs of rows that are compared, and their numbers.

    Attributes:
      stats: of all rows.
      base, test: int64[n], the rows of each pair, in the order of the base rows.
    """

    stats: MatchStats
    base: Rows
    test: Rows


def added(parts: Iterable[MatchStats]) -> MatchStats:
    """Returns the sum of the counts."""
    return MatchStats(*map(sum, zip(*map(dataclasses.astuple, parts), strict=True)))


def added_skew(parts: Iterable[FeatureSkew]) -> FeatureSkew:
    """Returns the sum of a feature's counts."""
    return FeatureSkew(*map(sum, zip(*map(dataclasses.astuple, parts), strict=True)))


def pair_rows(base: Sequence[pa.Array], test: Sequence[pa.Array]) -> Pairs:
    """Pairs rows by their keys.

    Args:
      base, test: the key columns; a row with a null has no key.
    """
    left, right = index_keys(base), index_keys(test)
    of_left, of_right = np.diff(left.starts), np.diff(right.starts)
    # For each key of the right side the number of the left key, or less than 0.
    firsts = pa.array(right.rows[right.starts[:-1]])
    found = find_keys(left, [column.take(firsts) for column in test])
    both = np.flatnonzero(found >= 0)
    pairs = of_left[found[both]] * of_right[both]
    repeated = of_left > 1
    repeated_right = of_right > 1
    repeated_right[both] &= ~repeated[found[both]]  # counted on the left
    single = both[pairs == 1]
    base_rows, test_rows = _first_rows(left, found[single]), _first_rows(right, single)
    order = np.argsort(base_rows)
    stats = MatchStats(
        len(left.rows),
        len(right.rows),
        len(of_left) + len(of_right) - len(both),
        len(of_right) - len(both),
        len(of_left) - len(both),
        int(pairs.sum()),
        len(base[0]) - len(left.rows),
        len(test[0]) - len(right.rows),
        int(repeated.sum() + repeated_right.sum()),
    )
    return Pairs(stats, base_rows[order], test_rows[order])


def compare_column(base: pa.Array, test: pa.Array) -> tuple[FeatureSkew, Mask]:
    """Compares a feature of pairs of rows.

    Floats are equal if their bits are, as in TFDV: NaN equals itself, and 0 does not equal -0.

    Args:
      base, test: large lists of int64, float32 or binary values; null: the feature is missing.

    Returns:
      The counts, and bool[n]: whether the values of a pair differ.
    """
    left, right = _lengths(base), _lengths(test)
    in_base, in_test = left > 0, right > 0
    both = in_base & in_test
    equal = both & _equal_lists(base, test, left, right)
    are_there = base.is_valid().to_numpy(zero_copy_only=False) & test.is_valid().to_numpy(
        zero_copy_only=False
    )
    empty = are_there & ~in_base & ~in_test
    differs = (in_base | in_test) & ~equal
    skew = FeatureSkew(
        int(in_base.sum()),
        int(in_test.sum()),
        int((equal | empty).sum()),
        int((in_base & ~in_test).sum()),
        int((in_test & ~in_base).sum()),
        int((both & ~equal).sum()),
    )
    return skew, differs


def column_of(batch: pa.RecordBatch, name: str, rows: Rows) -> pa.Array:
    """Returns rows of a feature; nulls if the batch lacks it."""
    if name not in batch.schema.names:
        return pa.nulls(len(rows), pa.large_list(pa.int64()))
    return batch.column(name).take(pa.array(rows))


def has_several_values(column: pa.Array) -> bool:
    """Whether any row has more than one value."""
    return bool((_lengths(column) > 1).any())


def single_values(column: pa.Array) -> pa.Array:
    """Returns the value of each row; null without one.

    Args:
      column: large lists of at most one value.
    """
    lengths = _lengths(column)
    places = np.where(lengths > 0, np.cumsum(lengths) - lengths, -1)
    values = column.flatten()
    if pa.types.is_large_binary(values.type):
        values = values.cast(pa.binary())
    return values.take(pa.array(places, mask=places < 0))


def _first_rows(index: KeyIndex, keys: Rows) -> Rows:
    rows: Rows = index.rows[index.starts[keys]]
    return rows


def _lengths(column: pa.Array) -> Rows:
    lengths: Rows = pc.list_value_length(column).fill_null(0).to_numpy()
    return lengths


def _equal_lists(base: pa.Array, test: pa.Array, left: Rows, right: Rows) -> Mask:
    """Returns bool[n]: whether two lists have equal values."""
    equal: Mask = left == right
    if base.type != test.type:
        no_values: Mask = equal & (left == 0)
        return no_values
    rows = np.flatnonzero(equal & (left > 0))
    lengths, chosen = left[rows], pa.array(rows)
    same = _equal_values(base.take(chosen).flatten(), test.take(chosen).flatten())
    wrong = np.concatenate([[0], np.cumsum(~same)])
    ends = np.cumsum(lengths)
    equal[rows] = wrong[ends] == wrong[ends - lengths]
    return equal


def _equal_values(base: pa.Array, test: pa.Array) -> Mask:
    if pa.types.is_floating(base.type):
        base, test = (side.view(pa.int32()) for side in (base, test))
    same: Mask = pc.equal(base, test).to_numpy(zero_copy_only=False)
    return same
