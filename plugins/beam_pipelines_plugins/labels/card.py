"""Describes what features say about the label, for the report."""

from __future__ import annotations

from beam_pipelines.analysis.report.details import Cell, DetailTable
from beam_pipelines.analysis.report.sampled import Described
from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.core.formatting import show_number, show_share
from beam_pipelines.encodings.values import to_float64
from beam_pipelines_plugins.labels.relations import Label, Relation, can_be_label, relations

_WIDEST = 80  # pixels of a bar


def describe_label(sample: SampledSplits) -> Described | None:
    """Returns the column of mutual information, or ``None`` without a label.

    The label is a column before encoding.
    """
    rows, name = sample.raw, sample.label
    names = rows.schema.names
    if name is None or name not in names or not can_be_label(rows.column(name).type):
        return None
    label = Label(name, rows.column(name), sample.classes)
    others = [other for other in names if other not in (name, sample.weight)]
    weights = to_float64(rows.column(sample.weight)) if sample.weight in names else None
    found = dict(relations(rows, label, others, weights)) if label.is_useful else {}
    if not found:
        return None
    return Described(
        "label",
        "Label",
        f"Label is the mutual information of a feature and {label.name} in bits, by a sample of "
        f"{rows.num_rows:,} rows of all splits: 0 where the feature says nothing. The part that "
        "few rows have by chance is taken off. Its percentage is of the label's entropy.",
        {name: Cell(_show_bits(relation)) for name, relation in found.items()},
        {name: relation.bits for name, relation in found.items()},
        {name: _table(relation, label) for name, relation in found.items()},
    )


def _show_bits(relation: Relation) -> str:
    bits = relation.bits
    return "<0.001" if 0 < bits < 0.001 else f"{bits:.3f}" if bits else "0"


def _table(relation: Relation, label: Label) -> DetailTable:
    """Returns the table of a feature's buckets."""
    most = max((abs(bucket.rate) for bucket in relation.buckets), default=0.0) or 1.0
    lines = []
    for bucket in relation.buckets:
        rate = show_number(bucket.rate) if label.kind == "mean" else show_share(bucket.rate, 1.0)
        width = f"{_WIDEST * abs(bucket.rate) / most:.3g}"
        share = Cell(show_share(bucket.share, 1.0))
        lines.append((bucket.name, [share, Cell(rate, small=bucket.best, bar=width)]))
    title = f"Label: {_show_bits(relation)} bits, {show_share(relation.share, 1.0)}"
    return DetailTable(title, ["Rows", label.title], lines, "plain")
