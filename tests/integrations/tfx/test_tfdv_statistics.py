"""Our statistics against TFDV's own generators and rules, on the same rows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, find_anomalies
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics
from tests.analysis.statistics.tfdv import flat
from tests.integrations.tfx.support import need_tfx

need_tfx()
pytestmark = pytest.mark.tfx


def bytes_of(proto: Any) -> bytes:
    serialized: bytes = proto.SerializeToString()
    return serialized


@pytest.mark.parametrize("null_steps", [0, 0.2])
@pytest.mark.parametrize("most", [1, 3])
def test_values_of_steps(null_steps: float, most: int) -> None:
    """Presence, valency and weights of feature lists are TFDV's."""
    from tensorflow_data_validation import StatsOptions
    from tensorflow_data_validation.statistics import stats_impl

    chance = random.Random(most)
    rows: list[Any] = [
        None
        if chance.random() < 0.1
        else [
            None if chance.random() < null_steps else [7] * (chance.randrange(most) + 1)
            for _ in range(chance.randrange(5))
        ]
        for _ in range(80)
    ]
    weights = np.array([chance.random() for _ in rows])
    steps = pa.array(rows, pa.list_(pa.list_(pa.int64())))
    structs = pa.StructArray.from_arrays([steps], ["x"])
    structs = pa.ListArray.from_arrays(np.arange(len(rows) + 1, dtype=np.int32), structs)
    weight = pa.array([[one] for one in weights], pa.list_(pa.float64()))
    batch = pa.RecordBatch.from_arrays([structs, weight], ["##SEQUENCE##", "w"])
    options = StatsOptions(weight_feature="w")
    [theirs] = stats_impl.generate_statistics_in_memory(batch, options).datasets
    column = steps
    if most == 1:
        values = [row and [step and step[0] for step in row] for row in rows]
        column = pa.array(values, pa.list_(pa.int64()))
    plan = StatisticsPlan(lists=("x",), weight="w")
    flat_batch = pa.record_batch({"x": column, "w": weights})
    halves = [TableStatistics.of(part, plan) for part in (flat_batch[:50], flat_batch[50:])]
    [ours] = to_proto({"": TableStatistics.merged(halves)})[""].datasets
    found, expected = (
        next(f for f in one.features if list(f.path.step) == ["##SEQUENCE##", "x"])
        for one in (ours, theirs)
    )
    for field, value in flat(expected).items():
        close = pytest.approx(value, rel=1e-5, abs=1e-9) if isinstance(value, float) else value
        assert flat(found).get(field, 0) == close, field


@pytest.mark.parametrize("name", ["a.b", "a'b", "(a.b)", "a(b)", "ä b", "", "(a)b", "''"])
def test_names_in_anomalies(name: str) -> None:
    """A name with a dot or a quote has TFDV's key."""
    import tensorflow_data_validation as tfdv

    table = TableStatistics.of(pa.record_batch({name: [1]}), StatisticsPlan())
    schema = schema_pb2.Schema()
    ours = anomalies_to_proto(find_anomalies({"train": table}, schema), schema)["train"]
    theirs = tfdv.validate_statistics(to_proto({"": table})[""], schema)
    assert set(ours.anomaly_info) == set(theirs.anomaly_info)
