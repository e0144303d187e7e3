"""Compares two splits by their statistics, for people to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.compare import ColumnComparison, compare_columns
from beam_pipelines.analysis.drift import LARGE_DRIFT
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import view_of_column
from beam_pipelines.core.formatting import show_share

# Values that are named, of all that are new or vanished.
_NAMED = 3


class TextsOfOneSide(NamedTuple):
    """Texts that only one side has.

    Attributes:
      number: of different texts.
      occurrences: of all of them.
      most: the most frequent of them, with their counts.
    """

    number: int
    occurrences: int
    most: tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True)
class ComparedColumn(ColumnComparison):
    """One column of two datasets, with its texts.

    Attributes:
      new, vanished: texts of test only and of base only; ``None``: not compared.
    """

    new: TextsOfOneSide | None = None
    vanished: TextsOfOneSide | None = None

    @property
    def shown_missing(self) -> str:
        """The shares of rows without it, one if both are equal."""
        shares = [show_share(share, 1.0) for share in self.missing if share is not None]
        return " → ".join(dict.fromkeys(shares))

    @property
    def not_judged(self) -> str:
        """The column and the reason: ``user (id)``."""
        if self.note != "date":
            return f"{self.name} ({self.note})"
        return f"{self.name} (date): {' → '.join(dict.fromkeys(self.ranges))}"


@dataclasses.dataclass(frozen=True)
class SplitComparison:
    """One split of two datasets.

    Attributes:
      rows: in base and test.
      columns: of both, in the order of base, then the others of test.
      findings: of the split itself, in words.
    """

    rows: tuple[int, int]
    columns: tuple[ComparedColumn, ...]
    findings: tuple[str, ...] = ()

    @property
    def ordered(self) -> list[ComparedColumn]:
        """The columns: those with findings, then by drift."""
        return sorted(self.columns, key=lambda one: (not one.findings, -(one.drift or 0)))

    @property
    def not_judged(self) -> tuple[str, ...]:
        """The columns that are not judged, with the reason."""
        return tuple(one.not_judged for one in self.columns if one.note)

    def all_findings(self) -> Iterator[str]:
        """Yields the findings of the split and of its columns."""
        yield from self.findings
        for column in self.columns:
            for finding in column.findings:
                yield f"{column.name}: {finding.text}"


def compare_split(
    base: TableStatistics, test: TableStatistics, max_drift: float = LARGE_DRIFT
) -> SplitComparison:
    """Compares two splits; the arguments are those of ``compare_columns``."""
    rows = base.rows, test.rows
    findings = (f"no rows, and {rows[0]:,} before",) if rows[0] and not rows[1] else ()
    columns = (_with_texts(column, base, test) for column in compare_columns(base, test, max_drift))
    return SplitComparison(rows, tuple(columns), findings)


def _with_texts(
    column: ColumnComparison, base: TableStatistics, test: TableStatistics
) -> ComparedColumn:
    """Adds new and vanished texts; ids and numbers have none."""
    if column.types[0] != column.types[1] or column.note == "id":
        return ComparedColumn(**vars(column))
    left, right = (view_of_column(column.name, side.columns[column.name]) for side in (base, test))
    new, vanished = (
        None if known is None or found is None else _missing_from(known, found)
        for known, found in ((left.strings, right.strings), (right.strings, left.strings))
    )
    return ComparedColumn(**vars(column), new=new, vanished=vanished)


def _missing_from(base: TextStatistics, test: TextStatistics) -> TextsOfOneSide | None:
    """Returns the texts that ``base`` has not; ``None`` if not known."""
    if not base.exact:
        return None  # the most frequent ones are kept only
    is_only = ~pc.is_in(test.values, base.values).to_numpy(zero_copy_only=False)
    only, counts = test.values.filter(pa.array(is_only)), test.counts[is_only]
    most = np.argsort(-counts, kind="stable")[:_NAMED]
    named = zip(only.take(pa.array(most)).to_pylist(), counts[most], strict=True)
    shown = tuple((str(text), int(count)) for text, count in named)
    return TextsOfOneSide(len(only), int(counts.sum()), shown)


def show_change(base: int, test: int) -> str:
    """Returns a change in per cent; a large one as a factor."""
    if not base:
        return ""
    return f"×{test / base:,.0f}" if test >= 10 * base else f"{(test - base) / base:+.1%}"
