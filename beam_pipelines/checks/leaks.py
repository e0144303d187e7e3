"""``leaks``: between splits, and from the label into features."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa

from beam_pipelines.checks import check
from beam_pipelines.checks.meet import Meet, later_splits
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import show_share, show_value
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.text.yaml_text import yaml_text

ROWS, TIME, FEATURE = "rows", "time", "feature"
_ENTITY = "entity"
_NOT_SEARCHED = (
    "columns that give the label away were not looked for, as beam-pipelines-plugins is not "
    f"installed. {plugins.INSTALL}"
)

_HINTS: Mapping[str, str] = {
    ROWS: "Split by columns that are the same in such rows ('split: {by: …}'), leave duplicates "
    "out ('duplicates')",
    TIME: "Split by time ('split: {column: …}')",
    FEATURE: "Leave such columns out ('drop')",
}

_read_action = values.read_choice(("warn", "error"))
_read_bound = values.read_share(
    "a number above 0.5 and at most 1, as 0.99", lambda bound: 0.5 < bound <= 1
)


@dataclasses.dataclass(frozen=True)
class Leaks:
    """The action for leaks between splits and from the label.

    Attributes:
      time: a column; rows of a split may not be later than the first row of one below it.
      bound: least AUC, or share of the label's information, at which one feature tells the label.
    """

    action: Literal["warn", "error"] = recipe_key(
        _read_action, "warn", "`warn`", "Whether a leak is a warning or stops the run."
    )
    entity: tuple[str, ...] = recipe_key(
        values.read_texts, (), "none", "Columns whose combined value may be in one split only."
    )
    time: str | None = recipe_key(
        values.read_text, None, "none", "Column of times that may not overlap between splits."
    )
    bound: float = recipe_key(
        _read_bound, 0.99, "0.99", "AUC or share of information at which a feature is a leak."
    )


_read_mapping = section(Leaks, "warn, error, or a mapping such as {entity: user, action: error}")


def _read(value: values.Value) -> Leaks | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Leaks(action)
    return _read_mapping(value)


read_leaks: values.ValueReader[Leaks] = values.ValueReader(
    _read, {"anyOf": [_read_action.schema, _read_mapping.schema]}
)


@dataclasses.dataclass(frozen=True)
class FindLeaks(check.Check):
    """Leaks between splits, and from the label.

    Attributes:
      rule: of the recipe.
      label: its name.
      columns: kind of leak -> columns that are compared, in order.
      time: the column of times; ``None``: they are not compared.
    """

    name, reader, help = "leaks", read_leaks, "Looks for rows of one split in another."
    rule: Leaks
    label: str
    columns: Mapping[str, tuple[str, ...]]
    time: str | None

    @classmethod
    def plan(cls, rule: Leaks, recipe: Recipe, known: check.SelectedColumns) -> FindLeaks:
        label, is_split = recipe.label or "", len(recipe.split.names) > 1
        columns = dict[str, tuple[str, ...]]()
        if is_split:
            known.note_unknown(rule.entity, ("leaks", "entity"))
            columns = {ROWS: known.written, **({_ENTITY: rule.entity} if rule.entity else {})}
        time = None if rule.time is None else _time_column(rule.time, known)
        is_compared = is_split and recipe.split.time_column != time
        return cls(rule, label, columns, time if is_compared else None)

    @property
    def meets(self) -> tuple[Meet, ...]:
        return tuple(
            Meet(f"leaks {kind}", names, later_splits, kind != ROWS, has_splits=True)
            for kind, names in self.columns.items()
        )

    @property
    def sees(self) -> tuple[str, ...]:
        return tuple(itertools.chain.from_iterable(self.columns.values()))

    def revealing(self, private: Collection[str]) -> Iterator[Problem]:
        if self.rule.time in private:
            message = (
                f"found '{self.rule.time}', whose values 'pii: {{allow: …}}' hides. 'protect' them"
            )
            yield Problem((self.name, "time"), message)

    def judge(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        yield from self._of_rows(facts, rows)
        yield from self._of_times(facts)
        yield from self._of_features(facts)

    def _finding(
        self,
        kind: str,
        line: str,
        data: Mapping[str, Any],
        listed: tuple[Mapping[str, Any], ...] = (),
    ) -> check.Finding:
        hint = f"{_HINTS[kind]}, or take 'leaks: warn'."
        return check.Finding(self.rule.action, line, hint, {"what": kind, **data}, listed)

    def _of_rows(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        """Yields equal rows and entities of several splits."""
        names, entity = tuple(facts.splits), ", ".join(self.rule.entity)
        has, like, data = "are also", "the values of", dict[str, Any]()
        for kind in self.columns:
            if kind == _ENTITY:
                has, like = f"have a {entity} that is also", f"the {entity} of"
                data = {"what": list(self.rule.entity)}
            for (earlier, split), some in sorted(facts.met.get(f"leaks {kind}", {}).items()):
                first, own = names[earlier], names[split]
                pairs, count = rows.pairs_of(some.pairs), facts.splits[own]
                line = (
                    f"{some.rows:,} of {count:,} rows of '{own}' ({show_share(some.rows, count)}) "
                    f"{has} in '{first}'; the first is {pairs[0].row}, as {pairs[0].first}"
                )
                numbers = {"rows": count, "found": some.rows, "first": check.first_of(pairs)}
                entry = {**data, "also_in": first, "split": own, **numbers}
                reasons = (f"{like} {pair.first}, in '{first}'" for pair in pairs)
                listed = check.listed_pairs(rows.source, pairs, reasons, split=own)
                yield self._finding(ROWS, line, entry, listed)

    def _of_times(self, facts: check.Facts) -> Iterator[check.Finding]:
        """Yields splits with rows later than one below them, by their statistics."""
        if self.time is None:
            return
        columns = {name: table.columns[self.time] for name, table in facts.statistics.items()}
        for (own, one), (other, below) in itertools.combinations(columns.items(), 2):
            last = getattr(one.values, "maximum", None)
            first = getattr(below.values, "minimum", None)
            if last is not None and first is not None and last > first:
                shown = [show_value(time, value_type(one.type)) for time in (last, first)]
                line = (
                    f"'{own}' has rows up to {self.time} {shown[0]}, and '{other}' begins at "
                    f"{shown[1]}"
                )
                data = {"column": self.time, "split": own, "also_in": other}
                yield self._finding(TIME, line, data | {"last": shown[0], "start": shown[1]})

    def _of_features(self, facts: check.Facts) -> Iterator[check.Finding]:
        """Yields columns that give the label away, on sampled rows."""
        if facts.sampled is None or not self.label:
            return
        if "giveaways" not in plugins.installed(plugins.FUNCTIONS):
            yield check.Finding("warn", _NOT_SEARCHED, "", {"what": FEATURE})
            return
        find = plugins.load(plugins.FUNCTIONS, "giveaways")
        for line, data in find(facts.sampled, self.rule.bound):
            yield self._finding(FEATURE, line, data)


def _time_column(name: str, known: check.SelectedColumns) -> str | None:
    """Returns the column of times; notes what is wrong with it."""
    path = ("leaks", "time")
    if name not in known.schema.names:
        known.note_unknown((name,), path, is_list=False)
        return None
    kind = known.schema.field(name).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    message = ""
    if not is_number and (not pa.types.is_temporal(kind) or pa.types.is_duration(kind)):
        message = (
            f"column '{name}' is {type_name(kind)}, expected a date, timestamp, time or number"
        )
    elif name not in known.written:
        message = (
            f"column '{name}' is dropped, expected it in the statistics. To write no feature of "
            f"it, take 'encode: {{{yaml_text(name)}: drop}}' instead of 'drop'"
        )
    if message:
        known.problems.append(Problem(path, message))
    return name
