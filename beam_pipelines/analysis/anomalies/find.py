"""Finds anomalies: differences between statistics and a schema.

Type, severity and wording are TFDV's (tensorflow_data_validation/anomalies: feature_util.cc,
schema.cc, *_domain_util.cc).

The rules are in ``analysis.rules``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY, ValidationPolicy
from beam_pipelines.analysis.anomalies.rules import comparators
from beam_pipelines.analysis.anomalies.rules import feature as feature_rules
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason
from beam_pipelines.analysis.anomalies.rules.specification import corrected
from beam_pipelines.analysis.compare import compare_columns, same_splits
from beam_pipelines.analysis.statistics.proto import proto_of
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import FeatureView, views_of
from beam_pipelines.core.layout import schema_features

# A step of a path that TFDV writes without quotes (path.cc).
_PLAIN_STEP = re.compile(r"\([^()]*\)|[^().']+", re.DOTALL)
# Shown instead of a feature's name for an anomaly of a whole split.
DATASET = "(the split)"


class Row(NamedTuple):
    """One line of a table of anomalies.

    ``type`` is TFDV's name of the anomaly, ``severity`` ERROR, or WARNING if it is accepted.
    """

    split: str
    feature: str
    what: str
    expected: str
    found: str
    severity: str = "ERROR"
    type: str = ""
    is_accepted: bool = False


@dataclasses.dataclass(frozen=True)
class SplitAnomalies:
    """Anomalies of one split.

    Attributes:
      reasons: feature name -> reasons; features of the schema first, in its order.
      data_missing: whether the split has no rows; then no feature is checked.
      dataset: reasons that concern the split as a whole.
      measured: all measurements of drift and skew, also those below their thresholds.
      paths: feature name -> path, where the path is more than the name.
    """

    reasons: Mapping[str, tuple[Reason, ...]]
    data_missing: bool = False
    dataset: tuple[Reason, ...] = ()
    measured: tuple[anomalies_pb2.DriftSkewInfo, ...] = ()
    paths: Mapping[str, schema_features.Steps] = dataclasses.field(default_factory=dict)

    @property
    def has_errors(self) -> bool:
        """Whether any anomaly is an ERROR."""
        found = (
            *self.dataset,
            *(reason for reasons in self.reasons.values() for reason in reasons),
        )
        return not all(reason.is_accepted for reason in found)


def find_anomalies(
    statistics: Mapping[str, TableStatistics],
    schema: schema_pb2.Schema,
    policy: ValidationPolicy = DEFAULT_POLICY,
    baseline: Mapping[str, TableStatistics] | None = None,
) -> dict[str, SplitAnomalies]:
    """Checks each split against the schema, the baseline and the first split.

    The baseline is compared by the schema's thresholds, or as the policy says, as ``compare`` does.

    Args:
      statistics: split name -> statistics. The first split is TFDV's training data. Skew is
        measured between it and each other split, and reported for the other split.
      schema: the expectations.
      policy: the environment, and what is accepted.
      baseline: split name -> statistics of an earlier dataset; ``None`` compares with none.

    Returns:
      Split name -> anomalies, for every split. Each anomaly is an ERROR, as in TFDV, unless the
      policy accepts it.
    """
    first = next(iter(statistics.values()), None)
    known = {} if baseline is None else baseline
    same = same_splits(statistics, known)
    lost = [comparators.missing_split(one, False) for one in known if one not in same.values()]
    found = {}
    for split, current in statistics.items():
        columns, rows = views_of(current), current.rows
        reasons = dict(_feature_reasons(columns, schema, policy.environment)) if rows else {}
        measured: dict[str, anomalies_pb2.DriftSkewInfo] = {}
        previous = known[same[split]] if split in same else None
        todo = _compared(current, None if current is first else first, previous, baseline)
        for name, more in (
            *(_comparisons(todo, columns, schema, measured) if rows else ()),
            *(_differences(previous, current) if rows and policy.compares else ()),
        ):
            reasons[name] = (*reasons.get(name, ()), *more)
        rows_before = None if previous is None else previous.rows
        dataset = [*comparators.dataset_reasons(schema.dataset_constraints, rows, rows_before)]
        if policy.compares:
            dataset += [comparators.missing_split(split, True)] if rows and previous is None else []
            dataset += lost
            lost = []
        found[split] = SplitAnomalies(
            {
                name: _with_accepted(some, name, policy)
                for name, some in _in_order(reasons, schema)
                if some
            },
            data_missing=not rows,
            dataset=_with_accepted(dataset, DATASET, policy),
            measured=tuple(measured.values()),
            paths={
                schema_features.name_of(path): path
                for path in [*schema_features.features_by_path(schema), *columns]
                if len(path) > 1
            },
        )
    return found


def _with_accepted(
    reasons: Iterable[Reason], name: str, policy: ValidationPolicy
) -> tuple[Reason, ...]:
    """Returns the reasons of a feature, accepted as the policy says."""
    return tuple(
        reason._replace(is_accepted=policy.accepts(reason.type, name)) for reason in reasons
    )


def _in_order(
    reasons: Mapping[str, tuple[Reason, ...]], schema: schema_pb2.Schema
) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    names = dict.fromkeys(
        [*map(schema_features.name_of, schema_features.features_by_path(schema)), *reasons]
    )
    return ((name, reasons[name]) for name in names if name in reasons)


def _feature_reasons(
    columns: Mapping[schema_features.Steps, FeatureView],
    schema: schema_pb2.Schema,
    environment: str | None,
) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    features, domains = schema_features.features_by_path(schema), schema_features.domains_of(schema)
    retired: set[schema_features.Steps] = set()  # with the features of such structs
    for path, feature in features.items():
        name = schema_features.name_of(path)
        if feature_rules.is_retired(feature) or path[:-1] in retired:
            retired.add(path)
            continue
        required = feature_rules.is_required(feature, schema, environment)
        column = columns.get(path)
        if column is None:
            yield name, (feature_rules.missing_column(),) if required else ()
            continue
        checked, contradictions = corrected(feature, domains)
        wrong = tuple(contradictions)
        if feature_rules.is_retired(checked):
            yield name, wrong
            continue
        if column.column.present and not feature_rules.is_in_environment(
            feature, schema, environment
        ):
            wrong = (*wrong, feature_rules.not_in_environment(name, environment or ""))
        findings = feature_rules.feature_findings(checked, column, domains, required)
        yield name, (*wrong, *findings)
    for path in columns:
        if path not in features:
            yield schema_features.name_of(path), (feature_rules.new_column(),)


def _differences(
    previous: TableStatistics | None, current: TableStatistics
) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    """Yields what ``compare`` finds against the baseline."""
    for column in () if previous is None else compare_columns(previous, current):
        yield column.name, tuple(map(comparators.baseline_reason, column.findings))


_Compared: TypeAlias = tuple[str, comparators.Comparison, TableStatistics, TableStatistics | None]


def _compared(
    current: TableStatistics,
    first: TableStatistics | None,
    previous: TableStatistics | None,
    baseline: object,
) -> Iterator[_Compared]:
    """Yields what the schema's comparators compare: words, both sides."""
    if baseline is not None:
        yield "drift", comparators.DRIFT, current, previous
    if first is not None and first.rows:
        yield "skew", comparators.SKEW, first, current


def _comparisons(
    todo: Iterable[_Compared],
    columns: Mapping[schema_features.Steps, FeatureView],
    schema: schema_pb2.Schema,
    measured: dict[str, anomalies_pb2.DriftSkewInfo],
) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    """Adds drift and skew to ``measured``; yields reasons for values above thresholds."""
    for kind, comparison, treatment, control in todo:
        field = f"{kind}_comparator"
        features = {
            path: feature
            for path, feature in schema_features.features_by_path(schema).items()
            if feature.HasField(field) and _is_comparable(feature, columns.get(path))
        }
        if not features:
            continue
        left, right = (_by_path(statistics) for statistics in (treatment, control))
        for path, feature in features.items():
            if path not in left:
                continue
            values, reasons = comparators.compare(
                getattr(feature, field), comparison, left[path], right.get(path)
            )
            name = schema_features.name_of(path)
            if values:
                info = anomalies_pb2.DriftSkewInfo(path=path_pb2.Path(step=path))
                getattr(measured.setdefault(name, info), f"{kind}_measurements").extend(values)
            yield name, tuple(reasons)


def _is_comparable(feature: schema_pb2.Feature, column: FeatureView | None) -> bool:
    """Whether a feature is active, present and of the schema's type."""
    if feature_rules.is_retired(feature) or column is None or not column.column.present:
        return False
    return bool(schema_features.TYPE_FOR_STATISTICS_TYPE[column.type] == feature.type)


def _by_path(
    statistics: TableStatistics | None,
) -> dict[schema_features.Steps, statistics_pb2.FeatureNameStatistics]:
    features = () if statistics is None else proto_of(statistics).features
    return {tuple(feature.path.step): feature for feature in features}


def anomalies_to_proto(
    anomalies: Mapping[str, SplitAnomalies], schema: schema_pb2.Schema
) -> dict[str, anomalies_pb2.Anomalies]:
    """Returns each split's anomalies in TFDV's format.

    Each feature has one entry with all its reasons.
    """
    return {split: _split_to_proto(found, schema) for split, found in anomalies.items()}


def serialized_path(path: schema_features.Steps) -> str:
    """Returns a path as TFDV writes it, joined by dots.

    A step with one of ``.'()`` is in quotes, unless it begins and ends with parentheses.
    """
    return ".".join(
        step if _PLAIN_STEP.fullmatch(step) else "'" + step.replace("'", "''") + "'"
        for step in path
    )


def _split_to_proto(
    anomalies: SplitAnomalies, schema: schema_pb2.Schema
) -> anomalies_pb2.Anomalies:
    proto = anomalies_pb2.Anomalies(
        baseline=schema,
        anomaly_name_format=anomalies_pb2.Anomalies.SERIALIZED_PATH,
        data_missing=anomalies.data_missing,
        drift_skew_info=anomalies.measured,
    )
    for name, reasons in anomalies.reasons.items():
        path = anomalies.paths.get(name, (name,))
        info = proto.anomaly_info[serialized_path(path)]
        info.path.step.extend(path)
        _fill(info, reasons)
    if anomalies.dataset:
        _fill(proto.dataset_anomaly_info, anomalies.dataset)
    return proto


def _fill(info: anomalies_pb2.AnomalyInfo, reasons: tuple[Reason, ...]) -> None:
    is_accepted = all(reason.is_accepted for reason in reasons)
    info.severity = Info.WARNING if is_accepted else Info.ERROR
    info.short_description = reasons[0].short if len(reasons) == 1 else "Multiple errors"
    info.description = " ".join(reason.description for reason in reasons)
    for reason in reasons:
        info.reason.add(
            type=reason.type, short_description=reason.short, description=reason.description
        )


def describe(anomalies: Mapping[str, SplitAnomalies]) -> list[Row]:
    """Returns one row for each reason, by split and feature.

    Reasons that concern the whole split precede those of its features.
    """
    return [
        Row(
            split,
            name,
            reason.short,
            reason.expected,
            reason.found,
            "WARNING" if reason.is_accepted else "ERROR",
            Info.Type.Name(reason.type),
            reason.is_accepted,
        )
        for split, found in anomalies.items()
        for name, reasons in ((DATASET, found.dataset), *found.reasons.items())
        for reason in reasons
    ]
