"""Rules for sparse and weighted features, which combine columns of the data.

Their counts are custom statistics, which TFDV computes by row with ``StatsOptions(schema=…)``. The
rules follow TFDV's ``UpdateSparseFeature`` and ``UpdateWeightedFeature``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules.feature import RETIRED_STAGES, is_retired
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason

Composite: TypeAlias = schema_pb2.SparseFeature | schema_pb2.WeightedFeature
CustomStatistics: TypeAlias = Sequence[statistics_pb2.CustomStatistic]

_MISSING = {
    "missing_value": Info.WEIGHTED_FEATURE_MISSING_VALUE,
    "missing_weight": Info.WEIGHTED_FEATURE_MISSING_WEIGHT,
}


def composites_of(schema: schema_pb2.Schema) -> dict[str, Composite]:
    """Returns the sparse and weighted features that are active, by name.

    Of two with one name the weighted one counts, as in TFDV.
    """
    every = (*schema.sparse_feature, *schema.weighted_feature)
    return {composite.name: composite for composite in every if _is_active(composite)}


def _is_active(composite: Composite) -> bool:
    is_deprecated = isinstance(composite, schema_pb2.SparseFeature) and composite.deprecated
    return not is_deprecated and composite.lifecycle_stage not in RETIRED_STAGES


def composite_reasons(
    composite: Composite, schema: schema_pb2.Schema, statistics: CustomStatistics
) -> tuple[Reason, ...]:
    """Returns the reasons that concern a sparse or weighted feature.

    Args:
      composite: the feature.
      schema: its schema.
      statistics: custom statistics of this name; without any, only names are checked.
    """
    others: list[schema_pb2.Feature | Composite] = [
        feature for feature in schema.feature if not is_retired(feature)
    ]
    if isinstance(composite, schema_pb2.SparseFeature):
        kind, checks = "Sparse", _sparse_reasons
        type_ = Info.SPARSE_FEATURE_NAME_COLLISION
    else:
        kind, checks = "Weighted", _weighted_reasons
        type_ = Info.WEIGHTED_FEATURE_NAME_COLLISION
        others += schema.sparse_feature
    if any(other.name == composite.name for other in others):
        short = f"{kind} feature name collision"
        return (Reason(type_, short, f"{short}.", "a name of its own", composite.name),)
    return tuple(checks(statistics))


def _sparse_reasons(statistics: CustomStatistics) -> Iterator[Reason]:
    for custom in statistics:
        buckets = [bucket for bucket in custom.rank_histogram.buckets if bucket.sample_count]
        if custom.name == "missing_value" and custom.num:
            count = f"{int(custom.num)} examples missing value feature"
            yield _missing(Info.SPARSE_FEATURE_MISSING_VALUE, "value", f"Found {count}", custom.num)
        elif custom.name == "missing_index":
            for bucket in buckets:
                count = f"{int(bucket.sample_count)} examples missing index feature"
                yield _missing(
                    Info.SPARSE_FEATURE_MISSING_INDEX,
                    "index",
                    f"Found {count}: {bucket.label}",
                    bucket.sample_count,
                )
        elif custom.name in ("max_length_diff", "min_length_diff"):
            for bucket in buckets:
                found = f"{custom.name} = {int(bucket.sample_count)}"
                yield Reason(
                    Info.SPARSE_FEATURE_LENGTH_MISMATCH,
                    "Length mismatch between value and index feature",
                    f"Mismatch between index feature: {bucket.label} and value column, with "
                    f"{found}",
                    f"as many values as in '{bucket.label}'",
                    found,
                )


def _weighted_reasons(statistics: CustomStatistics) -> Iterator[Reason]:
    counts: Mapping[str, int] = {custom.name: int(custom.num) for custom in statistics}
    for statistic, missing in counts.items():
        if missing and statistic in _MISSING:
            name = statistic.removeprefix("missing_")
            description = f"Found {missing} examples missing {name} feature."
            yield _missing(_MISSING[statistic], name, description, missing)
    least, most = (counts.get(f"{end}_weight_length_diff", 0) for end in ("min", "max"))
    if least or most:
        found = f"min_weight_length_diff = {least} and max_weight_length_diff = {most}"
        yield Reason(
            Info.WEIGHTED_FEATURE_LENGTH_MISMATCH,
            "Length mismatch between value and weight feature",
            f"Mismatch between weight and value feature with {found}.",
            "as many weights as values",
            found,
        )


def _missing(type_: int, what: str, description: str, rows: float) -> Reason:
    return Reason(
        type_,
        f"Missing {what} feature",
        description,
        f"the {what} feature in the same rows",
        f"{int(rows):,} rows without",
    )
