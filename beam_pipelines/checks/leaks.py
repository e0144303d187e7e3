"""``leaks``: between splits, and from the label into features."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.giveaways import Giveaway
from beam_pipelines.checks.check import Check, Facts, Known, Rows
from beam_pipelines.checks.finding import Finding
from beam_pipelines.checks.meet import Meet, later_splits
from beam_pipelines.checks.split_times import TIME as TIMES
from beam_pipelines.checks.split_times import find_times, merge_times
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.places import Pair
from beam_pipelines.recipe.leaks import Leaks
from beam_pipelines.recipe.model import Recipe

ROWS, NEAR, TIME, FEATURE, FIT = "rows", "near", "time", "feature", "fit"
_ENTITY = "entity"


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


@dataclasses.dataclass(frozen=True)
class FindLeaks(Check):
    """Leaks between splits, and from the label.

    Attributes:
      rule: of the recipe.
      label: its name.
      columns: kind of leak -> columns that are compared, in order.
      time: the column of times; ``None``: they are not compared.
    """

    name = "leaks"
    about = "splits"
    listed = "pairs"
    appends = False
    rule: Leaks
    label: str
    columns: Mapping[str, tuple[str, ...]]
    time: str | None

    @classmethod
    def plan(cls, recipe: Recipe, known: Known) -> FindLeaks | None:
        rule = recipe.leaks
        if rule is None:
            return None
        label, is_split = recipe.label or "", len(recipe.split.names) > 1
        columns: dict[str, tuple[str, ...]] = {}
        if is_split:
            known.note_unknown(rule.entity, ("leaks", "entity"))
            columns = {ROWS: known.written, **({_ENTITY: rule.entity} if rule.entity else {})}
        time = None if rule.time is None else _time_column(rule.time, known)
        is_compared = is_split and recipe.split.time_column != time
        return cls(rule, label, columns, time if is_compared else None)

    @property
    def meets(self) -> tuple[Meet, ...]:  # type: ignore[override]
        return tuple(
            Meet(f"leaks {kind}", names, later_splits, kind != ROWS, has_splits=True)
            for kind, names in self.columns.items()
        )

    @property
    def sees(self) -> tuple[str, ...]:
        compared = itertools.chain.from_iterable(self.columns.values())
        return (*compared, *([self.time] if self.time else []))

    @property
    def carries(self) -> Mapping[str, str]:
        return {TIMES: self.time} if self.time else {}

    @property
    def looks_at_splits(self) -> bool:  # type: ignore[override]
        return self.time is not None

    def piece_of_splits(self, chunk: Chunk, splits: npt.NDArray[np.uint8]) -> Any:
        return find_times(chunk, splits)

    def judge(self, facts: Facts, rows: Rows) -> Iterator[Finding]:
        for leak in self._leaks(facts, rows):
            entry = leak.to_json()
            listed = tuple(_listed(leak, rows)) if isinstance(leak, RowLeak | TimeLeak) else ()
            yield Finding(self.rule.action, (show_leak(entry),), entry, listed)

    def _leaks(self, facts: Facts, rows: Rows) -> Iterator[Leak]:
        yield from self._row_leaks(facts, rows)
        yield from self._time_leaks(facts, rows)
        for giveaway in facts.sampled.giveaways:
            yield FeatureLeak(self.rule, self.label, giveaway, facts.sampled.rows)
        yield from self._fit_leaks(facts)

    def _row_leaks(self, facts: Facts, rows: Rows) -> Iterator[RowLeak]:
        """Yields equal rows and entities of several splits."""
        names = tuple(facts.splits)
        for kind in (*self.columns, NEAR):
            for (earlier, split), some in sorted(facts.met.get(f"leaks {kind}", {}).items()):
                yield RowLeak(
                    self.rule,
                    self.rule.entity if kind == _ENTITY else kind,
                    names[earlier],
                    names[split],
                    facts.splits[names[split]],
                    some.rows,
                    rows.pairs_of(some.pairs),
                )

    def _time_leaks(self, facts: Facts, rows: Rows) -> Iterator[TimeLeak]:
        """Yields splits with rows later than one below them."""
        names, times = tuple(facts.splits), merge_times(facts.of_splits)
        for split, later in itertools.combinations(range(len(names)), 2):
            last, first = times.last.get(split), times.first.get(later)
            if last is not None and first is not None and last.time > first.time:
                pairs = rows.pairs_of([(first.place, last.place)])
                yield TimeLeak(
                    self.rule, names[split], names[later], last.shown, first.shown, pairs
                )

    def _fit_leaks(self, facts: Facts) -> Iterator[FitLeak]:
        """Yields features with means of a target over rows to evaluate on."""
        if facts.encode is None:
            return
        names = tuple(facts.splits)
        to_train_on = "train" if "train" in names else names[0]
        others = tuple(name for name in facts.encode.fit.splits if name != to_train_on)
        for chain in facts.encode.chains if others else ():
            for step in chain.steps:
                if step.kind == "target_mean":
                    yield FitLeak(self.rule, chain.name, step.encoding.target, others)

    def entry(self, findings: Sequence[Finding]) -> Any:
        return [each.data for each in findings]

    def headline(self, stopping: Sequence[Finding], findings: Sequence[Finding]) -> str:
        kinds = {_kind(each.data) for each in stopping}
        if kinds <= {FEATURE, FIT}:
            return "features give the label away"
        return "rows leak between splits"

    def cure(self, stopping: Sequence[Finding]) -> str:
        kinds = {_kind(each.data) for each in stopping}
        cures = [cure for kind, cure in _CURES.items() if kind in kinds]
        text = ", ".join([*cures, "or take 'leaks: warn'."])
        return text[0].upper() + text[1:]

    @classmethod
    def warnings_of(cls, entry: Any) -> Iterator[str]:
        return (f"leaks: {show_leak(each)}" for each in entry)


def _listed(leak: RowLeak | TimeLeak, rows: Rows) -> Iterator[dict[str, str]]:
    for pair in leak.pairs:
        yield {
            "source": rows.source,
            "split": leak.split,
            "file": pair.file,
            "position": pair.place,
            "reason": leak.reason_of(pair),
            "text": pair.text,
            "first_text": pair.first_text,
        }


def _time_column(name: str, known: Known) -> str | None:
    """Returns the column of times; notes what is wrong with it."""
    if name not in known.schema.names:
        known.note_unknown((name,), ("leaks", "time"), is_list=False)
        return None
    kind = known.schema.field(name).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not is_number and (not pa.types.is_temporal(kind) or pa.types.is_duration(kind)):
        message = (
            f"column '{name}' is {type_name(kind)}, expected a date, timestamp, time or number"
        )
        known.problems.append(Problem(("leaks", "time"), message))
    return name
