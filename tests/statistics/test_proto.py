"""The protos that TFDV's users read."""

from __future__ import annotations

import datetime
import math

import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.statistics import TableStatistics, to_proto

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
    """Each column type has the statistics type that TFDV gives to what it is written as."""
    names = {name: statistics_pb2.FeatureNameStatistics.Type.Name(feature.type) for name, feature in features.items()}
    expected = ("INT", "FLOAT", "STRING", "BYTES", "STRING", "INT", "INT", "INT")
    assert names == dict(zip(BATCH.schema.names, expected, strict=True))


def test_common_statistics(features) -> None:
    """Presence and valency of scalars and lists; an empty list is present, with no values."""
    scalar = features["i"].num_stats.common_stats
    assert (scalar.num_non_missing, scalar.num_missing, scalar.tot_num_values) == (3, 1, 3)
    assert (scalar.min_num_values, scalar.max_num_values, scalar.avg_num_values) == (1, 1, 1)
    lists = features["l"].string_stats.common_stats
    assert (lists.num_non_missing, lists.num_missing, lists.tot_num_values) == (3, 1, 3)
    assert (lists.min_num_values, lists.max_num_values, lists.avg_num_values) == (0, 2, 1)


def test_numbers(features) -> None:
    """Mean, population deviation, zeros, median; NaN left out and counted in the histograms; infinity carried."""
    integers = features["i"].num_stats
    assert (integers.mean, integers.num_zeros, integers.min, integers.median, integers.max) == (2, 1, 0, 1, 5)
    assert integers.std_dev == pytest.approx(math.sqrt((4 + 1 + 9) / 3))
    floats = features["f"].num_stats
    assert (floats.min, floats.max, floats.mean) == (1, math.inf, math.inf)
    assert math.isnan(floats.std_dev)
    standard, quantiles = floats.histograms
    assert (standard.type, quantiles.type) == (statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES)
    assert standard.num_nan == 1
    assert sum(bucket.sample_count for bucket in standard.buckets) == 3
    assert standard.buckets[-1].high_value == math.inf
    assert sum(bucket.sample_count for bucket in quantiles.buckets) == pytest.approx(3)


def test_texts(features) -> None:
    """Unique, average length in bytes, top values by count and value descending, and their rank histogram."""
    texts = features["s"].string_stats
    assert texts.unique == 3
    assert texts.avg_length == 1
    assert [(top.value, top.frequency) for top in texts.top_values] == [("c", 2), ("b", 1), ("a", 1)]
    assert [(bucket.low_rank, bucket.label) for bucket in texts.rank_histogram.buckets] == [
        (0, "c"),
        (1, "b"),
        (2, "a"),
    ]
    binary = features["b"].bytes_stats
    assert (binary.unique, binary.avg_num_bytes, binary.min_num_bytes, binary.max_num_bytes_int) == (3, 1, 0, 2)


def test_a_column_of_nulls(features) -> None:
    """Nothing but nulls: zeros everywhere and no histogram."""
    numbers = features["none"].num_stats
    assert numbers.common_stats.num_missing == 4
    assert (numbers.mean, numbers.std_dev, len(numbers.histograms)) == (0, 0, 0)


def test_same_bytes_for_the_same_rows() -> None:
    """Serialized deterministically, the proto does not depend on how the rows were cut."""
    whole = to_proto({"a": TableStatistics.of(BATCH)})["a"]
    parts = TableStatistics.of(BATCH.slice(2)).merge(TableStatistics.of(BATCH.slice(0, 2)))
    assert to_proto({"a": parts})["a"] == whole
