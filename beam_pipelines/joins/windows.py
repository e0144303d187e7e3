"""Features of windows of rows: counts, sums, extremes, first and last values.

A window is a range of the rows of one key, in the order of time. Sums and extremes of any window
take time with the logarithm of its rows: the rows of a key are summed in blocks of 2, 4, 8 … from
the key's first row on, and a window is made of few blocks. So the value of a window depends on the
rows of its key alone, to the last bit, whatever else is in the index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.hashing import canonical_bits
from beam_pipelines.core.arrow.key_index import Rows
from beam_pipelines.core.errors import DataError, Problem, nearest_column
from beam_pipelines.joins.timed import first_not_before
from beam_pipelines.recipe.joins import Join, WindowFeature

Values = npt.NDArray[Any]
_MOST = int(np.iinfo(np.int64).max)
_NO_NULLS = np.iinfo(np.int32).max  # is before no row


def feature_type(feature: WindowFeature, column: pa.DataType | None) -> pa.DataType | str:
    """Returns a feature's type, or what is wrong with its column.

    Args:
      feature: of the recipe.
      column: ``None`` of ``count()``.
    """
    kind, expected, type_ = feature.kind, "", pa.int64()
    if column is None or kind == "count":
        return type_
    is_number = pa.types.is_integer(column) or pa.types.is_floating(column)
    if kind in ("first", "last"):
        is_wrong = feature.most is not None and columns.is_list(column)
        expected, type_ = "one value in a row", pa.list_(column) if feature.most else column
    elif kind == "count_distinct":
        is_wrong, expected = columns.is_list(column), "one value in a row"
    elif kind in ("min", "max"):
        is_wrong, type_ = not (is_number or pa.types.is_temporal(column)), column
        expected = "a number, a date or a time"
    else:
        is_wrong, expected = not (is_number or pa.types.is_boolean(column)), "a number"
        type_ = pa.float64() if kind != "sum" or pa.types.is_floating(column) else type_
    return f"is {columns.type_name(column)}, expected {expected}" if is_wrong else type_


def feature_problems(
    path: tuple[str | int, ...], join: Join, right: pa.Schema
) -> Iterator[tuple[Problem | None, pa.Field | None]]:
    """Yields a problem or the field of each feature of a join."""
    for (name, feature), key in zip(join.parsed.items(), join.features, strict=True):
        if feature.column and feature.column not in right.names:
            hint = nearest_column(feature.column, right.names)
            message = f"found '{feature.column}', expected a column of '{join.source}'.{hint}"
            yield Problem((*path, key), message), None
            continue
        type_ = feature_type(feature, right.field(feature.column).type if feature.column else None)
        if isinstance(type_, str):
            yield Problem((*path, key), f"column '{feature.column}' {type_}."), None
        else:
            yield None, pa.field(name, type_)


class Ranges(NamedTuple):
    """Windows of m rows, in an index of n rows.

    Attributes:
      keys: int64[m], the number of each window's key; any of an empty window.
      lows, highs: int64[m], begin and end.
    """

    keys: Rows
    lows: Rows
    highs: Rows


@dataclasses.dataclass(frozen=True)
class WindowIndex:
    """The rows that windows are made of, in an index' order.

    Attributes:
      starts: int64[k + 1], the first row of each key.
      rows: the columns that features need.
      made: what features share, by their names; filled when it is needed.
    """

    starts: Rows
    rows: pa.RecordBatch
    made: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def shared(self, name: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Returns a value that is made once."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    @property
    def sizes(self) -> Rows:
        """int64[k]: the rows of each key."""
        return np.diff(self.starts)


def make_features(
    index: WindowIndex, seen: Ranges, at: Rows, times: Rows, join: Join
) -> Iterator[pa.Array]:
    """Yields the features of windows, each of m values.

    Args:
      index: of the source.
      seen: the rows in reach of each left row.
      at: int64[m], the left rows' times in microseconds.
      times: int64[n], those of the index.
      join: of the recipe.
    """
    narrowed: dict[int | None, Ranges] = {join.reach: seen}
    for feature in join.parsed.values():
        if feature.over is not None and feature.over not in narrowed:
            begin = np.maximum(at, feature.over - _MOST) - feature.over
            lows = first_not_before(times, seen.lows, seen.highs, begin)
            narrowed[feature.over] = seen._replace(lows=lows)
        yield _feature(index, narrowed[feature.over], feature)


def _feature(index: WindowIndex, ranges: Ranges, feature: WindowFeature) -> pa.Array:
    kind, lows, highs = feature.kind, ranges.lows, ranges.highs
    if not feature.column:
        return pa.array(highs - lows)
    column = index.rows.column(feature.column)
    if feature.most:
        return _last_values(column, lows, highs, feature.most)
    if kind in ("first", "last"):
        rows = lows if kind == "first" else highs - 1
        return column.take(pa.array(rows, mask=lows >= highs))
    if kind == "count_distinct":
        return pa.array(_count_distinct(index, ranges, feature.column))
    valid = _valid(column)
    ends = index.shared((feature.column, "count"), lambda: _ends(valid))
    count = ends[highs] - ends[lows]
    if kind == "count":
        return pa.array(count)
    return _aggregate(index, ranges, feature, count, valid)


def _aggregate(
    index: WindowIndex, ranges: Ranges, feature: WindowFeature, count: Rows, valid: Values
) -> pa.Array:
    """Returns the sums, means, deviations or extremes of windows."""
    kind, column = feature.kind, index.rows.column(feature.column)
    type_ = column.type
    nothing = count == 0
    if kind in ("min", "max"):
        found = fold(index, ranges, feature.column, kind, _extreme(kind, column, valid))
        return pa.array(found, _plain_type(type_), mask=nothing).cast(type_)
    numbers = _numbers(column)
    if kind != "std" and not pa.types.is_floating(type_):
        rows = int(index.sizes.max(initial=0))
        sums = index.shared((feature.column, "sum"), lambda: _whole_ends(numbers, valid, rows))
        total = sums[ranges.highs] - sums[ranges.lows]
    elif kind != "std":
        total = fold(
            index, ranges, feature.column, "sum", (np.where(valid, numbers, 0.0), np.add, 0.0)
        )
    else:
        leaves = np.stack([valid, np.where(valid, numbers, 0.0), np.zeros(len(valid))], axis=-1)
        moments = fold(index, ranges, feature.column, "std", (leaves, _merge_moments, 0.0))
        with np.errstate(invalid="ignore"):
            deviations = np.sqrt(moments[:, 2] / np.maximum(count - 1, 1))
        return pa.array(deviations, mask=count < 2)
    if kind == "mean":
        total = total / np.maximum(count, 1)
    return pa.array(total, mask=nothing)


def _numbers(column: pa.Array) -> Values:
    """Returns float64 of floats, int64 of the rest; null slots are undefined."""
    if pa.types.is_floating(column.type):
        floats: Values = column.fill_null(0).cast(pa.float64()).to_numpy()
        return floats
    return canonical_bits(column)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type of the numbers that ``type_`` is made of."""
    if not pa.types.is_temporal(type_):
        return type_
    return pa.int32() if type_.bit_width == 32 else pa.int64()


def _extreme(kind: str, column: pa.Array, valid: Values) -> tuple[Values, Any, Any]:
    """Returns values, function and start of a minimum or maximum.

    NaN is the largest number, as in DuckDB.
    """
    is_min = kind == "min"
    if pa.types.is_floating(column.type):
        start: Any = np.nan if is_min else -np.inf
        numbers = column.fill_null(0).to_numpy()
        function: Any = np.fmin if is_min else np.maximum
    else:
        start = _MOST if is_min else -_MOST - 1
        numbers, function = canonical_bits(column), np.minimum if is_min else np.maximum
        if column.type.bit_width == 32:
            start = np.clip(start, -(2**31), 2**31 - 1)
    return np.where(valid, numbers, numbers.dtype.type(start)), function, start


def _merge_moments(left: Values, right: Values) -> Values:
    """Merges counts, means and sums of squared differences, on the last axis."""
    (a, b), (m, n) = (left[..., 0], right[..., 0]), (left[..., 1], right[..., 1])
    count = a + b
    share = b / np.maximum(count, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        step = n - m
        mean = np.where(a == 0, n, np.where(b == 0, m, m + step * share))
        squares = left[..., 2] + right[..., 2] + np.where(a * b == 0, 0.0, step * step * a * share)
    return np.stack([count, mean, squares], axis=-1)


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _ends(values: Values) -> Rows:
    """Returns int64[n + 1]: sums of the values before each place."""
    return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])


def _whole_ends(numbers: Rows, valid: Values, rows: int) -> Rows:
    """Returns the sums of whole numbers before each place.

    Raises:
      DataError: a sum may not fit in an int64.
    """
    numbers = np.where(valid, numbers, 0)
    largest = max(abs(int(numbers.min(initial=0))), int(numbers.max(initial=0)))
    if largest * rows > _MOST:
        raise DataError(
            f"found whole numbers up to {largest:,} in a window's 'sum' or 'mean', whose sum may "
            "not fit in an int64, expected smaller ones. Make them DOUBLE with 'derive' of the "
            "source."
        )
    return _ends(numbers)


def _last_values(column: pa.Array, lows: Rows, highs: Rows, most: int) -> pa.Array:
    """Returns the last values of each window as a list, oldest first."""
    lows = np.maximum(lows, highs - most)
    ends = np.cumsum(highs - lows)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(highs - ends, highs - lows)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, column.take(pa.array(rows)))


def _levels(sizes: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yields the blocks of 2, 4, 8 … rows of each key.

    Yields:
      int64[k], the first block of each key; and, for each block, its left half in the level before.
    """
    firsts = np.cumsum(sizes) - sizes
    while sizes.max(initial=0) > 1:
        sizes = sizes >> 1
        starts = np.cumsum(sizes) - sizes
        yield starts, 2 * np.arange(sizes.sum()) + np.repeat(firsts - 2 * starts, sizes)
        firsts = starts


def _blocks(
    index: WindowIndex, offsets: list[Rows], ranges: Ranges
) -> Iterator[tuple[int, Rows, Rows]]:
    """Yields level, windows and a block of each."""
    windows = np.flatnonzero(ranges.lows < ranges.highs)
    keys = ranges.keys[windows]
    lows, highs = (each[windows] - index.starts[keys] for each in ranges[1:])
    for level, firsts in enumerate(offsets):
        base = firsts[keys]
        for is_odd, blocks in (((lows & 1), base + lows), ((highs & 1), base + highs - 1)):
            taken = np.flatnonzero(is_odd)
            if len(taken):
                yield level, windows[taken], blocks[taken]
        lows, highs = (lows + 1) >> 1, highs >> 1
        rest = np.flatnonzero(lows < highs)
        windows, keys, lows, highs = windows[rest], keys[rest], lows[rest], highs[rest]
        if not len(rest):
            return


def fold(
    index: WindowIndex,
    ranges: Ranges,
    column: str,
    kind: str,
    by: tuple[Values, Callable[[Values, Values], Values], Any],
) -> Values:
    """Returns [m, …]: the values of each window, folded by a function.

    Args:
      index: of the source.
      ranges: the windows.
      column, kind: name what the index keeps.
      by: values of the rows, [n, …]; the function, which is associative; and the value of no rows.
    """
    leaves, function, start = by

    def make() -> tuple[list[Rows], list[Values]]:
        offsets, levels = [index.starts[:-1]], [leaves]
        for firsts, lefts in _levels(index.sizes):
            offsets.append(firsts)
            levels.append(function(levels[-1][lefts], levels[-1][lefts + 1]))
        return offsets, levels

    with np.errstate(invalid="ignore", over="ignore"):
        offsets, levels = index.shared((column, kind), make)
        found = np.full((len(ranges.lows), *leaves.shape[1:]), start, leaves.dtype)
        for level, windows, blocks in _blocks(index, offsets, ranges):
            found[windows] = function(found[windows], levels[level][blocks])
    return found


def _count_distinct(index: WindowIndex, ranges: Ranges, column: str) -> Rows:
    """Returns the number of different values of each window, without nulls.

    A value counts in a window if the row before with the same value is not in it. Each block has
    the places of these rows sorted, so that a search counts those that are before the window.
    """

    def make() -> tuple[list[Rows], list[Values]]:
        values = _last_places(index, index.rows.column(column))
        offsets, levels = [index.starts[:-1]], [values[:, np.newaxis]]
        for firsts, lefts in _levels(index.sizes):
            offsets.append(firsts)
            both = np.concatenate([levels[-1][lefts], levels[-1][lefts + 1]], axis=1)
            levels.append(np.sort(both, axis=1))
        return offsets, [level.reshape(-1) for level in levels]

    offsets, levels = index.shared((column, "distinct"), make)
    found = np.zeros(len(ranges.lows), np.int64)
    places = ranges.lows - index.starts[ranges.keys]
    for level, windows, blocks in _blocks(index, offsets, ranges):
        begin = blocks << level
        end = first_not_before(levels[level], begin, begin + (1 << level), places[windows])
        found[windows] += end - begin
    return found


def _last_places(index: WindowIndex, column: pa.Array) -> Values:
    """Returns int32[n]: where in its key the value was last.

    It is -1 of the first one, and after all rows of nulls.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        column = pa.array(canonical_bits(column), mask=~_valid(column))
    codes = column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    numbers = np.repeat(np.arange(len(index.sizes)), index.sizes)
    order = np.lexsort([codes, numbers])
    is_same = (np.diff(codes[order]) == 0) & (np.diff(numbers[order]) == 0)
    last = np.full(len(codes), -1, np.int64)
    last[order[1:][is_same]] = (order - index.starts[numbers[order]])[:-1][is_same]
    return np.where(codes < 0, _NO_NULLS, last).astype(np.int32)


def columns_of(features: Mapping[str, WindowFeature]) -> list[str]:
    """Returns the columns that features need, each once."""
    return list(dict.fromkeys(each.column for each in features.values() if each.column))
