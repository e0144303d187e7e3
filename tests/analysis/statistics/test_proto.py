"""The protos that TFDV's users read."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics, to_proto
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from tests.analysis.statistics.tfdv import feature_of, flat

BATCH = pa.record_batch(
    {
        "i": pa.array([0, 1, None, 5]),
        "f": pa.array([1.0, math.nan, math.inf, 3.0]),
        "s": pa.array(["b", "a", "c", "c"]),
        "b": pa.array([b"\x00", b"\xff\xff", None, b""]),
        "l": pa.array([["x", "y"], [], None, ["x"]]),
        "flag": pa.array([True, True, False, None]),
        "day": pa.array([datetime.date(1970, 1, 2)] * 4),
        "none": pa.nulls(4, pa.int64()),
    }
)


@pytest.fixture(scope="module")
def features() -> dict[str, statistics_pb2.FeatureNameStatistics]:
    """The features of the batch by name."""
    dataset = to_proto({"train": TableStatistics.of(BATCH)})["train"].datasets[0]
    assert dataset.num_examples == 4
    assert dataset.name == "All Examples"
    return {feature.path.step[0]: feature for feature in dataset.features}


def test_types(features) -> None:
    """Each column type has TFDV's statistics type for its written form."""
    names = {
        name: statistics_pb2.FeatureNameStatistics.Type.Name(feature.type)
        for name, feature in features.items()
    }
    expected = ("INT", "FLOAT", "STRING", "BYTES", "STRING", "INT", "INT", "INT")
    assert names == dict(zip(BATCH.schema.names, expected, strict=True))


def test_common_statistics(features) -> None:
    """Presence and valency of scalars and lists are right.

    An empty list is present, with no values.
    """
    scalar = features["i"].num_stats.common_stats
    assert (scalar.num_non_missing, scalar.num_missing, scalar.tot_num_values) == (3, 1, 3)
    assert (scalar.min_num_values, scalar.max_num_values, scalar.avg_num_values) == (1, 1, 1)
    lists = features["l"].string_stats.common_stats
    assert (lists.num_non_missing, lists.num_missing, lists.tot_num_values) == (3, 1, 3)
    assert (lists.min_num_values, lists.max_num_values, lists.avg_num_values) == (0, 2, 1)


def test_numbers(features) -> None:
    """Mean, population deviation, zeros, median; NaN only in histograms; infinity kept."""
    integers = features["i"].num_stats
    assert (integers.mean, integers.num_zeros) == (2, 1)
    assert (integers.min, integers.median, integers.max) == (0, 1, 5)
    assert integers.std_dev == pytest.approx(math.sqrt((4 + 1 + 9) / 3))
    floats = features["f"].num_stats
    assert (floats.min, floats.max, floats.std_dev) == (1, math.inf, 0)
    assert math.isnan(floats.mean)
    standard, quantiles = floats.histograms
    kinds = statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES
    assert (standard.type, quantiles.type) == kinds
    assert standard.num_nan == 1
    assert sum(bucket.sample_count for bucket in standard.buckets) == pytest.approx(3)
    assert standard.buckets[-1].high_value == math.inf
    assert sum(bucket.sample_count for bucket in quantiles.buckets) == pytest.approx(3)


def test_texts(features) -> None:
    """The statistics of texts are right.

    They are unique, average bytes, top values by count and value, and their rank histogram.
    """
    texts = features["s"].string_stats
    assert texts.unique == 3
    assert texts.avg_length == 1
    assert [(top.value, top.frequency) for top in texts.top_values] == [
        ("c", 2),
        ("b", 1),
        ("a", 1),
    ]
    assert [(bucket.low_rank, bucket.label) for bucket in texts.rank_histogram.buckets] == [
        (0, "c"),
        (1, "b"),
        (2, "a"),
    ]
    binary = features["b"].bytes_stats
    assert (binary.unique, binary.avg_num_bytes) == (3, 1)
    assert (binary.min_num_bytes, binary.max_num_bytes_int) == (0, 2)


def test_a_column_of_nulls(features) -> None:
    """Nothing but nulls: zeros everywhere and no histogram."""
    numbers = features["none"].num_stats
    assert numbers.common_stats.num_missing == 4
    assert (numbers.mean, numbers.std_dev, len(numbers.histograms)) == (0, 0, 0)


def test_same_bytes_for_the_same_rows() -> None:
    """The proto's bytes are the same for any cuts of the rows.

    It is serialized deterministically.
    """
    whole = to_proto({"a": TableStatistics.of(BATCH)})["a"]
    parts = TableStatistics.merged([TableStatistics.of(BATCH[2:]), TableStatistics.of(BATCH[:2])])
    assert to_proto({"a": parts})["a"] == whole


INT, FLOAT, STRING, BYTES = range(4)
MODEST = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from(
    [0.0, 1.0, math.nan, math.inf, -math.inf]
)
SMALL = st.integers(-5, 5) | st.integers(-(2**40), 2**40)
WORDS = st.sampled_from(["", "a", "b", "é", "longer", "1"])
KINDS = {
    "ints": (pa.int64(), INT, SMALL),
    "floats": (pa.float64(), FLOAT, MODEST),
    "texts": (pa.string(), STRING, WORDS),
    "bytes": (pa.binary(), BYTES, st.binary(max_size=2)),
    "bools": (pa.bool_(), INT, st.booleans()),
    "int lists": (pa.list_(pa.int64()), INT, st.lists(SMALL, max_size=4)),
    "float lists": (pa.list_(pa.float64()), FLOAT, st.lists(MODEST, max_size=4)),
    "text lists": (pa.list_(pa.string()), STRING, st.lists(WORDS, max_size=4)),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_field_is_tfdvs(kind: str, data: st.DataObject) -> None:
    """All fields that TFDV sets have the values of its definitions.

    No other field is set.
    """
    column_type, feature_type, values = KINDS[kind]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=25))
    weights = data.draw(
        st.none()
        | st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.5]), min_size=len(rows), max_size=len(rows))
    )
    is_categorical = kind in ("ints", "int lists") and data.draw(st.booleans())
    batch = {"x": pa.array(rows, column_type)} | (
        {} if weights is None else {"w": pa.array(weights)}
    )
    plan = StatisticsPlan(
        None if weights is None else "w", categorical=("x",) if is_categorical else ()
    )
    dataset = to_proto({"a": TableStatistics.of(pa.record_batch(batch), plan)})["a"].datasets[0]
    feature = dataset.features[0]
    assert [*feature.path.step] == ["x"]
    assert dataset.weighted_num_examples == (0 if weights is None else sum(weights))
    feature.ClearField("path")
    expected, found = flat(feature_of(rows, feature_type, weights, is_categorical)), flat(feature)
    assert {path for path in found if not isinstance(found[path], float)} == {
        path for path in expected if not isinstance(expected[path], float)
    }
    scale = np.nanmax(
        np.abs([v for v in found.values() if isinstance(v, float) and math.isfinite(v)] or [0.0])
    )
    for path in expected.keys() | found.keys():
        value = expected.get(path, 0.0)  # an unset float is zero, and a rounding error may be
        if isinstance(value, float):
            value = pytest.approx(value, rel=1e-6, abs=1e-9 * scale, nan_ok=True)
        assert found.get(path, 0.0) == value, path


NUMBERS = st.sampled_from([-0.0, 0.0, 1.5, 5e-324, -1.7e308, 1.7e308, math.inf]) | st.floats()


@given(st.data(), st.integers(1, 9), st.booleans())
def test_features_together_are_as_if_alone(data, rows: int, is_weighted: bool) -> None:
    """A feature has the bits of a table of its own."""
    column = st.lists(st.none() | NUMBERS, min_size=rows, max_size=rows)
    weights = {"w": pa.array([2.5, *[1.0] * (rows - 1)])} if is_weighted else {}
    columns = [weights | {"x": pa.array(data.draw(column), pa.float64())} for _ in range(5)]
    plan = StatisticsPlan("w" if is_weighted else None)
    alone = [proto_bytes(one, plan)[-1] for one in columns]
    together = {f"{number}": one["x"] for number, one in enumerate(columns)}
    assert proto_bytes(weights | together, plan)[-5:] == alone


def proto_bytes(columns: dict[str, pa.Array], plan: StatisticsPlan) -> list[bytes]:
    """Returns the features of a table without their paths."""
    features = to_proto({"": TableStatistics.of(pa.record_batch(columns), plan)})[""]
    for feature in features.datasets[0].features:
        feature.ClearField("path")
    return [one.SerializeToString(deterministic=True) for one in features.datasets[0].features]


def test_feature_lists_have_a_parent() -> None:
    """A STRUCT precedes the feature lists, as in TFDV.

    Every row has the STRUCT.
    """
    batch = pa.record_batch(
        {
            "c": [1.0, 0.5, 2.0],
            "s": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "t": pa.array([None, None, ["x"]], pa.list_(pa.string())),
            "k": ["a", "a", "b"],
        }
    )
    plan = StatisticsPlan("c", slice_by=("k",), lists=("s", "t"))
    rows = {"All Examples": (3, 3.5), "k_a": (2, 1.5), "k_b": (1, 2.0)}
    for dataset in to_proto({"a": TableStatistics.of(batch, plan)})["a"].datasets:
        paths = [tuple(feature.path.step) for feature in dataset.features]
        parent = ("##SEQUENCE##",)
        assert paths == [("c",), parent, (*parent, "s"), (*parent, "t"), ("k",)]
        found = dataset.features[1]
        assert found.type == statistics_pb2.FeatureNameStatistics.STRUCT
        expected = statistics_pb2.FeatureNameStatistics()
        number, weight = rows[dataset.name]
        # What TFDV counts for a column that has one value in every row.
        ones = feature_of([1] * number, 0, [weight / number] * number).num_stats.common_stats
        expected.struct_stats.common_stats.CopyFrom(ones)
        assert flat(found.struct_stats) == flat(expected.struct_stats)


def test_slices_are_datasets_of_their_own() -> None:
    """Slices are datasets after the one of all examples.

    There is one for each value. It is named column_value and has the value's rows.
    """
    batch = pa.record_batch(
        {"t": ["b", "a", None, "b"], "x": [1, 2, 3, 5], "l": pa.array([[1, 1], [], [2], [1, 2]])}
    )
    table = TableStatistics.of(batch, StatisticsPlan(slice_by=("t", "l")))
    datasets = to_proto({"a": table})["a"].datasets
    found = {
        dataset.name: (dataset.num_examples, dataset.features[1].num_stats.mean)
        for dataset in datasets
    }
    assert found == {
        "All Examples": (4, 11 / 4),
        "l_1": (2, 3),
        "l_2": (2, 4),
        "t_a": (1, 2),
        "t_b": (2, 3),
    }
    assert next(iter(found)) == "All Examples"


def test_what_is_sketched_says_so() -> None:
    """Only a sketched feature has a custom statistic: its error.

    Such a feature is beyond the bounds.
    """
    limits = ColumnLimits(numbers=100, points=50, texts=100)
    few, values = limits._replace(kept_texts=10), np.arange(1000) % 300
    columns = {
        "n": ColumnStatistics.of(pa.array(values), limits=limits),
        "t": ColumnStatistics.of(pa.array(values.astype(str)), limits=few),
        "few": ColumnStatistics.of(pa.array(values % 7), limits=limits),
    }
    features = to_proto({"a": TableStatistics(1000, columns)})["a"].datasets[0].features
    texts = {
        feature.path.step[0]: [(stat.name, stat.str) for stat in feature.custom_stats]
        for feature in features
    }
    assert texts["few"] == []
    assert texts["n"] == [("sketched", "median and histograms: ranks up to 1.2 % off")]
    assert texts["t"] == [
        ("sketched", "top_values and rank_histogram: up to 4 too low; unique: estimated")
    ]
