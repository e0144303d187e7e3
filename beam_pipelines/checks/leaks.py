"""``leaks``: between splits, and from the label into features."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from beam_pipelines.checks import check
from beam_pipelines.checks.meet import Meet, later_splits
from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import plain_key, section
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.text.yaml import Scalar

ROWS, FEATURE = "rows", "feature"
_ENTITY = "entity"
_NOT_SEARCHED = (
    "columns that give the label away were not looked for, as beam-pipelines-plugins is not "
    f"installed. {plugins.INSTALL}"
)

_HINTS: Mapping[str, str] = {
    ROWS: "Split by columns that are the same in such rows ('split: {by: …}'), leave duplicates "
    "out ('duplicates')",
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
      bound: least AUC, or share of the label's information, at which one feature tells the label.
    """

    action: Literal["warn", "error"] = plain_key(
        _read_action, "warn", "Whether a leak is a warning or stops the run."
    )
    entity: tuple[str, ...] = plain_key(
        values.read_texts, (), "Columns whose combined value may be in one split only."
    )
    bound: float = plain_key(
        _read_bound, 0.99, "AUC or share of information at which a feature is a leak."
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
    """

    name, reader, help = "leaks", read_leaks, "Looks for rows of one split in another."
    rule: Leaks
    label: str
    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def plan(cls, rule: Leaks, recipe: Recipe, known: check.SelectedColumns) -> FindLeaks:
        label, is_split = recipe.label or "", len(recipe.split.names) > 1
        columns = dict[str, tuple[str, ...]]()
        if is_split:
            known.note_unknown(rule.entity, ("leaks", "entity"))
            columns = {ROWS: known.written, **({_ENTITY: rule.entity} if rule.entity else {})}
        return cls(rule, label, columns)

    @property
    def meets(self) -> tuple[Meet, ...]:
        return tuple(
            Meet(f"leaks {kind}", names, later_splits, kind != ROWS, has_splits=True)
            for kind, names in self.columns.items()
        )

    @property
    def sees(self) -> tuple[str, ...]:
        return tuple(itertools.chain.from_iterable(self.columns.values()))

    def judge(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        yield from self._of_rows(facts, rows)
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
