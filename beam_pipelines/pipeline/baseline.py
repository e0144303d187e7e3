"""Adds differences from a baseline to anomalies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.analysis.anomalies import SplitAnomalies
from beam_pipelines.analysis.anomalies.find import DATASET, with_severities
from beam_pipelines.analysis.anomalies.policy import ValidationPolicy
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason
from beam_pipelines.analysis.compare import Finding, compare_split
from beam_pipelines.analysis.statistics.stored import read_statistics
from beam_pipelines.analysis.statistics.view import Statistics, view_of

_TYPES = {
    "new": (Info.COMPARATOR_CONTROL_DATA_MISSING, "New since the baseline"),
    "vanished": (Info.SCHEMA_MISSING_COLUMN, "Column of the baseline dropped"),
    "type": (Info.UNEXPECTED_DATA_TYPE, "Another type than the baseline"),
    "missing": (Info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, "Other share of missing values"),
    "infinite": (Info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, "Other share of infinities"),
    "drift": (Info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, "Drift from the baseline"),
}
_NEW_SPLIT = Reason(
    Info.COMPARATOR_CONTROL_DATA_MISSING,
    "previous data missing",
    "The baseline has no split '{}'.",
    "a split '{}' in the baseline",
    "none",
)
_VANISHED_SPLIT = Reason(
    Info.COMPARATOR_TREATMENT_DATA_MISSING,
    "split of the baseline vanished",
    "The baseline has a split '{}', and the data have none.",
    "a split '{}', as in the baseline",
    "none",
)
_EXPECTED = "about the same as in the baseline"


def with_baseline(
    anomalies: Mapping[str, SplitAnomalies],
    statistics: Mapping[str, Statistics],
    policy: ValidationPolicy,
) -> Mapping[str, SplitAnomalies]:
    """Returns the anomalies, and what 'compare' finds against the baseline.

    Args:
      anomalies: of each split.
      statistics: of each split.
      policy: says whether the baseline is compared by default, and the severities.

    Raises:
      RecipeError, DataError: the baseline's statistics cannot be read.
    """
    if not policy.compares:
        return anomalies
    baseline = read_statistics(policy.baseline_path)
    compared = set(statistics)
    found = {}
    for split, known in anomalies.items():
        base = baseline.get(split)
        if base is None and len(baseline) == len(statistics) == 1:
            compared, [base] = set(baseline), baseline.values()
        if not view_of(statistics[split]).rows:
            found[split] = known
        elif base is None:
            missing = with_severities([_only_one_has(split, _NEW_SPLIT)], DATASET, policy)
            found[split] = dataclasses.replace(known, dataset=(*known.dataset, *missing))
        else:
            reasons = dict(known.reasons)
            for column in compare_split(base, statistics[split]).columns:
                more = with_severities(map(_reason, column.findings), column.name, policy)
                if more:
                    reasons[column.name] = (*reasons.get(column.name, ()), *more)
            found[split] = dataclasses.replace(known, reasons=reasons)
    vanished = [
        _only_one_has(split, _VANISHED_SPLIT) for split in baseline if split not in compared
    ]
    if found and vanished:
        first, known = next(iter(found.items()))
        more = with_severities(vanished, DATASET, policy)
        found[first] = dataclasses.replace(known, dataset=(*known.dataset, *more))
    return found


def _reason(finding: Finding) -> Reason:
    type_, short = _TYPES[finding.kind]
    return Reason(type_, short, f"{short}: {finding.text}.", _EXPECTED, finding.text)


def _only_one_has(split: str, template: Reason) -> Reason:
    """Returns the anomaly of a split that one side lacks."""
    description, expected = template.description.format(split), template.expected.format(split)
    return template._replace(description=description, expected=expected)
