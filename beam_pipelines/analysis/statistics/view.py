"""A common view of accumulators and protos, for schema inference and validation."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.proto import SAMPLED, feature_type, to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.layout.schema_features import SEQUENCE, Steps, name_of, steps_of

Statistics: TypeAlias = TableStatistics | statistics_pb2.DatasetFeatureStatistics

_Feature = statistics_pb2.FeatureNameStatistics
# TFDV's sketches replace texts that are not UTF-8 by this.
_NOT_UTF8 = "__BYTES_VALUE__"


class Level(NamedTuple):
    """Missing lists and value counts at one level of nesting.

    ``min_values`` and ``max_values`` are the fewest and most of the lists that are not missing.
    """

    missing: int
    min_values: int
    max_values: int


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a feature.

    Attributes:
      values: string array of distinct texts, no nulls, unordered.
      counts: of each text.
      exact: whether these are all distinct texts.
      unique: number of distinct texts; an estimate if they were too many to count.
      are_utf8: whether all are valid UTF-8.
    """

    values: pa.Array
    counts: npt.NDArray[np.int64]
    exact: bool
    unique: int
    are_utf8: bool = True

    def where(self, chosen: npt.NDArray[np.bool_]) -> Texts:
        """Returns the texts chosen by a mask over ``values``."""
        return dataclasses.replace(
            self, values=self.values.filter(pa.array(chosen)), counts=self.counts[chosen]
        )

    def ordered(self) -> list[tuple[str, int]]:
        """Returns texts and counts in TFDV's order: count, then text, both descending."""
        pairs = zip(self.values.to_pylist(), self.counts.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)


@dataclasses.dataclass(frozen=True)
class FeatureView:
    """Statistics of one feature.

    Attributes:
      path: of the feature.
      type: ``FeatureNameStatistics.Type``.
      rows: number of rows of the split.
      present, missing: numbers of rows with and without it; in a struct, of values of the struct.
      levels: outermost first; one unless the feature has lists of lists.
      num_values: values in all rows.
      texts: of a STRING feature, or of categorical integers; else ``None``.
      minimum, maximum: of a number, infinities included; ``None`` if all are NaN.
      distinct: number of different integers; ``None`` of other values, and if it is not known.
      is_temporal: whether integers are known to be dates or times.
      nans: number of NaN values.
      infinities: numbers of minus and plus infinities.
      has_values_between_0_and_1: whether a number is known to be strictly between them.
      is_feature_list: whether it is a feature list of tf.SequenceExamples, whose levels are its
        steps and their values.
      is_counted: whether the values were counted; else only presence, type and numbers of values
        are known.
      counted: number of values that were counted, about, if only those of a sample of the rows
        were; else ``None``.
    """

    path: Steps
    type: int
    rows: int
    present: int
    missing: int
    levels: tuple[Level, ...]
    num_values: int
    texts: Texts | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    distinct: int | None = None
    is_temporal: bool = False
    nans: int = 0
    infinities: tuple[float, float] = (0, 0)
    has_values_between_0_and_1: bool = False
    is_feature_list: bool = False
    is_counted: bool = True
    counted: int | None = None

    @property
    def counted_values(self) -> int:
        """Number of counted values, of all rows or of a sample."""
        return self.num_values if self.counted is None else self.counted

    @property
    def strings(self) -> Texts | None:
        """The texts of a STRING feature."""
        return self.texts if self.type == _Feature.STRING else None

    @property
    def fraction_present(self) -> float:
        """Share of rows that have the feature; 1 if none is missing.

        In a struct it may be above 1, as in TFDV.
        """
        return self.present / self.rows if self.missing else 1.0


@dataclasses.dataclass(frozen=True)
class DatasetView:
    """Statistics of a split: its rows, and its features by name.

    The features are in order.
    """

    rows: int
    features: Mapping[str, FeatureView]

    @functools.cached_property
    def paths(self) -> dict[Steps, FeatureView]:
        """The features by their paths."""
        return {feature.path: feature for feature in self.features.values()}


def view_of(statistics: Statistics) -> DatasetView:
    """Returns the view of one split's statistics.

    Weighted counts of a proto are ignored. Its distinct texts are those of the rank histogram (by
    default the 1,000 most frequent), and a feature without statistics is left out, as in TFDV. A
    struct precedes its features.
    """
    if isinstance(statistics, TableStatistics):
        return DatasetView(
            statistics.rows,
            {name: view_of_column(name, column) for name, column in statistics.columns.items()},
        )
    features = {
        feature_name(feature): _of_proto(feature, int(statistics.num_examples))
        for feature in _structs_first(statistics.features)
        if feature.WhichOneof("stats") and steps_in(feature) != (SEQUENCE,)
    }
    return DatasetView(int(statistics.num_examples), features)


def proto_of(statistics: Statistics) -> statistics_pb2.DatasetFeatureStatistics:
    """Returns one split's statistics as a proto."""
    if isinstance(statistics, TableStatistics):
        return to_proto({"": statistics})[""].datasets[0]
    return statistics


def feature_name(feature: statistics_pb2.FeatureNameStatistics) -> str:
    """Returns the name of a proto's feature, see ``name_of``."""
    return name_of(steps_in(feature))


def steps_in(feature: statistics_pb2.FeatureNameStatistics) -> Steps:
    """Returns the path of a proto's feature."""
    return tuple(feature.path.step) if feature.HasField("path") else (feature.name,)


def _structs_first(
    features: Sequence[statistics_pb2.FeatureNameStatistics],
) -> list[statistics_pb2.FeatureNameStatistics]:
    """Returns features with each struct before its own, which keep their order."""
    first: dict[Steps, int] = {}
    keys = []
    for number, feature in enumerate(features):
        steps = steps_in(feature)
        key = [number]
        if not is_feature_list(feature):
            prefixes = (steps[:end] for end in range(1, len(steps) + 1))
            key = [first.setdefault(prefix, number) for prefix in prefixes]
        keys.append((key, number))
    return [features[number] for _, number in sorted(keys)]


def is_feature_list(feature: statistics_pb2.FeatureNameStatistics) -> bool:
    """Whether the statistics are those of a feature list of tf.SequenceExamples."""
    return len(feature.path.step) == 2 and feature.path.step[0] == SEQUENCE


def view_of_column(name: str, column: ColumnStatistics) -> FeatureView:
    """Returns the view of one column's statistics."""
    view = FeatureView(
        steps_of(name, column.null_steps is not None),
        feature_type(column.type),
        column.present + column.missing,
        column.present,
        column.missing,
        (Level(column.missing, column.min_values, column.max_values), *_steps(column)),
        column.innermost.num_values,
        is_feature_list=column.null_steps is not None,
        is_counted=column.is_counted,
        counted=None if column.sampled is None else _counted(column.values),
    )
    if not column.is_counted:
        return view
    values = column.values
    if isinstance(values, NumberStatistics):
        inner = len(values.values) and bool(np.any((values.values > 0) & (values.values < 1)))
        return dataclasses.replace(
            view,
            minimum=values.minimum,
            maximum=values.maximum,
            distinct=values.distinct if view.type == _Feature.INT else None,
            is_temporal=pa.types.is_temporal(value_type(column.type)),
            nans=values.nans,
            infinities=(values.minus_infinities, values.plus_infinities),
            has_values_between_0_and_1=bool(inner),
            texts=None if column.categories is None else _texts(column.categories),
        )
    return dataclasses.replace(view, texts=_texts(values)) if view.type == _Feature.STRING else view


def _counted(values: NumberStatistics | TextStatistics) -> int:
    return values.count + (values.nans if isinstance(values, NumberStatistics) else 0)


def _steps(column: ColumnStatistics) -> Iterator[Level]:
    """Yields the second level of a feature list.

    A null step has no value, so that no number of values is promised in every step.
    """
    if column.null_steps is None:
        return
    one = int(column.num_values > column.null_steps)
    fewest, most, _ = column.step_values or (one, one, 0)
    yield Level(column.null_steps, 0 if column.null_steps else fewest, most)


def _texts(values: TextStatistics) -> Texts:
    return Texts(values.values, values.counts, values.exact, values.distinct)


def _of_proto(feature: statistics_pb2.FeatureNameStatistics, rows: int) -> FeatureView:
    stats = getattr(feature, feature.WhichOneof("stats"))
    common = stats.common_stats
    nested = [
        Level(int(level.num_missing), int(level.min_num_values), int(level.max_num_values))
        for level in common.presence_and_valency_stats
    ]
    if is_feature_list(feature) and len(nested) == 2 and nested[1].missing:
        nested[1] = nested[1]._replace(min_values=0)
    flat = Level(int(common.num_missing), int(common.min_num_values), int(common.max_num_values))
    num_values = int(common.tot_num_values)
    view = FeatureView(
        steps_in(feature),
        feature.type,
        rows,
        int(common.num_non_missing),
        int(common.num_missing),
        tuple(nested) or (flat,),
        num_values,
        is_feature_list=is_feature_list(feature),
        counted=_sampled_values(feature, num_values, rows),
    )
    if feature.HasField("num_stats"):
        return _with_numbers(view, feature.num_stats)
    if not feature.HasField("string_stats"):
        return view
    texts = _proto_texts(stats)
    numbers = [int(text) for text in texts.values.to_pylist()] if view.type == _Feature.INT else []
    return dataclasses.replace(
        view, texts=texts, minimum=min(numbers, default=None), maximum=max(numbers, default=None)
    )


def _sampled_values(
    feature: statistics_pb2.FeatureNameStatistics, num_values: int, rows: int
) -> int | None:
    """Returns about how many values of sampled rows were counted."""
    sampled = [custom.num for custom in feature.custom_stats if custom.name == SAMPLED]
    return round(num_values * sampled[0] / rows) if sampled and rows else None


def _infinities(stats: statistics_pb2.NumericStatistics) -> tuple[float, float]:
    """Returns the numbers of minus and plus infinities of a STANDARD histogram.

    Each has a bucket of its own, unless all values are infinite, which are in one bucket then.
    """
    buckets = [
        bucket
        for histogram in stats.histograms
        if histogram.type == statistics_pb2.Histogram.STANDARD
        for bucket in histogram.buckets
    ]
    if math.isinf(stats.min) and math.isinf(stats.max) and len(buckets) == 1:
        count, plus = buckets[0].sample_count, ((stats.min > 0) + (stats.max > 0)) / 2
        return count * (1 - plus), count * plus
    minus, plus = (
        sum(one.sample_count for one in buckets if one.low_value == one.high_value == infinity)
        for infinity in (-math.inf, math.inf)
    )
    return minus, plus


def _with_numbers(view: FeatureView, stats: statistics_pb2.NumericStatistics) -> FeatureView:
    nans = max((int(histogram.num_nan) for histogram in stats.histograms), default=0)
    if not any(histogram.buckets for histogram in stats.histograms) and (
        nans or view.counted is not None
    ):
        return dataclasses.replace(view, nans=nans)
    number = int if view.type == _Feature.INT else float
    buckets = [
        bucket
        for histogram in stats.histograms
        for bucket in histogram.buckets
        if bucket.sample_count > 0
    ]
    return dataclasses.replace(
        view,
        minimum=number(stats.min),
        maximum=number(stats.max),
        nans=nans,
        infinities=_infinities(stats),
        has_values_between_0_and_1=any(
            bucket.low_value > 0 and bucket.high_value < 1 for bucket in buckets
        ),
    )


def _proto_texts(stats: statistics_pb2.StringStatistics) -> Texts:
    buckets = stats.rank_histogram.buckets
    labels = [bucket.label for bucket in buckets]
    return Texts(
        pa.array(labels, pa.string()),
        np.array([bucket.sample_count for bucket in buckets], np.float64).astype(np.int64),
        exact=len(labels) == stats.unique,
        unique=int(stats.unique),
        are_utf8=not stats.invalid_utf8_count and _NOT_UTF8 not in labels,
    )
