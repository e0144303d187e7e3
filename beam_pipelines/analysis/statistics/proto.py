"""Writes statistics as TensorFlow Metadata protos, as TFDV fills them in."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import path_pb2, statistics_pb2

from beam_pipelines.analysis.statistics import histograms
from beam_pipelines.analysis.statistics.column import ColumnStatistics, StepValues, WeightedPresence
from beam_pipelines.analysis.statistics.distribution import Distribution, quantiles
from beam_pipelines.analysis.statistics.numeric import FiniteNumbers, NumberStatistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics, ValueCounts
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.layout.schema_features import SEQUENCE, path_of

# TFDV's defaults (stats_options.py) and its name for the dataset that is not a slice
# (constants.py).
_TOP_VALUES = 20
_RANKS = 1000
_DATASET = "All Examples"
# TFDV drops weighted values whose weights add up to less (weighted_frequency_threshold).
_LOWEST_WEIGHT = 1.0
# Name of the custom statistic that says which statistics are sketched.
SKETCHED = "sketched"

_Feature = statistics_pb2.FeatureNameStatistics


def to_proto(
    statistics: Mapping[str, TableStatistics],
) -> dict[str, statistics_pb2.DatasetFeatureStatisticsList]:
    """Returns the statistics of each split as protos.

    A split has a dataset of all rows and one for each slice. Features are in the table's order. A
    feature with sketched statistics has a custom statistic that names them and their error bounds.
    """
    return {
        split: statistics_pb2.DatasetFeatureStatisticsList(
            datasets=[
                proto_of(table),
                *(_dataset(key.name, part) for key, part in table.slices.items()),
            ]
        )
        for split, table in statistics.items()
    }


def joined_protos(parts: Sequence[bytes]) -> bytes:
    """Returns a table's protos from those of its columns' shares."""
    whole, *others = map(statistics_pb2.DatasetFeatureStatisticsList.FromString, parts)
    for other in others:
        for dataset, more in zip(whole.datasets, other.datasets, strict=True):
            has_parent = any(feature.type == _Feature.STRUCT for feature in dataset.features)
            dataset.features.extend(
                feature
                for feature in more.features
                if not (has_parent and feature.type == _Feature.STRUCT)
            )
    joined: bytes = whole.SerializeToString(deterministic=True)
    return joined


def proto_of(table: TableStatistics) -> statistics_pb2.DatasetFeatureStatistics:
    """Returns the proto of all rows of a split."""
    return _dataset(_DATASET, table)


def feature_type(column_type: pa.DataType) -> int:
    """Returns the statistics type of a column: INT, FLOAT, STRING, or BYTES.

    BYTES are columns of the recipe type ``bytes``.
    """
    kind = value_type(column_type)
    if pa.types.is_string(kind):
        return int(_Feature.STRING)
    if pa.types.is_binary(kind):
        return int(_Feature.BYTES)
    return int(_Feature.FLOAT if pa.types.is_floating(kind) else _Feature.INT)


def _dataset(name: str, table: TableStatistics) -> statistics_pb2.DatasetFeatureStatistics:
    proto = statistics_pb2.DatasetFeatureStatistics(
        name=name, num_examples=table.rows, weighted_num_examples=table.weight or 0.0
    )
    histograms.add_histograms(_add_features(proto, table))
    return proto


def _add_features(
    proto: statistics_pb2.DatasetFeatureStatistics, table: TableStatistics
) -> Iterator[histograms.Curve]:
    """Adds the counted features, a parent before the first feature list."""
    has_parent = False
    for name, column in table.columns.items():
        if not column.is_counted:
            continue
        if column.null_steps is not None and not has_parent:
            has_parent = True
            _add_parent(proto, table)
        yield from _add_feature(proto, name, column)


def _add_parent(proto: statistics_pb2.DatasetFeatureStatistics, table: TableStatistics) -> None:
    """Adds the STRUCT of the feature lists.

    TFDV counts it as one value of every row, also where the row has no feature list. Its
    ``infer_schema`` ends the process if it finds a feature list without a parent.
    """
    weighted = None if table.weight is None else WeightedPresence(table.weight, 0.0, table.weight)
    one = int(table.rows > 0)
    no_values = NumberStatistics.of(pa.array([], pa.int64()))
    every_row = ColumnStatistics(
        pa.int64(), table.rows, 0, one, one, table.rows, no_values, weighted=weighted
    )
    feature = proto.features.add(path=path_pb2.Path(step=[SEQUENCE]), type=_Feature.STRUCT)
    feature.struct_stats.common_stats.CopyFrom(_common(every_row))


def _add_feature(
    proto: statistics_pb2.DatasetFeatureStatistics, name: str, column: ColumnStatistics
) -> Iterator[histograms.Curve]:
    """Adds a feature; yields what its histograms are made of."""
    feature = proto.features.add(
        path=path_of(name, column.null_steps is not None), type=feature_type(column.type)
    )
    common, texts = _common(column), column.categories or column.values
    if feature.type == _Feature.BYTES and isinstance(texts, TextStatistics):
        feature.bytes_stats.CopyFrom(_bytes(texts))
        feature.bytes_stats.common_stats.CopyFrom(common)
    elif isinstance(texts, TextStatistics):
        feature.string_stats.CopyFrom(_string(texts))
        feature.string_stats.common_stats.CopyFrom(common)
    else:
        feature.num_stats.common_stats.CopyFrom(common)
        yield from _fill_numeric(feature.num_stats, texts)
    sketched = "; ".join(_sketched(texts, column.lengths))
    if sketched:
        feature.custom_stats.add(name=SKETCHED, str=sketched)


def _common(column: ColumnStatistics) -> statistics_pb2.CommonStatistics:
    in_rows = column.innermost
    proto = statistics_pb2.CommonStatistics(
        num_non_missing=column.present,
        num_missing=column.missing,
        min_num_values=in_rows.min_values,
        max_num_values=in_rows.max_values,
        avg_num_values=column.average_values,
        tot_num_values=in_rows.num_values,
    )
    if column.null_steps is not None:
        _add_levels(proto, column, column.null_steps)
    if column.present:
        lengths = in_rows.lengths
        proto.num_values_histogram.CopyFrom(
            _one_value_each(column.present) if lengths is None else _lengths(lengths)
        )
    if column.weighted is not None:
        steps = column.weighted_steps
        num_values = column.weighted.num_values if steps is None else steps.num_values
        proto.weighted_common_stats.CopyFrom(
            _weighted(column.weighted._replace(num_values=num_values))
        )
    return proto


def _lengths(lengths: Distribution) -> statistics_pb2.Histogram:
    cuts = quantiles(lengths.values, lengths.weights, histograms.BUCKETS)
    return histograms.quantiles_histogram(*cuts)


@functools.lru_cache(maxsize=1_000)  # many columns of a table have as many values
def _one_value_each(rows: int) -> statistics_pb2.Histogram:
    return _lengths(Distribution(np.array([1]), np.array([rows])))


def _weighted(presence: WeightedPresence) -> statistics_pb2.WeightedCommonStatistics:
    present, missing, num_values = presence
    proto = statistics_pb2.WeightedCommonStatistics(
        num_non_missing=present, num_missing=missing, tot_num_values=num_values
    )
    if present:
        proto.avg_num_values = num_values / present
    return proto


def _add_levels(
    proto: statistics_pb2.CommonStatistics, column: ColumnStatistics, null_steps: int
) -> None:
    """Adds presence and valency of a feature list's levels, as TFDV does.

    TFDV leaves them out where there is one level.
    """
    if column.weighted is not None:
        weight = column.weighted.num_values
        steps = column.weighted_steps or WeightedPresence(weight, 0.0, weight)
        proto.weighted_presence_and_valency_stats.extend(map(_weighted, (column.weighted, steps)))
    proto.presence_and_valency_stats.add(
        num_non_missing=column.present,
        num_missing=column.missing,
        min_num_values=column.min_values,
        max_num_values=column.max_values,
        tot_num_values=column.num_values,
    )
    filled = column.num_values - null_steps
    one = int(filled > 0)
    values = column.step_values or StepValues(one, one, filled)
    proto.presence_and_valency_stats.add(
        num_non_missing=filled,
        num_missing=null_steps,
        min_num_values=values.min_values,
        max_num_values=values.max_values,
        tot_num_values=values.num_values,
    )


def _fill_numeric(
    proto: statistics_pb2.NumericStatistics, values: NumberStatistics
) -> Iterator[histograms.Curve]:
    """Fills in all but the histograms; yields what they need."""
    if values.count:
        proto.mean, proto.std_dev = values.mean, _deviation(values)
        proto.num_zeros = values.zeros
        proto.min, proto.max = values.minimum or 0, values.maximum or 0
        yield _fill_median(proto, values, values)
    elif values.nans:
        for kind in (statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES):
            proto.histograms.add(type=kind, num_nan=values.nans)
    weighted = values.weighted
    if values.count and weighted is not None:
        proto.weighted_numeric_stats.mean = weighted.mean
        proto.weighted_numeric_stats.std_dev = _deviation(weighted)
        if weighted.moments.weight or weighted.minus_infinities or weighted.plus_infinities:
            yield _fill_median(proto.weighted_numeric_stats, weighted, values)


def _deviation(values: FiniteNumbers) -> float:
    """Returns the deviation; 0 where infinities leave none, as in TFDV."""
    deviation = values.standard_deviation
    return 0.0 if math.isnan(deviation) else deviation


def _fill_median(
    proto: statistics_pb2.NumericStatistics | statistics_pb2.WeightedNumericStatistics,
    values: FiniteNumbers,
    counted: NumberStatistics,
) -> histograms.Curve:
    """Fills in the median of values; returns what histograms need.

    The values may be weighted.
    """
    cuts, cumulated = values.cumulated(histograms.NUM_QUANTILES)
    proto.median = float(cuts[len(cuts) // 2])
    finite = (float(counted.values[0]), float(counted.values[-1])) if len(counted.values) else None
    return histograms.Curve(proto, cuts, cumulated, finite, values.plus_infinities, counted.nans)


def _string(values: TextStatistics) -> statistics_pb2.StringStatistics:
    proto = statistics_pb2.StringStatistics(unique=values.distinct, avg_length=values.average_bytes)
    _add_ranks(proto, values.top(_RANKS))
    if values.weighted is not None:
        ranks = [
            (value, weight)
            for value, weight in values.weighted.top(_RANKS)
            if weight >= _LOWEST_WEIGHT
        ]
        proto.weighted_string_stats.SetInParent()
        _add_ranks(proto.weighted_string_stats, ranks)
    return proto


def _add_ranks(
    proto: statistics_pb2.StringStatistics | statistics_pb2.WeightedStringStatistics,
    ranks: Sequence[tuple[str | bytes, float]],
) -> None:
    for value, count in ranks[:_TOP_VALUES]:
        proto.top_values.add(value=value, frequency=count)
    for rank, (value, count) in enumerate(ranks):
        proto.rank_histogram.buckets.add(
            low_rank=rank, high_rank=rank, label=value, sample_count=count
        )


def _bytes(values: TextStatistics) -> statistics_pb2.BytesStatistics:
    return statistics_pb2.BytesStatistics(
        unique=values.distinct,
        avg_num_bytes=values.average_bytes,
        min_num_bytes=values.min_bytes,
        max_num_bytes=values.max_bytes,
        max_num_bytes_int=values.max_bytes,
    )


def _sketched(
    values: NumberStatistics | TextStatistics, lengths: Distribution | None
) -> Iterator[str]:
    """Adds the custom statistic that names sketched statistics and their error bounds."""
    if isinstance(values, TextStatistics):
        for kind, value_counts in (("", values.value_counts), ("weighted ", values.weighted)):
            if isinstance(value_counts, ValueCounts) and not value_counts.exact:
                yield (
                    f"{kind}top_values and rank_histogram: up to "
                    f"{value_counts.undercount:.10g} too low"
                )
        if not values.exact:
            yield "unique: estimated"
    else:
        weighted = None if values.weighted is None else values.weighted.distribution
        for kind, distribution in (("", values.distribution), ("weighted ", weighted)):
            if distribution is not None and not distribution.exact:
                yield (
                    f"{kind}median and histograms: ranks up to "
                    f"{100 * distribution.rank_error:.2g} % off"
                )
    if lengths is not None and not lengths.exact:
        yield f"num_values_histogram: ranks up to {100 * lengths.rank_error:.2g} % off"
