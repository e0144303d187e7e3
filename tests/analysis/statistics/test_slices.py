"""Slices: which rows belong to which, and how many there may be."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics
from beam_pipelines.analysis.statistics.table import MAX_SLICES, DataSlice
from beam_pipelines.core.errors import DataError
from tests.analysis.statistics.support import three_ways


@given(
    st.lists(
        st.tuples(
            st.none() | st.sampled_from("abc"), st.none() | st.lists(st.integers(0, 3), max_size=3)
        ),
        max_size=30,
    ),
    st.integers(0, 1000),
)
def test_slices_hold_the_rows_with_their_value(rows: list[tuple[Any, Any]], seed: int) -> None:
    """A slice has the statistics of the filtered rows, however merged."""
    texts, lists = [text for text, _ in rows], [items for _, items in rows]
    batch = pa.record_batch(
        [
            pa.array(texts, pa.string()),
            pa.array(lists, pa.list_(pa.int64())),
            pa.array(range(len(rows)), pa.int64()),
        ],
        names=["t", "l", "x"],
    )
    plan = StatisticsPlan(slice_by=("t", "l"))
    expected = {
        DataSlice("t", text): [i for i, t in enumerate(texts) if t == text]
        for text in texts
        if text is not None
    } | {
        DataSlice("l", str(item)): [i for i, other in enumerate(lists) if other and item in other]
        for items in lists
        for item in items or ()
    }
    for found in three_ways(
        batch, lambda part: TableStatistics.of(part, plan), TableStatistics.merged, seed
    ):
        assert {
            key: table.columns["x"].values.values.tolist() for key, table in found.slices.items()
        } == expected
        assert {key: table.rows for key, table in found.slices.items()} == {
            k: len(r) for k, r in expected.items()
        }


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [
        ([True], pa.bool_(), "x_1"),
        ([datetime.date(1970, 1, 3)], pa.date32(), "x_2"),
        ([-7], pa.int64(), "x_-7"),
        (["é"], pa.string(), "x_é"),
        ([""], pa.string(), "x_"),
    ],
)
def test_names_are_tfdvs(values: list[Any], kind: pa.DataType, name: str) -> None:
    """A slice is named column_value, with the value as in the records."""
    found = TableStatistics.of(
        pa.record_batch({"x": pa.array(values, kind)}), StatisticsPlan(slice_by=("x",))
    )
    assert [key.name for key in found.slices] == [name]


@pytest.mark.parametrize("parts", [1, 2])
def test_too_many_values_are_an_error(parts: int) -> None:
    """More than a hundred values are an error with the column.

    They are in one batch or merged.
    """
    batch = pa.record_batch({"id": np.arange(MAX_SLICES + 1)})
    size = -(-batch.num_rows // parts)
    plan = StatisticsPlan(slice_by=("id",))
    with pytest.raises(DataError, match="column 'id': found more than 100 values"):
        TableStatistics.merged(
            [
                TableStatistics.of(batch.slice(start, size), plan)
                for start in range(0, batch.num_rows, size)
            ]
        )


@pytest.mark.parametrize(
    ("weights", "found"),
    [([1.0, None], "null"), ([1.0, -0.5], "-0.5"), ([np.nan, 1.0], "nan"), ([np.inf, 1], "inf")],
)
def test_weights_that_do_not_count_are_an_error(weights: list[Any], found: str) -> None:
    """A wrong weight is an error with column and value.

    It is null, negative or infinite.
    """
    batch = pa.record_batch({"w": pa.array(weights, pa.float64())})
    with pytest.raises(DataError, match=f"column 'w': found {found} as the weight"):
        TableStatistics.of(batch, StatisticsPlan(weight="w"))
