"""Searches sampled rows for columns that give the label away, for ``leaks``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beam_pipelines.checks.check import Sample
from beam_pipelines.encodings.apply import needed
from beam_pipelines.encodings.values import to_float64
from beam_pipelines_plugins.labels.giveaways import Giveaway, find_giveaways
from beam_pipelines_plugins.labels.relations import Label, can_be_label, relations


def leaking_features(sample: Sample, bound: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a line and data for each column that tells the label.

    Only columns that become features are compared. A label that no column has is taken after
    encoding.

    Args:
      sample: the rows.
      bound: least AUC, or share of the label's information.
    """
    raw, name, plan = sample.raw, sample.label, sample.encode
    is_column = name in raw.schema.names
    rows = raw if is_column else sample.encoded
    if name is None or name not in rows.schema.names or not can_be_label(rows.column(name).type):
        return
    label = Label(name, rows.column(name), sample.classes)
    _, used = needed(plan, set(plan.written) - {name})
    own = (name, sample.weight)
    names = [other for other in raw.schema.names if other in used and other not in own]
    weights = None
    if is_column and sample.weight in raw.schema.names:
        weights = to_float64(raw.column(sample.weight))
    known = dict(relations(raw, label, names, weights))
    for found in find_giveaways(raw, rows.column(name), label, names, known, bound):
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
