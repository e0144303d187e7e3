"""Describes the classes that a run has sampled."""

from __future__ import annotations

from typing import Any

from beam_pipelines.analysis.sampled_classes import SampledClass, entry_of
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.transforms.limit_classes import check_named, limited_classes
from beam_pipelines.transforms.row_counts import RowCounts


def describe_sampled(plan: Plan, counts: RowCounts, limits: str) -> dict[str, Any] | None:
    """Returns the manifest's entry; ``None`` without a sample.

    Args:
      plan: of the run.
      counts: of the run.
      limits: file of ``FindLimits``; empty: there are no limits.

    Raises:
      DataError: a class that the recipe names does not occur.
    """
    sample = plan.split.sample
    if sample is None:
        return None
    splits = tuple(plan.split.names[number] for number in sample.splits)
    if limits:
        return entry_of(sample.column, splits, limited_classes(limits))
    if plan.append is None:  # new files need not have every class
        check_named(sample, {sample.names[number] for number in counts.classes})
    classes = [
        SampledClass(sample.names[number], splits, *rows, 1 / sample.rates[number])
        for number, rows in counts.classes.items()
    ]
    return entry_of(sample.column, splits, classes)
