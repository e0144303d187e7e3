"""Statistics, views and anomalies of feature lists whose steps are lists."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import find_anomalies
from beam_pipelines.analysis.anomalies.rules.offenders import can_blame_rows, offending_rows
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import views_of
from beam_pipelines.core.layout.schema_features import feature_lists_of
from tests.analysis.statistics.support import three_ways

STEPS = pa.list_(pa.list_(pa.int64()))
ROWS = st.lists(
    st.none() | st.lists(st.none() | st.lists(st.integers(-3, 3), max_size=3), max_size=4),
    max_size=12,
)
PLAN = StatisticsPlan(lists=("x",))


@given(ROWS, st.integers(0, 1000))
def test_both_levels_are_those_of_a_loop(rows: list[Any], seed: int) -> None:
    """Steps, null steps and values are counted, whatever the parts."""
    steps = [step for row in rows for step in row or []]
    filled = [step for step in steps if step is not None]
    lengths = [len(step) for step in filled]
    of = functools.partial(ColumnStatistics.of, is_feature_list=True)
    for found in three_ways(pa.array(rows, STEPS), of, ColumnStatistics.merged, seed):
        assert (found.num_values, found.null_steps) == (len(steps), len(steps) - len(filled))
        assert found.step_values == (min(lengths, default=0), max(lengths, default=0), sum(lengths))
        values = [value for step in filled for value in step]
        assert (found.values.count, found.values.minimum) == (
            len(values),
            min(values, default=None),
        )


VALUES = st.lists(st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=4), max_size=12)


@pytest.mark.parametrize("kind", [STEPS, pa.list_(pa.int64())])
@given(st.data())
def test_values_in_rows_are_those_of_a_loop(kind: pa.DataType, data: st.DataObject) -> None:
    """A null step has no value in a row, whatever the parts."""
    rows = data.draw(ROWS if kind == STEPS else VALUES)
    weights = np.array([data.draw(st.integers(0, 9)) for _ in rows], np.float64)
    numbers = [
        None
        if row is None
        else sum(0 if step is None else len(step) if isinstance(step, list) else 1 for step in row)
        for row in rows
    ]
    present = [number for number in numbers if number is not None]
    table = TableStatistics.of(pa.record_batch({"x": pa.array(rows, kind)}), PLAN)
    for end in {0, len(rows) // 2, len(rows)}:
        array = pa.array(rows, kind)
        parts = [
            ColumnStatistics.of(array[piece], weights[piece], is_feature_list=True)
            for piece in (slice(0, end), slice(end, None))
        ]
        found = ColumnStatistics.merged(parts)
        fewest, most, number, lengths = found.innermost
        assert (fewest, most, number) == (
            min(present, default=0),
            max(present, default=0),
            sum(present),
        )
        assert lengths is not None
        assert lengths.values.tolist() == sorted(set(present))
        assert lengths.weights.tolist() == [present.count(n) for n in sorted(set(present))]
        table = dataclasses.replace(table, columns={"x": found}, weight=float(weights.sum()))
        [_, feature] = to_proto({"": table})[""].datasets[0].features
        common = feature.num_stats.common_stats
        steps = common.weighted_presence_and_valency_stats[1]
        of_values = sum(w * (n or 0) for w, n in zip(weights, numbers, strict=True))
        assert steps.tot_num_values == common.weighted_common_stats.tot_num_values == of_values
        read, _ = from_bytes(to_bytes(table, PLAN), "there")
        assert to_proto({"": read}) == to_proto({"": table})


@given(ROWS)
def test_a_file_says_the_same(rows: list[Any]) -> None:
    """Accumulators survive a file."""
    table = TableStatistics.of(pa.record_batch({"x": pa.array(rows, STEPS)}), PLAN)
    found, _ = from_bytes(to_bytes(table, PLAN), "there")
    assert found.columns["x"].step_values == table.columns["x"].step_values
    [own], [read] = (views_of(one).values() for one in (table, found))
    assert (read.levels, read.rows, read.num_values) == (own.levels, own.rows, own.num_values)


def test_weights_of_a_row_are_those_of_its_values() -> None:
    """A value in a step has the weight of its row."""
    x = pa.array([[[1], [2, 3]], [None, []], [[4]]], STEPS)
    found = ColumnStatistics.of(x, np.array([1.0, 2.0, 3.0]), is_feature_list=True)
    assert found.values.weighted.mean == (1 + 2 + 3 + 3 * 4) / (3 + 3)


@pytest.mark.parametrize(
    ("rule", "rows", "bad"),
    [
        ("value_counts { value_count { max: 2 } value_count {} }", [[[1]], [[1]] * 3, None], []),
        ("shape { dim { size: 1 } dim { size: 2 } }", [[[1, 2]], [[1], [2]], None, [[1]]], []),
        ("int_domain { max: 2 }", [[[1], None, [9]], None, [[], [2]], [[3]]], [0, 3]),
    ],
)
def test_rows_are_to_blame_for_their_values(rule: str, rows: list[Any], bad: list[int]) -> None:
    """Rows with wrong values are found, with wrong numbers of steps not."""
    schema = text_format.Parse(
        "feature { name: '##SEQUENCE##' type: STRUCT struct_domain { feature { name: 'x' type: INT "
        f"{rule} }} }} }}",
        schema_pb2.Schema(),
    )
    array = pa.array(rows, STEPS)
    table = TableStatistics.of(pa.record_batch({"x": array}), PLAN)
    [reason] = [
        reason
        for reason in find_anomalies({"s": table}, schema)["s"].reasons["x"]
        if can_blame_rows(reason.type)
    ]
    mask = offending_rows(array, reason.type, feature_lists_of(schema)[0], {})
    assert np.flatnonzero(mask).tolist() == bad
