"""Compares statistics with a schema: what does not fit is an anomaly, with TFDV's type, severity and wording.

See tensorflow_data_validation/anomalies (feature_util.cc, schema.cc, *_domain_util.cc) for the wording; where TFDV says only
that something is wrong, the numbers are added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2, schema_pb2, statistics_pb2

from beam_pipelines.schema import all_integers, schema_type
from beam_pipelines.statistics.numeric import NumberStatistics
from beam_pipelines.statistics.proto import feature_type
from beam_pipelines.statistics.table import ColumnStatistics, TableStatistics
from beam_pipelines.statistics.text import TextStatistics

_Info = anomalies_pb2.AnomalyInfo

# Of more unexpected texts, only the most frequent are named; TFDV names them all.
_NAMED_VALUES = 20
_RETIRED_STAGES = (
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
)


class Reason(NamedTuple):
    """One thing that is wrong with a feature.

    Attributes:
      type: ``AnomalyInfo.Type``.
      short: TFDV's short description.
      description: a sentence.
      expected, found: for a table.
    """

    type: int
    short: str
    description: str
    expected: str
    found: str


class Row(NamedTuple):
    """One line of a table of anomalies, as people read it."""

    split: str
    feature: str
    what: str
    expected: str
    found: str


@dataclasses.dataclass(frozen=True)
class SplitAnomalies:
    """What does not fit in one split.

    Attributes:
      reasons: feature name -> what is wrong with it, features in the schema's order, then those that are not in it.
      data_missing: whether the split has no rows; then nothing else is checked.
    """

    reasons: Mapping[str, tuple[Reason, ...]]
    data_missing: bool = False


def find_anomalies(statistics: Mapping[str, TableStatistics], schema: schema_pb2.Schema) -> dict[str, SplitAnomalies]:
    """Checks each split against the schema.

    Environments are not looked at: a feature that the schema requires anywhere is required in every split.

    Args:
      statistics: split name -> statistics.
      schema: what is expected.

    Returns:
      Split name -> anomalies, also of splits without any. Every one is an ERROR, as in TFDV.
    """
    return {split: _split_anomalies(table, schema) for split, table in statistics.items()}


def anomalies_to_proto(
    anomalies: Mapping[str, SplitAnomalies], schema: schema_pb2.Schema
) -> dict[str, anomalies_pb2.Anomalies]:
    """Returns each split's anomalies as TFDV writes them: one entry for a feature, with all its reasons."""
    return {split: _split_to_proto(found, schema) for split, found in anomalies.items()}


def _split_to_proto(anomalies: SplitAnomalies, schema: schema_pb2.Schema) -> anomalies_pb2.Anomalies:
    proto = anomalies_pb2.Anomalies(
        baseline=schema,
        anomaly_name_format=anomalies_pb2.Anomalies.SERIALIZED_PATH,
        data_missing=anomalies.data_missing,
    )
    for name, reasons in anomalies.reasons.items():
        info = proto.anomaly_info[name]
        info.path.CopyFrom(path_pb2.Path(step=[name]))
        info.severity = _Info.ERROR
        info.short_description = reasons[0].short if len(reasons) == 1 else "Multiple errors"
        info.description = " ".join(reason.description for reason in reasons)
        for reason in reasons:
            info.reason.add(type=reason.type, short_description=reason.short, description=reason.description)
    return proto


def describe(anomalies: Mapping[str, SplitAnomalies]) -> list[Row]:
    """Returns one row for each reason, by split and feature."""
    return [
        Row(split, feature, reason.short, reason.expected, reason.found)
        for split, found in anomalies.items()
        for feature, reasons in found.reasons.items()
        for reason in reasons
    ]


def _split_anomalies(table: TableStatistics, schema: schema_pb2.Schema) -> SplitAnomalies:
    if not table.rows:
        return SplitAnomalies({}, data_missing=True)
    domains = {domain.name: list(domain.value) for domain in schema.string_domain}
    reasons: dict[str, tuple[Reason, ...]] = {}
    for feature in schema.feature:
        if not _is_retired(feature):
            reasons[feature.name] = tuple(_feature_reasons(feature, table.columns.get(feature.name), domains))
    known = {feature.name for feature in schema.feature}
    for name in table.columns:
        if name not in known:
            reasons[name] = (_new_column(),)
    return SplitAnomalies({name: found for name, found in reasons.items() if found})


def _is_retired(feature: schema_pb2.Feature) -> bool:
    return bool(feature.deprecated) or feature.lifecycle_stage in _RETIRED_STAGES


def _new_column() -> Reason:
    description = "New column (column in data but not in schema)"
    return Reason(_Info.SCHEMA_NEW_COLUMN, "New column", description, "no such feature", "a column")


def _feature_reasons(
    feature: schema_pb2.Feature, column: ColumnStatistics | None, domains: Mapping[str, list[str]]
) -> Iterator[Reason]:
    required = feature.presence.min_count > 0 or feature.presence.min_fraction > 0
    if column is None:
        if required:
            description = "Column is completely missing"
            yield Reason(_Info.SCHEMA_MISSING_COLUMN, "Column dropped", description, "a column", "none")
        return
    if not column.present:
        if required:
            description = "The feature was not present in any examples."
            yield Reason(_Info.FEATURE_TYPE_NOT_PRESENT, "Column dropped", description, "values", "only nulls")
        return
    yield from _valency_reasons(feature, column)
    yield from _presence_reasons(feature.presence, column)
    if schema_type(column.type) != feature.type:
        yield _wrong_type(feature, column)
        return
    kind = feature.WhichOneof("domain_info")
    if kind in _REASONS_FOR_DOMAIN:
        yield from _REASONS_FOR_DOMAIN[kind](feature, column.values, domains)


def _wrong_type(feature: schema_pb2.Feature, column: ColumnStatistics) -> Reason:
    expected = schema_pb2.FeatureType.Name(feature.type)
    found = statistics_pb2.FeatureNameStatistics.Type.Name(feature_type(column.type))
    description = f"Expected data of type: {expected} but got {found}"
    return Reason(_Info.UNEXPECTED_DATA_TYPE, "Unexpected data type", description, expected, found)


def _presence_reasons(presence: schema_pb2.FeaturePresence, column: ColumnStatistics) -> Iterator[Reason]:
    fewer = "The feature was present in fewer examples than expected"
    if column.present < presence.min_count:
        yield Reason(
            _Info.FEATURE_TYPE_LOW_NUMBER_PRESENT,
            "Column dropped",
            f"{fewer}: minimum = {presence.min_count}, actual = {column.present}.",
            f"at least {presence.min_count:,} present",
            f"{column.present:,} present",
        )
    share = column.present / (column.present + column.missing)
    if share < presence.min_fraction:
        yield Reason(
            _Info.FEATURE_TYPE_LOW_FRACTION_PRESENT,
            "Column dropped",
            f"{fewer}: minimum fraction = {presence.min_fraction:f}, actual = {share:f}.",
            f"at least {100 * presence.min_fraction:.6g}% of the rows",
            f"{100 * share:.6g}% of the rows ({column.missing:,} missing)",
        )


def _valency_reasons(feature: schema_pb2.Feature, column: ColumnStatistics) -> Iterator[Reason]:
    if feature.HasField("shape"):
        size = 1
        for dimension in feature.shape.dim:
            size *= dimension.size
        if not column.min_values == column.max_values == size:
            found = f"{column.min_values} to {column.max_values} values"
            description = f"The feature has a shape of {size} values, but {found} in an example."
            yield Reason(_Info.INVALID_FEATURE_SHAPE, "Invalid feature shape", description, f"{size} values", found)
        return
    count = feature.value_count
    if count.HasField("min") and column.min_values < count.min:
        yield Reason(
            _Info.FEATURE_TYPE_LOW_NUMBER_VALUES,
            "Missing values",
            "Some examples have fewer values than expected.",
            f"at least {count.min} values",
            f"{column.min_values} values",
        )
    if count.HasField("max") and column.max_values > count.max:
        yield Reason(
            _Info.FEATURE_TYPE_HIGH_NUMBER_VALUES,
            "Superfluous values",
            "Some examples have more values than expected.",
            f"at most {count.max} values",
            f"{column.max_values} values",
        )


def _int_domain_reasons(
    feature: schema_pb2.Feature, values: NumberStatistics | TextStatistics, _: Mapping[str, list[str]]
) -> Iterator[Reason]:
    if isinstance(values, TextStatistics):
        if len(values.values) and not all_integers(values.values):
            bad = _first_bad(values, lambda text: all_integers(pa.array([text])))
            yield Reason(
                _Info.INT_TYPE_NOT_INT_STRING,
                "Invalid values",
                f'String values that were not ints were found, such as "{bad}".',
                "integers as text",
                f"'{bad}'",
            )
        return
    domain = feature.int_domain
    small, big = "Unexpectedly small value: {}.", "Unexpectedly large value: {}."
    yield from _range_reasons(domain, values, (_Info.INT_TYPE_SMALL_INT, small), (_Info.INT_TYPE_BIG_INT, big))


def _float_domain_reasons(
    feature: schema_pb2.Feature, values: NumberStatistics | TextStatistics, _: Mapping[str, list[str]]
) -> Iterator[Reason]:
    if isinstance(values, TextStatistics):
        return
    domain = feature.float_domain
    low, high = "Unexpectedly low values: {}<{}", "Unexpectedly high value: {}>{}"
    yield from _range_reasons(domain, values, (_Info.FLOAT_TYPE_SMALL_FLOAT, low), (_Info.FLOAT_TYPE_BIG_FLOAT, high))
    infinities = values.minus_infinities + values.plus_infinities
    if domain.disallow_nan and values.nans:
        description = f"Float feature has NaN values ({values.nans})."
        yield Reason(_Info.FLOAT_TYPE_HAS_NAN, "Invalid values", description, "no NaN", f"{values.nans:,} NaN")
    if domain.disallow_inf and infinities:
        description = f"Float feature has Inf or -Inf values ({infinities})."
        yield Reason(
            _Info.FLOAT_TYPE_HAS_INF, "Invalid values", description, "no infinities", f"{infinities:,} infinite"
        )


def _range_reasons(
    domain: Any, values: NumberStatistics, low: tuple[int, str], high: tuple[int, str]
) -> Iterator[Reason]:
    least, most = values.minimum, values.maximum
    if least is None or most is None:
        return
    if domain.HasField("min") and least < domain.min:
        description = low[1].format(_number(least), _number(domain.min))
        yield Reason(low[0], "Out-of-range values", description, f"at least {_number(domain.min)}", _number(least))
    if domain.HasField("max") and most > domain.max:
        description = high[1].format(_number(most), _number(domain.max))
        yield Reason(high[0], "Out-of-range values", description, f"at most {_number(domain.max)}", _number(most))


def _bool_domain_reasons(
    feature: schema_pb2.Feature, values: NumberStatistics | TextStatistics, _: Mapping[str, list[str]]
) -> Iterator[Reason]:
    domain = feature.bool_domain
    if isinstance(values, TextStatistics):
        allowed = sorted(getattr(domain, field) for field in ("true_value", "false_value") if domain.HasField(field))
        if pc.all(pc.is_in(values.values, pa.array(allowed, values.values.type))).as_py() is False:
            bad = _first_bad(values, lambda text: text in allowed)
            names = '{"' + '", "'.join(allowed) + '"}' if allowed else "{}"
            description = f'Saw unexpected value "{bad}" instead of {names}.'
            yield Reason(_Info.BOOL_TYPE_UNEXPECTED_STRING, "Non-boolean values", description, names, f"'{bad}'")
        return
    least, most = values.minimum, values.maximum
    if least is None or most is None:
        return
    strange = least if least not in (0, 1) else most
    if strange in (0, 1):
        return
    kind, numbers = _Info.BOOL_TYPE_UNEXPECTED_FLOAT, "Floats"
    if feature.type == schema_pb2.INT:
        kind, numbers = (_Info.BOOL_TYPE_SMALL_INT if strange < 0 else _Info.BOOL_TYPE_BIG_INT), "Integers"
    description = f"{numbers} (such as {_number(strange)}) not in {{0, 1}}."
    yield Reason(kind, "Non-boolean values", description, "0 or 1", _number(strange))


def _string_domain_reasons(
    feature: schema_pb2.Feature, values: NumberStatistics | TextStatistics, domains: Mapping[str, list[str]]
) -> Iterator[Reason]:
    if isinstance(values, NumberStatistics):
        return
    allowed = domains.get(feature.domain, []) if feature.HasField("domain") else list(feature.string_domain.value)
    known = pc.is_in(values.values, pa.array(allowed, pa.string()).cast(values.values.type))
    strange = dataclasses.replace(
        values,
        values=values.values.filter(pc.invert(known)),
        counts=values.counts[~known.to_numpy(zero_copy_only=False)],
    )
    constraints = feature.distribution_constraints
    tolerated = 1.0 - constraints.min_domain_mass if feature.HasField("distribution_constraints") else 0.0
    number = int(strange.counts.sum())
    if not number or number / values.count <= tolerated:
        return
    top = strange.top(_NAMED_VALUES)
    named = ", ".join(f"{_shown(value)} ({_share(count, values.count)})" for value, count in top)
    more = f" and {len(strange.counts) - len(top)} more" if len(strange.counts) > len(top) else ""
    yield Reason(
        _Info.ENUM_TYPE_UNEXPECTED_STRING_VALUES,
        "Unexpected string values",
        f"Examples contain values missing from the schema: {named}{more}. ",
        f"one of {len(allowed)} values",
        f"{named}{more}",
    )


_REASONS_FOR_DOMAIN: dict[str, Callable[..., Iterator[Reason]]] = {
    "int_domain": _int_domain_reasons,
    "float_domain": _float_domain_reasons,
    "bool_domain": _bool_domain_reasons,
    "string_domain": _string_domain_reasons,
    "domain": _string_domain_reasons,
}


def _first_bad(texts: TextStatistics, is_good: Callable[[str], bool]) -> str:
    """Returns the most frequent text that is not good (there is one)."""
    return next(_shown(value) for value, _ in texts.top(len(texts.values)) if not is_good(_shown(value)))


def _shown(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def _share(count: int, total: int) -> str:
    """Returns ``<1%`` or ``~12%``, as TFDV does."""
    percent = 100 * count / total
    return "<1%" if percent < 1 else f"~{int(percent)}%"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
