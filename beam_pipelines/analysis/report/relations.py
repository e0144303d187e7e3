"""Shows what a feature says about the label."""

from __future__ import annotations

from collections.abc import Iterator

from beam_pipelines.analysis.relations import Relation
from beam_pipelines.analysis.report.details import Cell, Table
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.core.formatting import show_number, show_share

_WIDEST = 80  # pixels of a bar


def show_bits(relation: Relation | None) -> Cell:
    """Returns the mutual information in bits."""
    if relation is None:
        return Cell("–")
    bits = relation.bits
    return Cell("<0.001" if 0 < bits < 0.001 else f"{bits:.3f}" if bits else "0")


def against_label(relation: Relation | None, sampled: SampledRows) -> Iterator[Table]:
    """Yields the table of a feature's buckets, if it has some."""
    if relation is None:
        return
    most = max((abs(bucket.rate) for bucket in relation.buckets), default=0.0) or 1.0
    lines = []
    for bucket in relation.buckets:
        rate = show_number(bucket.rate) if sampled.shows_means else show_share(bucket.rate, 1.0)
        width = f"{_WIDEST * abs(bucket.rate) / most:.3g}"
        lines.append(
            (
                bucket.name,
                [Cell(show_share(bucket.share, 1.0)), Cell(rate, small=bucket.best, bar=width)],
            )
        )
    share = show_share(relation.share, 1.0)
    title = f"Label: {show_bits(relation).text} bits, {share}"
    yield Table(title, ["Rows", sampled.label_title], lines, "plain")
