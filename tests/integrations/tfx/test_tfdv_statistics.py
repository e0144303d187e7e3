"""Our statistics against TFDV's own generators and rules, on the same rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, find_anomalies
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics.composites import composites_in
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics
from tests.integrations.tfx.support import need_tfx

need_tfx()
pytestmark = pytest.mark.tfx

COMPOSITES = """
    feature { name: "i" type: INT } feature { name: "j" type: INT } feature { name: "v" type: FLOAT }
    feature { name: "w" type: FLOAT }
    sparse_feature {
      name: "s" value_feature { name: "v" } index_feature { name: "j" } index_feature { name: "i" }
    }
    sparse_feature { name: "a" value_feature { name: "v" } index_feature { name: "absent" } }
    weighted_feature { name: "x" feature { step: "v" } weight_feature { step: "w" } }
"""


def random_lists(chance: random.Random, nulls: float) -> pa.RecordBatch:
    """Returns columns of lists, as TFDV reads tf.Examples.

    With nulls, their lengths differ.
    """
    rows = []
    for _ in range(60):
        length = chance.randrange(3)
        lengths = {name: length + (chance.random() < nulls) for name in "ijvw"}
        rows.append({n: None if chance.random() < nulls else [1] * k for n, k in lengths.items()})
    integers, floats = pa.list_(pa.int64()), pa.list_(pa.float32())
    columns = pa.schema([("i", integers), ("j", integers), ("v", floats), ("w", floats)])
    return pa.RecordBatch.from_pylist(rows, columns)


def generated(generator: Any, batches: list[pa.RecordBatch]) -> Any:
    """Returns the merged output of one of TFDV's generators."""
    accumulators = [generator.add_input(generator.create_accumulator(), batch) for batch in batches]
    return generator.extract_output(generator.merge_accumulators(accumulators))


def by_name(features: Any) -> dict[str, Any]:
    return {feature.path.step[0]: feature for feature in features}


@pytest.mark.parametrize("nulls", [0, 0.1])
@pytest.mark.parametrize("seed", [1, 2])
def test_sparse_and_weighted_features(nulls: float, seed: int) -> None:
    """Statistics, anomalies and the updated schema are TFDV's."""
    import tensorflow_data_validation as tfdv
    from tensorflow_data_validation.statistics.generators import (
        sparse_feature_stats_generator as sparse,
    )
    from tensorflow_data_validation.statistics.generators import (
        weighted_feature_stats_generator as weighted,
    )

    schema = text_format.Parse(COMPOSITES, schema_pb2.Schema())
    batches = [random_lists(random.Random(f"{seed} {part}"), nulls) for part in range(3)]
    theirs: dict[str, Any] = {}
    for generator in (
        sparse.SparseFeatureStatsGenerator(schema),
        weighted.WeightedFeatureStatsGenerator(schema),
    ):
        theirs |= by_name(generated(generator, batches).features)
    plan = StatisticsPlan(composites=composites_in(schema))
    table = TableStatistics.merged([TableStatistics.of(batch, plan) for batch in batches])
    ours = to_proto({"": table})[""]
    assert {
        name: f for name, f in by_name(ours.datasets[0].features).items() if name in theirs
    } == (theirs)
    assert len(theirs) == 3
    anomalies = find_anomalies({"train": table}, schema)
    found = anomalies_to_proto(anomalies, schema)["train"]
    expected = tfdv.validate_statistics(ours, schema)
    assert reasons(found) == reasons(expected)
    assert {"a"} | ({"s", "x"} if nulls else set()) == set(reasons(found))
    assert update_schema(schema, [table]) == tfdv.update_schema(schema, ours)
    tfdv.infer_schema(statistics_pb2.DatasetFeatureStatisticsList.FromString(bytes_of(ours)))


def bytes_of(proto: Any) -> bytes:
    serialized: bytes = proto.SerializeToString()
    return serialized


def reasons(anomalies: anomalies_pb2.Anomalies) -> dict[str, list[tuple[int, str, str]]]:
    return {
        name: [(one.type, one.short_description, one.description) for one in info.reason]
        for name, info in anomalies.anomaly_info.items()
    }
