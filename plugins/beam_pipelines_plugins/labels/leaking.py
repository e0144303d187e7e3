"""Searches sampled rows for columns that give the label away, for ``leaks``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.encodings.apply import needed
from beam_pipelines_plugins.labels.giveaways import Giveaway, find_giveaways
from beam_pipelines_plugins.labels.relations import (
    Label,
    LabelRelations,
    can_be_label,
    relations,
    relations_of,
)


def leaking_features(sample: SampledSplits, bound: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a line and data for each column that tells the label.

    Only columns that become features are compared. A label that no column has is taken after
    encoding.

    Args:
      sample: the rows.
      bound: least AUC, or share of the label's information.
    """
    raw, name, plan = sample.raw, sample.label, sample.encode
    rows = raw if name in raw.schema.names else sample.encoded
    if name is None or name not in rows.schema.names or not can_be_label(rows.column(name).type):
        return
    array = rows.column(name)
    _, used = needed(plan, set(plan.written) - {name})
    own = (name, sample.weight)
    names = [other for other in raw.schema.names if other in used and other not in own]
    measured = relations_of(sample)
    if measured is None:
        label = Label(name, array, sample.classes)
        measured = LabelRelations(label, dict(relations(raw, label, names, None)))
    for found in find_giveaways(raw, array, measured.label, names, measured.of, bound):
        data: dict[str, Any] = {"column": found.column, "label": name, "how": found.how}
        if found.measure:
            data |= {"measure": found.measure, "value": round(found.value, 6)}
        line = f"{_line(found, name)} in {raw.num_rows:,} sampled rows"
        yield line, {**data, "rows": raw.num_rows}


def _line(found: Giveaway, name: str) -> str:
    column, label = f"column '{found.column}'", f"the label '{name}'"
    if found.how == "equal":
        return f"{column} equals {label}"
    if found.how == "monotone":
        return f"{column} is a monotone function of {label}"
    value = round(found.value, 6)
    if found.measure == "AUC":
        return f"{column} alone predicts {label}: AUC {value:.3f}"
    return f"{column} alone has {value:.1%} of the information of {label}"
