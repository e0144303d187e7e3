"""Describes what features say about the label, for the report."""

from __future__ import annotations

from beam_pipelines.analysis.description import Figure
from beam_pipelines.analysis.report.sampled import Described
from beam_pipelines.checks.check import SampledSplits
from beam_pipelines_plugins.labels.relations import Label, can_be_label


def describe_label(sample: SampledSplits) -> Described | None:
    """Returns the column of mutual information, or ``None`` without a label.

    The label is a column before encoding.
    """
    rows, name = sample.raw, sample.label
    names = rows.schema.names
    if name is None or name not in names or not can_be_label(rows.column(name).type):
        return None
    label = Label(rows.column(name), bool(sample.classes))
    if len(set(label.codes.tolist())) < 2:
        return None
    others = [other for other in names if other not in (name, sample.weight)]
    measured = {other: label.bits(rows.column(other)) for other in others}
    found = {other: bits for other, bits in measured.items() if bits is not None}
    if not found:
        return None
    return Described(
        "label",
        "Label",
        f"Label is the mutual information of a feature and {name} in bits, by a sample of "
        f"{rows.num_rows:,} rows of all splits: 0 where the feature says nothing. The part that "
        "few rows have by chance is taken off.",
        {other: Figure(bits, _show_bits(bits)) for other, bits in found.items()},
        found,
    )


def _show_bits(bits: float) -> str:
    return "<0.001" if 0 < bits < 0.001 else f"{bits:.3f}" if bits else "0"
