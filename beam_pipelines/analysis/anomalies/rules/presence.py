"""Rules for presence, number of values, type and distinct values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason, ReasonFound, deprecate
from beam_pipelines.analysis.statistics.view import FeatureView, Level
from beam_pipelines.core.layout.schema_features import (
    TYPE_FOR_STATISTICS_TYPE,
    Domains,
)

_Feature = statistics_pb2.FeatureNameStatistics
_FEWER = "The feature was present in fewer examples than expected"


def missing_column() -> Reason:
    """Returns the reason for a feature without a column."""
    return Reason(
        Info.SCHEMA_MISSING_COLUMN,
        "Column dropped",
        "Column is completely missing",
        "a column",
        "none",
    )


def new_column() -> Reason:
    """Returns the reason for a column that is not in the schema."""
    description = "New column (column in data but not in schema)"
    return Reason(Info.SCHEMA_NEW_COLUMN, "New column", description, "no such column", "a column")


def not_in_environment(name: str, environment: str) -> Reason:
    """Returns the reason for a column whose feature the environment lacks."""
    description = (
        f"New column {name} found in data but not in the environment {environment} in the schema."
    )
    short = "Column missing in environment"
    return Reason(
        Info.SCHEMA_NEW_COLUMN, short, description, f"none in environment {environment}", "a column"
    )


def not_present() -> ReasonFound:
    """Returns the finding about a required feature that has only nulls."""
    description = "The feature was not present in any examples."
    reason = Reason(
        Info.FEATURE_TYPE_NOT_PRESENT, "Column dropped", description, "values", "only nulls"
    )
    return ReasonFound(reason, deprecate)


def wrong_type(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[ReasonFound]:
    """Yields the finding about a feature of another type than the schema's."""
    if TYPE_FOR_STATISTICS_TYPE[view.type] == feature.type:
        return
    expected, found = schema_pb2.FeatureType.Name(feature.type), _Feature.Type.Name(view.type)
    description = f"Expected data of type: {expected} but got {found}"
    yield ReasonFound(
        Reason(Info.UNEXPECTED_DATA_TYPE, "Unexpected data type", description, expected, found),
        deprecate,
    )


def presence_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[ReasonFound]:
    """Yields findings about the number and share of rows with the feature."""
    presence = feature.presence
    if presence.HasField("min_count") and view.present < presence.min_count:

        def lower_count(feature: schema_pb2.Feature, _: Domains) -> None:
            feature.presence.min_count = view.present

        reason = Reason(
            Info.FEATURE_TYPE_LOW_NUMBER_PRESENT,
            "Column dropped",
            f"{_FEWER}: minimum count = {presence.min_count}, actual = {view.present}",
            f"at least {presence.min_count:,} present",
            f"{view.present:,} present",
        )
        yield ReasonFound(reason, lower_count)
    share = view.fraction_present
    if presence.HasField("min_fraction") and share < presence.min_fraction:

        def lower_fraction(feature: schema_pb2.Feature, _: Domains) -> None:
            feature.presence.min_fraction = share

        reason = Reason(
            Info.FEATURE_TYPE_LOW_FRACTION_PRESENT,
            "Column dropped",
            f"{_FEWER}: minimum fraction = {presence.min_fraction:f}, actual = {share:f}",
            f"at least {100 * presence.min_fraction:.6g}% of the rows",
            f"{100 * share:.6g}% of the rows ({view.missing:,} missing)",
        )
        yield ReasonFound(reason, lower_fraction)


def valency_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[ReasonFound]:
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


def _nested_mismatch(description: str, expected: str, view: FeatureView) -> ReasonFound:
    def clear(feature: schema_pb2.Feature, _: Domains) -> None:
        feature.ClearField("shape_type")

    levels = f"{len(view.levels)} levels" if len(view.levels) > 1 else "1 level"
    reason = Reason(
        Info.VALUE_NESTEDNESS_MISMATCH,
        "Mismatched value nest level",
        description,
        f"{expected} of lists",
        levels,
    )
    return ReasonFound(reason, clear)


def _count_findings(
    count: schema_pb2.ValueCount, found: Level, level: int | None
) -> Iterator[ReasonFound]:
    where = "." if level is None else f" at nestedness level {level}."
    if count.HasField("min") and found.min_values < count.min:
        reason = Reason(
            Info.FEATURE_TYPE_LOW_NUMBER_VALUES,
            "Missing values",
            f"Some examples have fewer values than expected{where}",
            f"at least {count.min} values",
            f"{found.min_values} values",
        )
        yield ReasonFound(reason, partial(_widen_count, level=level, minimum=found.min_values))
    if count.HasField("max") and found.max_values > count.max:
        reason = Reason(
            Info.FEATURE_TYPE_HIGH_NUMBER_VALUES,
            "Superfluous values",
            f"Some examples have more values than expected{where}",
            f"at most {count.max} values",
            f"{found.max_values} values",
        )
        yield ReasonFound(reason, partial(_widen_count, level=level, maximum=found.max_values))


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


def _shape_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[ReasonFound]:
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
            "it should always be "
            "present at each nested level) or its value lengths vary."
        )
        last = view.levels[-1]
        lengths = (
            str(last.min_values)
            if last.min_values == last.max_values
            else f"{last.min_values} to {last.max_values}"
        )
        shown = f"{lengths} values, {view.missing:,} missing"

    def clear(feature: schema_pb2.Feature, _: Domains) -> None:
        feature.ClearField("shape")

    expected = f"{size} value{'s' * (size != 1)} in every row"
    yield ReasonFound(
        Reason(Info.INVALID_FEATURE_SHAPE, "Feature shape dropped", description, expected, shown),
        clear,
    )


def unique_findings(feature: schema_pb2.Feature, view: FeatureView) -> Iterator[ReasonFound]:
    """Yields the findings about the number of distinct values.

    As in TFDV, only texts are counted.
    """
    if not feature.HasField("unique_constraints"):
        return
    limits = feature.unique_constraints
    if view.texts is None:

        def clear(feature: schema_pb2.Feature, _: Domains) -> None:
            feature.ClearField("unique_constraints")

        description = (
            "UniqueConstraints specified for the feature, but unique values were not counted "
            "(i.e., feature is not string or "
            "categorical)."
        )
        reason = Reason(
            Info.FEATURE_TYPE_NO_UNIQUE,
            "No unique values",
            description,
            "a text feature",
            "numbers or bytes",
        )
        yield ReasonFound(reason, clear)
        return
    unique = view.texts.unique

    def widen(feature: schema_pb2.Feature, _: Domains) -> None:
        limits = feature.unique_constraints
        if limits.HasField("min"):
            limits.min = min(limits.min, unique)
        if limits.HasField("max"):
            limits.max = max(limits.max, unique)

    if limits.HasField("min") and unique < limits.min:
        description = f"Expected at least {limits.min} unique values but found only {unique}."
        short, expected = "Low number of unique values", f"at least {limits.min:,} distinct values"
        yield ReasonFound(
            Reason(Info.FEATURE_TYPE_LOW_UNIQUE, short, description, expected, f"{unique:,}"), widen
        )
    if limits.HasField("max") and unique > limits.max:
        description = f"Expected no more than {limits.max} unique values but found {unique}."
        short, expected = "High number of unique values", f"at most {limits.max:,} distinct values"
        yield ReasonFound(
            Reason(Info.FEATURE_TYPE_HIGH_UNIQUE, short, description, expected, f"{unique:,}"),
            widen,
        )
