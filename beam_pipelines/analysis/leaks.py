"""Findings about leaks: between splits, and from the label into features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beam_pipelines.analysis.duplicates import Pair
from beam_pipelines.analysis.giveaways import Giveaway
from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.leaks import Leaks

ROWS, NEAR, TIME, FEATURE, FIT = "rows", "near", "time", "feature", "fit"


@dataclasses.dataclass(frozen=True)
class RowLeak:
    """Rows of a split that are also in a split above it.

    Attributes:
      rule: of the recipe.
      what: ``rows``, ``near``, or the columns of the entity.
      first, split: the earlier split, and the rows' own.
      rows: of the split.
      found: those that leak.
      pairs: the first of them, with the earlier rows.
    """

    rule: Leaks
    what: tuple[str, ...] | str
    first: str
    split: str
    rows: int
    found: int
    pairs: tuple[Pair, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        near = self.rule.near
        return {
            "what": self.what if isinstance(self.what, str) else list(self.what),
            "action": self.rule.action,
            **({"near": dataclasses.asdict(near)} if near and self.what == NEAR else {}),
            "also_in": self.first,
            "split": self.split,
            "rows": self.rows,
            "found": self.found,
            "first": [[pair.first, pair.row] for pair in self.pairs],
        }

    def reason_of(self, pair: Pair) -> str:
        """Returns why a row of a pair leaks."""
        near = self.rule.near
        if near is not None and self.what == NEAR:
            return f"a {near.column} similar to that of {pair.first}, in '{self.first}'"
        what = "values" if isinstance(self.what, str) else ", ".join(self.what)
        return f"the {what} of {pair.first}, in '{self.first}'"


@dataclasses.dataclass(frozen=True)
class TimeLeak:
    """Rows later than the first one of a split below.

    Attributes:
      rule: of the recipe.
      split, later: both splits.
      last, start: the last time of the split, and the first one of the split below it.
      pairs: one, the first row of the split below and the last one of the split.
    """

    rule: Leaks
    split: str
    later: str
    last: str
    start: str
    pairs: tuple[Pair, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        return {
            "what": TIME,
            "action": self.rule.action,
            "column": self.rule.time,
            "split": self.split,
            "also_in": self.later,
            "last": self.last,
            "start": self.start,
            "first": [[pair.first, pair.row] for pair in self.pairs],
        }

    def reason_of(self, pair: Pair) -> str:
        """Returns why the row of the pair leaks."""
        found = f"{self.rule.time}: {self.last} of '{self.split}'"
        return f"{found}, later than {self.start} of {pair.first}, in '{self.later}'"


@dataclasses.dataclass(frozen=True)
class FeatureLeak:
    """A column that gives the label away, on sampled rows.

    Attributes:
      rule: of the recipe.
      label: its name.
      giveaway: the column, and what it says.
      rows: that were sampled.
    """

    rule: Leaks
    label: str
    giveaway: Giveaway
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        found = self.giveaway
        return {
            "what": FEATURE,
            "action": self.rule.action,
            "column": found.column,
            "label": self.label,
            "how": found.how,
            **({"measure": found.measure, "value": round(found.value, 6)} if found.measure else {}),
            "rows": self.rows,
        }


@dataclasses.dataclass(frozen=True)
class FitLeak:
    """A feature with means of a target over rows to evaluate on.

    Attributes:
      rule: of the recipe.
      feature, target: its name, and the target's.
      splits: that it is fitted on, but for the one to train on.
    """

    rule: Leaks
    feature: str
    target: str
    splits: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        return {
            "what": FIT,
            "action": self.rule.action,
            "column": self.feature,
            "target": self.target,
            "splits": list(self.splits),
        }


Leak = RowLeak | TimeLeak | FeatureLeak | FitLeak


def _show_rows(entry: Mapping[str, Any]) -> str:
    found, rows = entry["found"], entry["rows"]
    what = "are" if entry["what"] == ROWS else f"have a {', '.join(entry['what'])} that is"
    first, row = entry["first"][0]
    return (
        f"{found:,} of {rows:,} rows of '{entry['split']}' ({show_share(found, rows)}) {what} also "
        f"in '{entry['also_in']}'; the first is {row}, as {first}"
    )


def _show_near(entry: Mapping[str, Any]) -> str:
    found, rows, near = entry["found"], entry["rows"], entry["near"]
    first, row = entry["first"][0]
    return (
        f"{found:,} of {rows:,} rows of '{entry['split']}' ({show_share(found, rows)}) have a "
        f"{near['column']} that is {near['similarity']:g} similar or more to that of a row in "
        f"'{entry['also_in']}'; the first is {row}, as {first}"
    )


def _show_time(entry: Mapping[str, Any]) -> str:
    first, row = entry["first"][0]
    return (
        f"'{entry['split']}' has rows up to {entry['column']} {entry['last']} ({row}), and "
        f"'{entry['also_in']}' begins at {entry['start']} ({first})"
    )


def _show_feature(entry: Mapping[str, Any]) -> str:
    column, label = f"column '{entry['column']}'", f"the label '{entry['label']}'"
    rows = f"in {entry['rows']:,} sampled rows"
    if entry["how"] == "equal":
        return f"{column} equals {label} {rows}"
    if entry["how"] == "monotone":
        return f"{column} is a monotone function of {label} {rows}"
    if entry["measure"] == "AUC":
        return f"{column} alone predicts {label}: AUC {entry['value']:.3f} {rows}"
    return f"{column} alone has {entry['value']:.1%} of the information of {label} {rows}"


def _show_fit(entry: Mapping[str, Any]) -> str:
    splits = " and ".join(f"'{name}'" for name in entry["splits"])
    return f"feature '{entry['column']}' has means of '{entry['target']}' over rows of {splits}"


_SHOW: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    ROWS: _show_rows,
    NEAR: _show_near,
    TIME: _show_time,
    FEATURE: _show_feature,
    FIT: _show_fit,
}
_CURES: Mapping[str, str] = {
    ROWS: "split by columns that are the same in such rows ('split: {by: …}'), leave duplicates "
    "out ('duplicates')",
    NEAR: "leave near duplicates out ('duplicates: {near: …}')",
    TIME: "split by time ('split: {column: …}')",
    FEATURE: "leave such columns out ('drop')",
    FIT: "fit on the split to train on alone ('fit: {splits: …}')",
}


def _kind(entry: Mapping[str, Any]) -> str:
    return entry["what"] if entry["what"] in tuple(_SHOW) else ROWS


def show_leak(entry: Mapping[str, Any]) -> str:
    """Returns a leak in a line, of its entry in a manifest."""
    return _SHOW[_kind(entry)](entry)


def cure_of(leaks: tuple[Leak, ...]) -> str:
    """Returns what to do about leaks, as a sentence."""
    kinds = {_kind(leak.to_json()) for leak in leaks}
    cures = [cure for kind, cure in _CURES.items() if kind in kinds]
    text = ", ".join([*cures, "or take 'leaks: warn'."])
    return text[0].upper() + text[1:]


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yields the leaks of a dataset."""
    for entry in manifest.get("leaks", ()):
        yield f"leaks: {show_leak(entry)}"
