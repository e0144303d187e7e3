"""Statistics of columns and tables of every column type."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics.blocks import Columns, columns_of, count_columns
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.storage import to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from tests.analysis.statistics.support import arrays, three_ways


@given(arrays(), st.integers(0, 1000))
def test_presence_and_valency(array: pa.Array, seed: int) -> None:
    """Presence and valency are those of the plain lists.

    They are rows, nulls, and the fewest, most and all values of a row.
    """
    rows = [row for row in array.to_pylist() if row is not None]
    lengths = [len(row) if isinstance(row, list) else 1 for row in rows]
    for found in three_ways(array, ColumnStatistics.of, ColumnStatistics.merged, seed):
        assert (found.present, found.missing) == (len(rows), len(array) - len(rows))
        assert (found.min_values, found.max_values) == (
            min(lengths, default=0),
            max(lengths, default=0),
        )
        assert found.num_values == sum(lengths)
        assert found.type == array.type


@given(st.data(), st.integers(1, 9), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_columns_counted_together_are_as_if_alone(data, rows: int, splits: list[int]) -> None:
    """Counted and merged together, columns have the bits of each alone.

    Columns of few distinct numbers of both types are among them, nulls, -0.0, NaN and infinities.
    """
    numbers = {
        pa.float64(): st.sampled_from([-0.0, 0.0, 1.5, -7e300, 5e-324, None]) | st.floats(),
        pa.int64(): st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.none(),
    }
    types = [data.draw(st.sampled_from(list(numbers))) for _ in range(6)]
    limits = ColumnLimits(numbers=6, points=4)
    parts = []
    for number in splits:
        nulls = rows * number - 1  # at most
        columns = {
            f"{place}": pa.array(
                [0, *data.draw(st.lists(numbers[type_], min_size=nulls, max_size=nulls))], type_
            )
            for place, type_ in enumerate(types)
        }
        alone = {n: ColumnStatistics.of(array, limits=limits) for n, array in columns.items()}
        together = count_columns(columns, limits)
        assert all(bits(one.column()) == bits(alone[name]) for name, one in together.items())
        parts.append((alone, Columns({**alone, **together}).blocks()))
    assert not any(others for _, (_, others) in parts)
    found = columns_of(parts[0][0], [blocks for _, (blocks, _) in parts], {}, limits)
    for name, column in pickle.loads(pickle.dumps(found)).items():  # noqa: S301
        own = [alone[name] for alone, _ in parts]
        merged = ColumnStatistics.merged(own, limits) if len(own) > 1 else own[0]
        assert bits(column) == bits(found[name]) == bits(merged)


def bits(column: ColumnStatistics) -> bytes:
    """Returns the file of a table of the column, which compares."""
    return to_bytes(TableStatistics(column.present, {"x": column}), StatisticsPlan())


@pytest.mark.parametrize(
    ("values", "kind", "minimum", "maximum"),
    [
        ([False, None, True], pa.bool_(), 0, 1),
        ([datetime.date(1970, 1, 3), datetime.date(1969, 12, 31)], pa.date32(), -1, 2),
        ([1_000_000, None], pa.timestamp("us"), 1_000_000, 1_000_000),
        ([datetime.time(0, 0, 0, 5)], pa.time64("us"), 5, 5),
        ([[1, 2], [], None, [7]], pa.list_(pa.int64()), 1, 7),
        ([[True], [False, False]], pa.list_(pa.bool_()), 0, 1),
    ],
)
def test_values_count_as_what_they_are_written_as(values, kind, minimum, maximum):
    """bool, date, time and timestamp count as integers.

    A list's items count one by one.
    """
    found = ColumnStatistics.of(pa.array(values, kind)).values
    assert (found.minimum, found.maximum) == (minimum, maximum)
    assert type(found.minimum) is int


def test_slices_count_only_their_rows() -> None:
    """A slice of a list or text column counts only its rows."""
    table = pa.record_batch(
        {"l": pa.array([[1], [2, 3], [4]]), "t": pa.array(["a", "b", "c"])}
    ).slice(1, 1)
    found = TableStatistics.of(table)
    assert found.columns["l"].num_values == 2
    assert found.columns["t"].values.top(9) == [("b", 1)]


def test_empty_is_neutral() -> None:
    """Merging with the statistics of no rows changes nothing."""
    batch = pa.record_batch({"x": pa.array([1.5, None]), "t": pa.array([["a"], []])})
    one = TableStatistics.of(batch)
    both = TableStatistics.merged([TableStatistics.empty(batch.schema), one])
    assert both.rows == 2
    for name in ("x", "t"):
        for field in ("present", "missing", "min_values", "max_values", "num_values"):
            assert getattr(both.columns[name], field) == getattr(one.columns[name], field)
    assert both.columns["x"].values.minimum == 1.5


def test_pickled_statistics_are_small() -> None:
    """64k rows have small pickled statistics.

    Continuous values take 40 kB, few texts 4 kB.
    """
    generator = np.random.default_rng(0)
    numbers = ColumnStatistics.of(pa.array(generator.normal(size=1 << 16)))
    texts = ColumnStatistics.of(pa.array(generator.integers(0, 100, 1 << 16).astype(str)))
    assert len(pickle.dumps(numbers)) < 40_000
    assert len(pickle.dumps(texts)) < 4_000
