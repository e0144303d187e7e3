"""Renders a comparison of two datasets as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_pipelines.analysis.comparison import ColumnComparison, SplitComparison
from beam_pipelines.analysis.joins import JoinMatches
from beam_pipelines.analysis.report.page import page_environment, page_file
from beam_pipelines.core.version import __version__


def render_comparison(
    base: str,
    test: str,
    splits: Mapping[str, SplitComparison],
    joins: Mapping[str, tuple[JoinMatches, JoinMatches]],
    sizes: tuple[tuple[int, int] | None, tuple[int, int] | None],
    findings: Sequence[str],
) -> str:
    """Returns the comparison as one HTML page in the report's style.

    Equal comparisons give equal bytes. The page loads nothing, and runs no script.

    Args:
      base, test: what was compared.
      splits: split -> comparison.
      joins: source -> the joins with it of both sides.
      sizes: of both sides: bytes and number of shards; ``None`` where nothing was written.
      findings: all that matters, in words.
    """
    environment = page_environment()
    return environment.get_template("comparison.html").render(
        base=base,
        test=test,
        splits={name: (split, _ordered(split)) for name, split in splits.items()},
        joins=joins,
        sizes=sizes,
        findings=findings,
        style=page_file(environment, "page.css"),
        version=__version__,
    )


def _ordered(split: SplitComparison) -> list[ColumnComparison]:
    """Returns the columns: those with findings, then by drift."""
    return sorted(split.columns, key=lambda one: (not one.findings, -(one.drift or 0)))
