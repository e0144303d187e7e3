"""Rules for one feature: presence, values in a row, type, all together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules import reason
from beam_pipelines.analysis.anomalies.rules.domains import domain_findings
from beam_pipelines.analysis.statistics.view import FeatureView, Level
from beam_pipelines.core.layout.schema_features import TYPE_FOR_STATISTICS_TYPE, Domains

_Feature = statistics_pb2.FeatureNameStatistics
_FEWER = "The feature was present in fewer examples than expected"


def missing_column() -> reason.Reason:
    """Returns the reason for a feature without a column."""
    return reason.Reason(
        reason.Info.SCHEMA_MISSING_COLUMN,
        "Column dropped",
        "Column is completely missing",
        "a column",
        "none",
    )


def new_column() -> reason.Reason:
    """Returns the reason for a column that is not in the schema."""
    description = "New column (column in data but not in schema)"
    return reason.Reason(
        reason.Info.SCHEMA_NEW_COLUMN, "New column", description, "no such column", "a column"
    )


def not_in_environment(name: str, environment: str) -> reason.Reason:
    """Returns the reason for a column whose feature the environment lacks."""
    description = (
        f"New column {name} found in data but not in the environment {environment} in the schema."
    )
    short = "Column missing in environment"
    return reason.Reason(
        reason.Info.SCHEMA_NEW_COLUMN,
        short,
        description,
        f"none in environment {environment}",
        "a column",
    )


def not_present() -> reason.Reason:
    """Returns the finding about a required feature that has only nulls."""
    return reason.Reason(
        reason.Info.FEATURE_TYPE_NOT_PRESENT,
        "Column dropped",
        "The feature was not present in any examples.",
        "values",
        "only nulls",
        reason.deprecate,
    )


def presence_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[reason.Reason]:
    """Yields findings about the number and share of rows with the feature."""
    presence = feature.presence
    if presence.HasField("min_count") and view.column.present < presence.min_count:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_LOW_NUMBER_PRESENT,
            "Column dropped",
            f"{_FEWER}: minimum count = {presence.min_count}, actual = {view.column.present}",
            f"at least {presence.min_count:,} present",
            f"{view.column.present:,} present",
            reason.assign(view.column.present, "presence", "min_count"),
        )
    share = view.column.present / view.rows
    if presence.HasField("min_fraction") and share < presence.min_fraction:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_LOW_FRACTION_PRESENT,
            "Column dropped",
            f"{_FEWER}: minimum fraction = {presence.min_fraction:f}, actual = {share:f}",
            f"at least {100 * presence.min_fraction:.6g}% of the rows",
            f"{100 * share:.6g}% of the rows ({view.column.missing:,} missing)",
            reason.assign(share, "presence", "min_fraction"),
        )


def valency_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[reason.Reason]:
    """Yields the findings about the number of values in a row.

    Checks ``value_count``, ``value_counts`` and ``shape``.
    """
    if feature.HasField("value_count"):
        if len(view.levels) > 1:
            yield _nested_mismatch(
                "This feature has a value_count, but the nestedness level of the feature > 1. For "
                "features with nestedness "
                "levels greater than 1, value_counts, not value_count, should be specified.",
                "1 level",
                view,
            )
        else:
            yield from _count_findings(feature.value_count, view.levels[0], None)
    if feature.HasField("value_counts"):
        counts = feature.value_counts.value_count
        if len(counts) != len(view.levels):
            yield _nested_mismatch(
                "The values have a different nest level than expected. Value counts will not be "
                "checked.",
                f"{len(counts)} levels",
                view,
            )
        else:
            for level, count in enumerate(counts):
                yield from _count_findings(count, view.levels[level], level)
    if feature.HasField("shape"):
        yield from _shape_findings(feature, view)


def _nested_mismatch(description: str, expected: str, view: FeatureView) -> reason.Reason:
    return reason.Reason(
        reason.Info.VALUE_NESTEDNESS_MISMATCH,
        "Mismatched value nest level",
        description,
        f"{expected} of lists",
        f"{len(view.levels)} level{'s' * (len(view.levels) > 1)}",
        reason.clear("shape_type"),
    )


def _count_findings(
    count: schema_pb2.ValueCount, found: Level, level: int | None
) -> Iterator[reason.Reason]:
    where = "." if level is None else f" at nestedness level {level}."
    if count.HasField("min") and found.min_values < count.min:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_LOW_NUMBER_VALUES,
            "Missing values",
            f"Some examples have fewer values than expected{where}",
            f"at least {count.min} values",
            f"{found.min_values} values",
            partial(_widen_count, level=level, minimum=found.min_values),
        )
    if count.HasField("max") and found.max_values > count.max:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_HIGH_NUMBER_VALUES,
            "Superfluous values",
            f"Some examples have more values than expected{where}",
            f"at most {count.max} values",
            f"{found.max_values} values",
            partial(_widen_count, level=level, maximum=found.max_values),
        )


def _widen_count(
    feature: schema_pb2.Feature,
    _: Domains,
    *,
    level: int | None,
    minimum: int | None = None,
    maximum: int | None = None,
) -> None:
    count = feature.value_count if level is None else feature.value_counts.value_count[level]
    if minimum == 0:
        count.ClearField("min")
    elif minimum is not None:
        count.min = minimum
    if maximum is not None:
        count.max = maximum


def _shape_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[reason.Reason]:
    size = math.prod(dimension.size for dimension in feature.shape.dim)
    found = math.prod(level.min_values for level in view.levels)
    is_fixed = all(
        level.min_values == level.max_values > 0 and not level.missing for level in view.levels
    )
    if is_fixed and found == size:
        return
    description = (
        f"The feature has fixed value length {found} but it's not compatible with the "
        "specified shape."
    )
    shown = f"{found} values"
    if not is_fixed:
        description = (
            "The feature has a shape, but it's not always present (if the feature is nested, then "
            "it should always be present at each nested level) or its value lengths vary."
        )
        last = view.levels[-1]
        lengths = (
            str(last.min_values)
            if last.min_values == last.max_values
            else f"{last.min_values} to {last.max_values}"
        )
        shown = f"{lengths} values, {view.column.missing:,} missing"
    expected, short = f"{size} value{'s' * (size != 1)} in every row", "Feature shape dropped"
    yield reason.Reason(
        reason.Info.INVALID_FEATURE_SHAPE,
        short,
        description,
        expected,
        shown,
        reason.clear("shape"),
    )


def unique_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[reason.Reason]:
    """Yields the findings about the number of distinct values.

    As in TFDV, only texts are counted.
    """
    if not feature.HasField("unique_constraints"):
        return
    limits = feature.unique_constraints
    if view.texts is None:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_NO_UNIQUE,
            "No unique values",
            "UniqueConstraints specified for the feature, but unique values were not counted "
            "(i.e., feature is not string or categorical).",
            "a text feature",
            "numbers or bytes",
            reason.clear("unique_constraints"),
        )
        return
    unique = view.texts.distinct
    if limits.HasField("min") and unique < limits.min:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_LOW_UNIQUE,
            "Low number of unique values",
            f"Expected at least {limits.min} unique values but found only {unique}.",
            f"at least {limits.min:,} distinct values",
            f"{unique:,}",
            reason.assign(unique, "unique_constraints", "min"),
        )
    if limits.HasField("max") and unique > limits.max:
        yield reason.Reason(
            reason.Info.FEATURE_TYPE_HIGH_UNIQUE,
            "High number of unique values",
            f"Expected no more than {limits.max} unique values but found {unique}.",
            f"at most {limits.max:,} distinct values",
            f"{unique:,}",
            reason.assign(unique, "unique_constraints", "max"),
        )


RETIRED_STAGES = (
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
    schema_pb2.DISABLED,
)


def is_retired(feature: schema_pb2.Feature) -> bool:
    """Whether a feature is deprecated or its stage is not validated."""
    return bool(feature.deprecated) or feature.lifecycle_stage in RETIRED_STAGES


def is_in_environment(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature belongs to an environment; ``None`` contains every feature."""
    if environment is None or environment in feature.in_environment:
        return True
    return (
        environment not in feature.not_in_environment and environment in schema.default_environment
    )


def is_required(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature must be present in an environment."""
    presence = feature.presence
    return (presence.min_count > 0 or presence.min_fraction > 0) and is_in_environment(
        feature, schema, environment
    )


def feature_findings(
    feature: schema_pb2.Feature, view: FeatureView, domains: Domains, required: bool
) -> Iterator[reason.Reason]:
    """Yields the findings about an active feature that has a column.

    Values are checked only if they are counted and of the schema's type.

    Args:
      feature: feature of the schema.
      view: statistics of the feature.
      domains: string domains of the schema.
      required: whether the feature must be present.
    """
    if not view.column.present:
        if required:
            yield not_present()
        return
    yield from valency_findings(feature, view)
    yield from presence_findings(feature, view)
    if TYPE_FOR_STATISTICS_TYPE[view.type] != feature.type:
        expected, found = schema_pb2.FeatureType.Name(feature.type), _Feature.Type.Name(view.type)
        short = "Unexpected data type"
        description = f"Expected data of type: {expected} but got {found}"
        yield reason.Reason(
            reason.Info.UNEXPECTED_DATA_TYPE, short, description, expected, found, reason.deprecate
        )
    elif view.column.is_counted:
        yield from domain_findings(feature, view, domains)
        yield from unique_findings(feature, view)
