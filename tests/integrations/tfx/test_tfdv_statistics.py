"""Our statistics against TFDV's own generators and rules, on the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, find_anomalies
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.layout.schema_features import features_by_path
from tests.analysis.statistics.tfdv import flat
from tests.integrations.tfx.support import need_tfx

need_tfx()
pytestmark = pytest.mark.tfx


def bytes_of(proto: Any) -> bytes:
    serialized: bytes = proto.SerializeToString()
    return serialized


def reasons(anomalies: anomalies_pb2.Anomalies) -> dict[str, list[tuple[int, str, str]]]:
    return {
        name: [(one.type, one.short_description, one.description) for one in info.reason]
        for name, info in anomalies.anomaly_info.items()
    }


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


STRUCTS = pa.list_(
    pa.struct(
        [
            ("b", pa.list_(pa.int64())),
            ("t", pa.list_(pa.string())),
            (
                "c",
                pa.list_(pa.struct([("d", pa.list_(pa.string())), ("e", pa.list_(pa.float32()))])),
            ),
        ]
    )
)


def random_structs(chance: random.Random, parts: Sequence[str]) -> Any:
    """Returns a row's structs, as in an Arrow table."""

    def struct(fields: Sequence[str]) -> dict[str, Any]:
        return {name: value(name) for name in fields if name in parts}

    def value(name: str) -> Any:
        if chance.random() < 0.2:
            return None
        number = chance.randrange(3)
        if name == "c":
            return [struct("de") for _ in range(number)]
        kinds = {"b": 7, "t": chance.choice("xyz"), "d": chance.choice("uvw"), "e": 0.5}
        return [kinds[name]] * number

    return None if chance.random() < 0.2 else [struct("btc") for _ in range(chance.randrange(3))]


def of_structs(seed: int, parts: Sequence[str]) -> statistics_pb2.DatasetFeatureStatisticsList:
    """Returns TFDV's statistics of random structs."""
    from tensorflow_data_validation import StatsOptions
    from tensorflow_data_validation.statistics import stats_impl

    chance = random.Random(seed)
    rows = [random_structs(chance, parts) for _ in range(40)]
    batch = pa.RecordBatch.from_arrays([pa.array(rows, STRUCTS)], ["a"])
    return stats_impl.generate_statistics_in_memory(batch, StatsOptions())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_statistics_of_structs(seed: int) -> None:
    """Schema, anomalies and the updated schema of TFDV's structs are TFDV's."""
    import tensorflow_data_validation as tfdv

    whole = of_structs(seed, "btcde")
    inferred = infer_schema({"train": whole.datasets[0]})
    assert in_order(inferred) == in_order(tfdv.infer_schema(whole))
    for schema in (inferred, *narrowed(inferred)):
        for parts in ("btcde", "bc", "bde", "cd", ""):
            statistics = of_structs(seed + 10, parts)
            found = find_anomalies({"train": statistics.datasets[0]}, schema)
            ours = anomalies_to_proto(found, schema)["train"]
            theirs = tfdv.validate_statistics(statistics, schema)
            assert reasons(ours) == reasons(theirs)
            assert {name: info.path for name, info in ours.anomaly_info.items()} == {
                name: info.path for name, info in theirs.anomaly_info.items()
            }
            updated = update_schema(schema, [statistics.datasets[0]])
            assert in_order(updated) == in_order(tfdv.update_schema(schema, statistics))


def in_order(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    """Returns a schema with features and domains ordered by name."""
    ordered = schema_pb2.Schema()
    ordered.CopyFrom(schema)
    levels = [ordered.feature, ordered.string_domain]
    while levels:
        level = levels.pop()
        level.sort(key=lambda one: one.name)
        if level is not ordered.string_domain:
            levels += [one.struct_domain.feature for one in level if one.HasField("struct_domain")]
    return ordered


def narrowed(schema: schema_pb2.Schema) -> Iterator[schema_pb2.Schema]:
    """Yields schemas that the statistics do not fit."""
    for path, field in (
        (("a",), "lifecycle_stage: DEPRECATED"),
        (("a",), "type: FLOAT"),
        (("a",), "name: 'other'"),
        (("a", "b"), "presence { min_fraction: 1 }"),
        (("a", "b"), "name: 'other'"),
        (("a", "c"), "lifecycle_stage: DEPRECATED"),
        (("a", "c"), "type: BYTES"),
        (("a", "c"), "name: 'other'"),
        (("a", "c", "d"), "presence { min_count: 9999 }"),
        (("a", "t"), "string_domain { value: 'x' value: 'y' }"),
    ):
        changed = schema_pb2.Schema()
        changed.CopyFrom(schema)
        text_format.Merge(field, features_by_path(changed)[path])
        yield changed


@pytest.mark.parametrize("name", ["a.b", "a'b", "(a.b)", "a(b)", "ä b", "", "(a)b", "''"])
def test_names_in_anomalies(name: str) -> None:
    """A name with a dot or a quote has TFDV's key."""
    import tensorflow_data_validation as tfdv

    table = TableStatistics.of(pa.record_batch({name: [1]}), StatisticsPlan())
    schema = schema_pb2.Schema()
    ours = anomalies_to_proto(find_anomalies({"train": table}, schema), schema)["train"]
    theirs = tfdv.validate_statistics(to_proto({"": table})[""], schema)
    assert set(ours.anomaly_info) == set(theirs.anomaly_info)
