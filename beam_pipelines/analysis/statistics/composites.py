"""Counts of sparse and weighted features: missing columns, and lengths that differ.

A schema's sparse feature is a column of values with columns of their indices, a weighted feature a
column of values with a column of their weights. Definitions and names are those of TFDV's
``SparseFeatureStatsGenerator`` and ``WeightedFeatureStatsGenerator``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

Mask = npt.NDArray[np.bool_]
Lengths = npt.NDArray[np.int64]


class Composite(NamedTuple):
    """A sparse or weighted feature.

    Attributes:
      name: of the feature.
      value: the column of the values.
      others: columns of the indices, in order of their names; or the column of the weights.
      is_weighted: whether it is a weighted feature.
    """

    name: str
    value: str
    others: tuple[str, ...]
    is_weighted: bool = False


class CompositeCounts(NamedTuple):
    """Counts of the rows with a value in any column.

    Attributes:
      composite: the feature.
      missing_values: rows that lack the values.
      missing_others: rows that lack each of the other columns.
      least, most: of each of the other columns, the least and the largest difference of its number
        of values and that of the value column; ``None`` without rows.
    """

    composite: Composite
    missing_values: int
    missing_others: tuple[int, ...]
    least: tuple[int, ...] | None
    most: tuple[int, ...] | None


def composites_in(schema: schema_pb2.Schema) -> tuple[Composite, ...]:
    """Returns the sparse and weighted features of a schema.

    Deprecated ones are among them.
    """
    sparse = (
        Composite(
            feature.name,
            feature.value_feature.name,
            tuple(sorted({index.name for index in feature.index_feature})),
        )
        for feature in schema.sparse_feature
    )
    weighted = (
        Composite(
            feature.name,
            ".".join(feature.feature.step),
            (".".join(feature.weight_feature.step),),
            is_weighted=True,
        )
        for feature in schema.weighted_feature
    )
    return (*sparse, *weighted)


def count_composite(batch: pa.RecordBatch, composite: Composite) -> CompositeCounts:
    """Returns the counts of a batch's rows.

    A null, and a column that the batch lacks, are missing and have no values. An empty list is
    present. A column without lists has one value in a present row.
    """
    values, lengths = _presence(batch, composite.value)
    others = [_presence(batch, name) for name in composite.others]
    is_any = np.logical_or.reduce([values, *(present for present, _ in others)])
    least = most = None
    if is_any.any():
        differences = [(other - lengths)[is_any] for _, other in others]
        least = tuple(int(difference.min()) for difference in differences)
        most = tuple(int(difference.max()) for difference in differences)
    return CompositeCounts(
        composite,
        int((is_any & ~values).sum()),
        tuple(int((is_any & ~present).sum()) for present, _ in others),
        least,
        most,
    )


def merged_counts(parts: Sequence[CompositeCounts]) -> CompositeCounts:
    """Returns the counts of all parts' rows.

    There is at least one part; all are of one feature.
    """
    least = [part.least for part in parts if part.least is not None]
    most = [part.most for part in parts if part.most is not None]
    return CompositeCounts(
        parts[0].composite,
        sum(part.missing_values for part in parts),
        tuple(map(sum, zip(*(part.missing_others for part in parts), strict=True))),
        tuple(map(min, zip(*least, strict=True))) if least else None,
        tuple(map(max, zip(*most, strict=True))) if most else None,
    )


def custom_statistics(counts: CompositeCounts) -> Iterator[statistics_pb2.CustomStatistic]:
    """Yields the counts as TFDV's custom statistics of the feature."""
    composite = counts.composite
    zeros = (0,) * len(composite.others)
    least, most = counts.least or zeros, counts.most or zeros
    if composite.is_weighted:
        yield _number("missing_weight", counts.missing_others[0])
        yield _number("missing_value", counts.missing_values)
        yield _number("min_weight_length_diff", least[0])
        yield _number("max_weight_length_diff", most[0])
    else:
        yield _number("missing_value", counts.missing_values)
        yield _histogram("missing_index", composite.others, counts.missing_others)
        yield _histogram("max_length_diff", composite.others, most)
        yield _histogram("min_length_diff", composite.others, least)


def _presence(batch: pa.RecordBatch, name: str) -> tuple[Mask, Lengths]:
    """Returns whether each row has values, and how many."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, bool), np.zeros(batch.num_rows, np.int64)
    array = batch.column(name)
    present: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    if not pa.types.is_list(array.type):
        return present, present.astype(np.int64)
    lengths: Lengths = array.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    return present, lengths


def _number(name: str, value: int) -> statistics_pb2.CustomStatistic:
    return statistics_pb2.CustomStatistic(name=name, num=value)


def _histogram(
    name: str, columns: Sequence[str], counts: Sequence[int]
) -> statistics_pb2.CustomStatistic:
    statistic = statistics_pb2.CustomStatistic(name=name)
    statistic.rank_histogram.SetInParent()
    for column, count in zip(columns, counts, strict=True):
        statistic.rank_histogram.buckets.add(label=column, sample_count=count)
    return statistic
