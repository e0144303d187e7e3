"""Writes statistics as TensorFlow Metadata protos, as TFDV fills them in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pyarrow as pa
from tensorflow_metadata.proto.v0 import path_pb2, statistics_pb2

from beam_pipelines.statistics.numeric import NumberStatistics
from beam_pipelines.statistics.table import ColumnStatistics, TableStatistics, value_type
from beam_pipelines.statistics.text import TextStatistics

# TFDV's defaults (stats_options.py) and its name for the dataset that is not a slice (constants.py).
_TOP_VALUES = 20
_RANKS = 1000
_BUCKETS = 10
_DATASET = "All Examples"

_Histogram = statistics_pb2.Histogram
_Feature = statistics_pb2.FeatureNameStatistics


def to_proto(
    statistics: Mapping[str, TableStatistics],
) -> dict[str, statistics_pb2.DatasetFeatureStatisticsList]:
    """Returns each split's statistics as a list of one dataset, features in the table's order.

    What is left out: ``num_values_histogram``, and everything weighted or nested.
    """
    return {split: _dataset_list(table) for split, table in statistics.items()}


def feature_type(column_type: pa.DataType) -> int:
    """Returns the statistics type of a column: INT, FLOAT, STRING, or BYTES for columns of the recipe type ``bytes``."""
    kind = value_type(column_type)
    if pa.types.is_string(kind):
        return int(_Feature.STRING)
    if pa.types.is_binary(kind):
        return int(_Feature.BYTES)
    return int(_Feature.FLOAT if pa.types.is_floating(kind) else _Feature.INT)


def _dataset_list(table: TableStatistics) -> statistics_pb2.DatasetFeatureStatisticsList:
    dataset = statistics_pb2.DatasetFeatureStatistics(name=_DATASET, num_examples=table.rows)
    for name, column in table.columns.items():
        dataset.features.append(_feature(name, column))
    return statistics_pb2.DatasetFeatureStatisticsList(datasets=[dataset])


def _feature(name: str, column: ColumnStatistics) -> statistics_pb2.FeatureNameStatistics:
    feature = _Feature(path=path_pb2.Path(step=[name]), type=feature_type(column.type))
    common = statistics_pb2.CommonStatistics(
        num_non_missing=column.present,
        num_missing=column.missing,
        min_num_values=column.min_values,
        max_num_values=column.max_values,
        avg_num_values=column.average_values,
        tot_num_values=column.num_values,
    )
    if isinstance(column.values, NumberStatistics):
        feature.num_stats.CopyFrom(_numeric(column.values))
        feature.num_stats.common_stats.CopyFrom(common)
    elif feature.type == _Feature.BYTES:
        feature.bytes_stats.CopyFrom(_bytes(column.values))
        feature.bytes_stats.common_stats.CopyFrom(common)
    else:
        feature.string_stats.CopyFrom(_string(column.values))
        feature.string_stats.common_stats.CopyFrom(common)
    return feature


def _numeric(values: NumberStatistics) -> statistics_pb2.NumericStatistics:
    proto = statistics_pb2.NumericStatistics(
        mean=values.mean,
        std_dev=values.standard_deviation,
        num_zeros=values.zeros,
        min=values.minimum or 0,
        median=(values.quantiles(2) or [0, 0])[1],
        max=values.maximum or 0,
    )
    if values.count or values.nans:
        proto.histograms.append(_standard_histogram(values))
        proto.histograms.append(_quantiles_histogram(values))
    return proto


def _standard_histogram(values: NumberStatistics) -> statistics_pb2.Histogram:
    histogram = _Histogram(type=_Histogram.STANDARD, num_nan=values.nans)
    buckets = [(low, high, count) for low, high, count in values.histogram(_BUCKETS)]
    infinity = float("inf")
    low, high = (buckets[0][0], buckets[-1][1]) if buckets else (0.0, 0.0)
    if values.minus_infinities:
        buckets.insert(0, (-infinity, low, values.minus_infinities))
    if values.plus_infinities:
        buckets.append((high, infinity, values.plus_infinities))
    for bucket_low, bucket_high, count in buckets:
        histogram.buckets.add(low_value=bucket_low, high_value=bucket_high, sample_count=count)
    return histogram


def _quantiles_histogram(values: NumberStatistics) -> statistics_pb2.Histogram:
    histogram = _Histogram(type=_Histogram.QUANTILES, num_nan=values.nans)
    edges = values.quantiles(_BUCKETS)
    for low, high in itertools.pairwise(edges):
        histogram.buckets.add(low_value=low, high_value=high, sample_count=values.count / _BUCKETS)
    return histogram


def _string(values: TextStatistics) -> statistics_pb2.StringStatistics:
    proto = statistics_pb2.StringStatistics(
        unique=values.distinct, avg_length=values.total_bytes / values.count if values.count else 0.0
    )
    ranks = values.top(_RANKS)
    for value, count in ranks[:_TOP_VALUES]:
        proto.top_values.add(value=value, frequency=count)
    for rank, (value, count) in enumerate(ranks):
        proto.rank_histogram.buckets.add(low_rank=rank, high_rank=rank, label=value, sample_count=count)
    return proto


def _bytes(values: TextStatistics) -> statistics_pb2.BytesStatistics:
    return statistics_pb2.BytesStatistics(
        unique=values.distinct,
        avg_num_bytes=values.total_bytes / values.count if values.count else 0.0,
        min_num_bytes=values.min_bytes,
        max_num_bytes=values.max_bytes,
        max_num_bytes_int=values.max_bytes,
    )
