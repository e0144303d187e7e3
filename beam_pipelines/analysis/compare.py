"""Compares two splits by their statistics: columns, missing values, drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np

from beam_pipelines.analysis import drift as drift_figures
from beam_pipelines.analysis.description import ends, show_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import FeatureView, are_like_ids, view_of_column
from beam_pipelines.core.arrow.columns import is_date, type_name, value_type
from beam_pipelines.core.formatting import show_share

BASELINE = "baseline"


class LargeDifference(NamedTuple):
    """A difference that is large, and that chance does not explain.

    Attributes:
      kind: of the difference.
      text: what was and what is.
    """

    kind: Literal["new", "vanished", "type", "missing", "drift"]
    text: str


class Drift(NamedTuple):
    """Divergence of a feature in ``split`` from ``reference``.

    Attributes:
      split: name of the split.
      reference: another split or the baseline.
      value: in bits, without the part that few rows have by chance.
      is_high: whether it is a finding of ``compare_columns``, or of dates of another split.
    """

    split: str
    reference: str
    value: float
    is_high: bool = False


@dataclasses.dataclass(frozen=True)
class ColumnComparison:
    """One column of two datasets.

    Attributes:
      name: of the column.
      types: the type in base and test; ``None``: there is no such column.
      missing: share of rows without it, or with NaN, in base and test; ``None``: no such column.
      ranges: least and most number or date in base and test, as text; empty without any.
      drift: bits beyond chance; ``None``: not compared.
      p_value: probability of such a difference by chance.
      is_large: whether the drift is above the threshold, and not by chance.
      note: why it is no finding: ``id``, ``date``, ``few`` or ``""``.
      findings: differences that are large and not explained by chance.
    """

    name: str
    types: tuple[str | None, str | None]
    missing: tuple[float | None, float | None]
    ranges: tuple[str, str] = ("", "")
    drift: float | None = None
    p_value: float | None = None
    is_large: bool = False
    note: str = ""
    findings: tuple[LargeDifference, ...] = ()


def compare_columns(
    base: TableStatistics, test: TableStatistics, max_drift: float = drift_figures.LARGE_DRIFT
) -> tuple[ColumnComparison, ...]:
    """Compares two splits, column by column.

    A difference is a finding if it is larger than ``max_drift`` and, among as many columns,
    unlikely by chance: less than once in a hundred comparisons of samples of one distribution.

    Args:
      base, test: their statistics.
      max_drift: bits of a column's divergence, or a difference of shares of missing values.

    Returns:
      The columns of both, in the order of base, then the others of test; none if one of them has
      no rows.
    """
    if not base.rows or not test.rows:
        return ()
    names = list(dict.fromkeys([*base.columns, *test.columns]))
    chance = drift_figures.CHANCE / max(1, len(names))
    return tuple(
        _compare_column(name, base.columns.get(name), test.columns.get(name), max_drift, chance)
        for name in names
    )


def _figures(name: str, column: ColumnStatistics | None) -> tuple[float | None, str]:
    """Returns the share of missing values, and the range as text."""
    if column is None:
        return None, ""
    view, text = view_of_column(name, column), ""
    if view.numbers.minimum is not None and view.texts is None:
        [(low, high, _)] = ends([column], show_of(name, [column]))
        text = low.text if low == high else f"{low.text} – {high.text}"
    return _missing(view) / view.rows, text


def _compare_column(
    name: str,
    base: ColumnStatistics | None,
    test: ColumnStatistics | None,
    max_drift: float,
    chance: float,
) -> ColumnComparison:
    types = (
        None if base is None else type_name(base.type),
        None if test is None else type_name(test.type),
    )
    first, second = _figures(name, base), _figures(name, test)
    found = ColumnComparison(name, types, (first[0], second[0]), (first[1], second[1]))
    if base is None:
        return dataclasses.replace(found, findings=(LargeDifference("new", "a new column"),))
    if test is None:
        return dataclasses.replace(
            found, findings=(LargeDifference("vanished", "the column vanished"),)
        )
    findings = []
    if differ := types[0] != types[1]:
        findings.append(LargeDifference("type", f"the type was {types[0]} and is {types[1]}"))
    views = view_of_column(name, base), view_of_column(name, test)
    findings += _missing_more(views, max_drift, chance)
    found = dataclasses.replace(found, findings=tuple(findings))
    if differ:
        return found
    if are_like_ids(*views):
        return dataclasses.replace(found, note="id")
    measured = drift_figures.divergence(base, test)
    if measured is None:
        return found
    return _with_drift(found, measured, is_date(value_type(base.type)), max_drift, chance)


def _with_drift(
    column: ColumnComparison,
    measured: drift_figures.Divergence,
    are_dates: bool,
    max_drift: float,
    chance: float,
) -> ColumnComparison:
    """Returns a column with its drift, and maybe a finding."""
    if not measured.is_known:
        return dataclasses.replace(column, note="few")
    bits, p_value = measured.beyond_chance, measured.p_value
    is_large, note = bits > max_drift and p_value < chance, "date" if are_dates else ""
    column = dataclasses.replace(column, drift=bits, p_value=p_value, is_large=is_large, note=note)
    if are_dates or not is_large:
        return column
    text = f"its values drifted by {bits:.3f} bits, at most {max_drift:g}"
    if column.ranges[0] != column.ranges[1]:
        text += f"; they were {column.ranges[0]} and are {column.ranges[1]}"
    return dataclasses.replace(column, findings=(*column.findings, LargeDifference("drift", text)))


def _missing_more(
    views: tuple[FeatureView, FeatureView], max_drift: float, chance: float
) -> Iterator[LargeDifference]:
    """Yields a finding if shares of missing values differ beyond chance."""
    base, test = (_missing(view) / view.rows for view in views)
    counts = [np.array((view.rows - _missing(view), _missing(view)), np.float64) for view in views]
    found = drift_figures.divergence_of_counts(*counts)
    if abs(test - base) > max_drift and found is not None and found.p_value < chance:
        shares = f"{show_share(base, 1.0)} of the rows lacked it, now {show_share(test, 1.0)}"
        yield LargeDifference("missing", shares)


def _missing(view: FeatureView) -> int:
    """Returns the rows without a value, or with NaN alone."""
    column, nans = view.column, view.numbers.nans
    return column.missing + (nans if view.num_values == column.present else 0)


def same_splits(statistics: Collection[str], baseline: Collection[str]) -> dict[str, str]:
    """Returns split -> the split of the baseline to compare with.

    It is that of the same name, or the only one of both.
    """
    if len(statistics) == len(baseline) == 1:
        return dict(zip(statistics, baseline, strict=True))
    return {split: split for split in statistics if split in baseline}


def measure_drift(
    statistics: Mapping[str, TableStatistics], baseline: Mapping[str, TableStatistics]
) -> dict[str, tuple[Drift, ...]]:
    """Compares each split with the first one and with an earlier dataset.

    Returns:
      Feature -> drifts. A feature that cannot be compared has no entry.
    """
    first = next(iter(statistics), "")
    pairs = [(split, first, statistics[first]) for split in list(statistics)[1:]]
    same = same_splits(statistics, baseline)
    pairs += [(split, BASELINE, baseline[other]) for split, other in same.items()]
    found: dict[str, list[Drift]] = {}
    for split, reference, table in pairs:
        for column in compare_columns(table, statistics[split]):
            if column.drift is not None:
                is_high = column.is_large and (column.note != "date" or reference != BASELINE)
                drift = Drift(split, reference, column.drift, is_high)
                found.setdefault(column.name, []).append(drift)
    return {name: tuple(drifts) for name, drifts in found.items()}
