"""Compares two splits by their statistics: columns, missing values, drift, new values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.drift import (
    CHANCE,
    LARGE_DRIFT,
    Divergence,
    divergence,
    divergence_of_protos,
    divergence_of_rows,
)
from beam_pipelines.analysis.ids import are_like_ids, are_views_like_ids
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import (
    FeatureView,
    Statistics,
    Texts,
    feature_name,
    proto_of,
    view_of,
)
from beam_pipelines.analysis.years import are_years, show_year
from beam_pipelines.core.columns import is_date, type_name, value_type
from beam_pipelines.core.formatting import show_share, show_value

_Feature = statistics_pb2.FeatureNameStatistics
# Values that are named, of all that are new or vanished.
_NAMED = 3


class Values(NamedTuple):
    """Texts that only one side has.

    Attributes:
      number: of different texts.
      occurrences: of all of them.
      most: the most frequent of them, with their counts.
    """

    number: int
    occurrences: int
    most: tuple[tuple[str, int], ...]


class Finding(NamedTuple):
    """A difference that is large, and that chance does not explain.

    Attributes:
      kind: of the difference.
      text: what was and what is.
    """

    kind: Literal["new", "vanished", "type", "missing", "infinite", "drift"]
    text: str


@dataclasses.dataclass(frozen=True)
class ColumnComparison:
    """One column of two datasets.

    Attributes:
      name: of the column.
      types: the type in base and test; ``None``: there is no such column.
      missing: share of rows without it, or with NaN, in base and test; ``None``: no such column.
      infinite: share of values that are infinite, in base and test; ``None``: no such column.
      ranges: least and most number or date in base and test, as text; empty without any.
      drift: bits beyond chance; ``None``: not compared.
      p_value: probability of such a difference by chance.
      new, vanished: texts of test only and of base only; ``None``: not compared.
      note: why its drift is not judged: ``id``, ``date``, ``few`` or ``""``.
      findings: differences that are large and not explained by chance.
    """

    name: str
    types: tuple[str | None, str | None]
    missing: tuple[float | None, float | None]
    infinite: tuple[float | None, float | None]
    ranges: tuple[str, str] = ("", "")
    drift: float | None = None
    p_value: float | None = None
    new: Values | None = None
    vanished: Values | None = None
    note: str = ""
    findings: tuple[Finding, ...] = ()

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
    columns: tuple[ColumnComparison, ...]
    findings: tuple[str, ...] = ()

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
    base: Statistics, test: Statistics, max_drift: float = LARGE_DRIFT
) -> SplitComparison:
    """Compares two splits.

    A difference is a finding if it is larger than ``max_drift`` and, among as many columns,
    unlikely by chance: less than once in a hundred comparisons of samples of one distribution.

    Args:
      base, test: their statistics; accumulators are compared exactly, protos by their histograms.
      max_drift: bits of a column's divergence, or a difference of shares: of missing values, or of
        an infinity.
    """
    sides = _Side(base), _Side(test)
    names = list(dict.fromkeys([*sides[0].views, *sides[1].views]))
    rows = sides[0].rows, sides[1].rows
    findings: tuple[str, ...] = ()
    if rows[0] and not rows[1]:
        findings = (f"no rows, and {rows[0]:,} before",)
    if not all(rows):
        return SplitComparison(rows, (), findings)
    chance = CHANCE / max(1, len(names))
    columns = tuple(_compare_column(name, sides, max_drift, chance) for name in names)
    return SplitComparison(rows, columns, findings)


class _Side:
    """The statistics of one side, in the forms that are compared."""

    def __init__(self, statistics: Statistics) -> None:
        view = view_of(statistics)
        self.rows = view.rows
        self.views: Mapping[str, FeatureView] = view.features
        self.table = statistics if isinstance(statistics, TableStatistics) else None
        self._statistics = statistics
        self._protos: dict[str, statistics_pb2.FeatureNameStatistics] | None = None

    def type_of(self, name: str) -> str | None:
        """Returns the name of a column's type, or ``None``."""
        if name not in self.views:
            return None
        if self.table is None:
            return str(_Feature.Type.Name(self.views[name].type))
        return type_name(self.table.columns[name].type)

    def proto(self, name: str) -> statistics_pb2.FeatureNameStatistics:
        """Returns the proto of a column."""
        if self._protos is None:
            protos = proto_of(self._statistics).features
            self._protos = {feature_name(feature): feature for feature in protos}
        return self._protos[name]

    def kind(self, name: str) -> pa.DataType | None:
        """Returns the type of a column's values; protos do not know it."""
        return None if self.table is None else value_type(self.table.columns[name].type)

    def range_of(self, name: str) -> str:
        """Returns the least and the most number, as text."""
        view, kind = self.views[name], self.kind(name)
        if view.minimum is None or view.texts is not None:
            return ""
        kind = kind or (pa.int64() if isinstance(view.minimum, int) else pa.float64())
        is_year = pa.types.is_integer(kind) and are_years(name, view.minimum, view.maximum)
        show = show_year if is_year else show_value
        low, high = show(view.minimum, kind), show(view.maximum, kind)
        return low if low == high else f"{low} – {high}"


def _compare_column(
    name: str, sides: tuple[_Side, _Side], max_drift: float, chance: float
) -> ColumnComparison:
    types = sides[0].type_of(name), sides[1].type_of(name)
    if types[0] is None or types[1] is None:
        return _only_column(name, types, sides)
    findings = []
    are_tables = all(side.table is not None for side in sides)
    views = sides[0].views[name], sides[1].views[name]
    differ = types[0] != types[1] if are_tables else views[0].type != views[1].type
    if differ:
        findings.append(Finding("type", f"the type was {types[0]} and is {types[1]}"))
    missing, *infinities = _all_shares(views)
    findings += [one.finding() for one in (missing, *infinities) if one.differ(max_drift, chance)]
    ranges = sides[0].range_of(name), sides[1].range_of(name)
    base, test = (sum(shares) for shares in zip(*(one.shares for one in infinities), strict=True))
    found = ColumnComparison(
        name, types, missing.shares, (base, test), ranges, findings=tuple(findings)
    )
    if differ:
        return found
    kind = sides[0].kind(name) or sides[1].kind(name)
    if _are_ids(name, sides):
        return dataclasses.replace(found, note="id")
    new, vanished = _only_one_side(views)
    found = dataclasses.replace(found, new=new, vanished=vanished)
    measured = _divergence(name, sides)
    return found if measured is None else _with_drift(found, measured, kind, max_drift, chance)


def _only_column(
    name: str, types: tuple[str | None, str | None], sides: tuple[_Side, _Side]
) -> ColumnComparison:
    """Returns a column that only one side has."""
    is_new = types[0] is None
    what = Finding("new", "a new column") if is_new else Finding("vanished", "the column vanished")
    side = sides[is_new]
    view = side.views[name]
    missing = _missing(view) / view.rows
    infinite = sum(view.infinities) / max(1.0, _numbers(view))
    shown = side.range_of(name)
    return ColumnComparison(
        name,
        types,
        (None, missing) if is_new else (missing, None),
        (None, infinite) if is_new else (infinite, None),
        ("", shown) if is_new else (shown, ""),
        findings=(what,),
    )


def _with_drift(
    column: ColumnComparison,
    measured: Divergence,
    kind: pa.DataType | None,
    max_drift: float,
    chance: float,
) -> ColumnComparison:
    """Returns a column with its drift, and maybe a finding.

    Args:
      column: without its drift.
      measured: the drift.
      kind: of its values; ``None``: not known.
      max_drift: bits up to which there is no finding.
      chance: probability from which on there is no finding.
    """
    if not measured.is_known:
        return dataclasses.replace(column, note="few")
    bits, p_value = measured.beyond_chance, measured.p_value
    column = dataclasses.replace(column, drift=bits, p_value=p_value)
    if kind is not None and is_date(kind):
        return dataclasses.replace(column, note="date")
    if bits <= max_drift or p_value >= chance:
        return column
    text = f"its values drifted by {bits:.3f} bits, at most {max_drift:g}"
    base, test = column.ranges
    if base != test:
        text += f"; they were {base} and are {test}"
    finding = Finding("drift", text)
    return dataclasses.replace(column, findings=(*column.findings, finding))


def _are_ids(name: str, sides: tuple[_Side, _Side]) -> bool:
    base, test = sides
    if base.table is not None and test.table is not None:
        return are_like_ids(base.table.columns[name], test.table.columns[name])
    return are_views_like_ids(base.views[name], test.views[name])


def _divergence(name: str, sides: tuple[_Side, _Side]) -> Divergence | None:
    base, test = sides
    if base.table is not None and test.table is not None:
        return divergence(base.table.columns[name], test.table.columns[name])
    return divergence_of_protos(base.proto(name), test.proto(name))


class _Shares:
    """The shares of rows or values that are of some kind.

    Attributes:
      shares: 0 to 1, in base and test.
    """

    def __init__(
        self, kind: Literal["missing", "infinite"], what: str, *sides: tuple[float, float]
    ) -> None:
        """Takes the number of all, and of the kind, of each side."""
        self._kind, self._what, self._sides = kind, what, sides
        base, test = (some / number if number else 0.0 for number, some in sides)
        self.shares = base, test

    def differ(self, max_drift: float, chance: float) -> bool:
        """Whether they differ by more than ``max_drift`` and chance."""
        if abs(self.shares[1] - self.shares[0]) <= max_drift:
            return False
        base, test = ((number - some, some) for number, some in self._sides)
        found = divergence_of_rows(base, test)
        return found is not None and found.p_value < chance

    def finding(self) -> Finding:
        """Returns the change in words."""
        base, test = (show_share(share, 1.0) for share in self.shares)
        return Finding(self._kind, f"{base} {self._what}, now {test}")


def _all_shares(views: tuple[FeatureView, FeatureView]) -> Iterator[_Shares]:
    """Yields the shares of missing values, of -inf and of inf."""
    rows = ((view.rows, _missing(view)) for view in views)
    yield _Shares("missing", "of the rows lacked it", *rows)
    for sign, name in enumerate(("-inf", "inf")):
        values = ((_numbers(view), view.infinities[sign]) for view in views)
        yield _Shares("infinite", f"of the values were {name}", *values)


def _numbers(view: FeatureView) -> float:
    """Returns the number of counted values but NaN."""
    return max(view.counted_values - view.nans, 0)


def _missing(view: FeatureView) -> int:
    """Returns the rows without a value, or with NaN alone."""
    if not view.nans or view.num_values != view.present:
        return view.missing
    return view.missing + round(view.nans * view.num_values / max(1, view.counted_values))


def _only_one_side(
    views: tuple[FeatureView, FeatureView],
) -> tuple[Values | None, Values | None]:
    """Returns the new and the vanished texts; ``None`` of numbers."""
    base, test = (view.strings for view in views)
    if base is None or test is None:
        return None, None
    return _missing_from(base, test), _missing_from(test, base)


def _missing_from(base: Texts, test: Texts) -> Values | None:
    """Returns the texts that ``base`` has not; ``None`` if not known."""
    if not base.exact:
        return None  # the most frequent ones are kept only
    only = test.where(~pc.is_in(test.values, base.values).to_numpy(zero_copy_only=False))
    most = np.argsort(-only.counts, kind="stable")[:_NAMED]
    named = zip(only.values.take(pa.array(most)).to_pylist(), only.counts[most], strict=True)
    shown = tuple((str(text), int(count)) for text, count in named)
    return Values(len(only.values), int(only.counts.sum()), shown)


def to_json(split: SplitComparison) -> dict[str, Any]:
    """Returns a split's comparison as values of JSON."""
    return {
        "rows": _pair(split.rows),
        "columns": {column.name: _column_json(column) for column in split.columns},
        "findings": list(split.all_findings()),
    }


def _column_json(column: ColumnComparison) -> dict[str, Any]:
    return {
        "type": _pair(column.types),
        "missing": _pair(column.missing),
        "infinite": _pair(column.infinite),
        "range": _pair(column.ranges),
        "drift": column.drift,
        "p_value": column.p_value,
        "new": _values_json(column.new),
        "vanished": _values_json(column.vanished),
        "not_judged": column.note or None,
        "findings": [finding.text for finding in column.findings],
    }


def _values_json(values: Values | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {"number": values.number, "occurrences": values.occurrences, "most": dict(values.most)}


def _pair(values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("base", "test"), values, strict=True))
