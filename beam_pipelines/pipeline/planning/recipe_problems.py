"""Finds the problems of a recipe that others hide.

A wrong part keeps planning from looking at the parts after it. So the wrong part is left out, and
the rest is planned again. Problems that may only follow from what was left out are not reported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from beam_pipelines.core.errors import Problem, RecipeProblems, nearest_word
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources.plan import SourcePlan

# Each round leaves out at least one part; recipes with more mistakes than that are rare.
_MOST_ROUNDS = 20
# Keys of a join and of a source that add no column.
_HARMLESS = {"join": {"how", "strategy"}, "source": {"columns", "key", "infer", "nulls", "types"}}
# Sections that others name columns of.
_WITH_COLUMNS = {"join", "rename", "derive", "drop", "keep", "sequence", "encode"}


def all_problems(
    recipe: Recipe,
    problems: Iterable[Problem],
    make_plan: Callable[[Recipe], Any],
    planned: Mapping[str, SourcePlan],
) -> list[Problem]:
    """Returns the known problems, and those that planning the rest finds.

    Args:
      recipe: as far as it could be read.
      problems: of reading or of planning.
      make_plan: plans a recipe; raises ``RecipeProblems``.
      planned: plans of sources by name; ``make_plan`` adds to it.
    """
    found = latest = list(problems)
    rest = _Rest(recipe, planned)
    for _ in range(_MOST_ROUNDS):
        if not rest.leave_out(latest):
            break
        try:
            make_plan(rest.recipe)
            break
        except RecipeProblems as error:
            latest = [rest.original(problem) for problem in error.problems]
        except Exception:  # noqa: BLE001 - of a recipe with holes; the known problems count
            break
        new = [problem for problem in latest if not rest.explains(problem)]
        found = list(dict.fromkeys([*found, *new]))
    return found


class _Rest:
    """A recipe without its wrong parts, and what others miss."""

    def __init__(self, recipe: Recipe, planned: Mapping[str, SourcePlan]) -> None:
        self.recipe = dataclasses.replace(recipe, name=recipe.name or "dataset")
        self.planned = planned
        self.joins = list(range(len(recipe.join)))  # their numbers in the recipe
        self.names: set[str] = set()
        self.prefixes: set[str] = set()
        self.paths: set[tuple[str | int, ...]] = set()
        self.misses_any = False

    def original(self, problem: Problem) -> Problem:
        """Returns a problem with the join's number in the recipe."""
        path = problem.path
        if path[:1] == ("join",) and len(path) > 1 and isinstance(path[1], int):
            return problem._replace(path=("join", self.joins[path[1]], *path[2:]))
        return problem

    def explains(self, problem: Problem) -> bool:
        """Whether a problem may follow from a part that was left out."""
        path = problem.path
        if any(path[: len(lost)] == lost for lost in self.paths):
            return True
        if self.misses_any:
            return path[:1] not in (("sources",), ("output",))
        message = re.split(r" Did you mean | The columns are ", problem.message)[0]
        named = re.findall(r"'([^']+)'|\"([^\"]+)\"", message)
        return any(
            name in self.names or name.startswith(tuple(self.prefixes))
            for name in (first or second for first, second in named)
        )

    def leave_out(self, problems: Iterable[Problem]) -> bool:
        """Leaves out the parts with problems; whether the rest can be planned."""
        # The last one first, so that indexes of lists stay.
        ordered = sorted(problems, key=lambda problem: [str(step) for step in problem.path])
        before = self.recipe, len(self.paths), self.misses_any
        plannable = [self._leave_out(problem) for problem in reversed(ordered)]
        if not all(plannable):
            return False
        return before != (self.recipe, len(self.paths), self.misses_any) or all(
            _is_harmless(problem) for problem in ordered
        )

    def _leave_out(self, problem: Problem) -> bool:
        if _is_harmless(problem):
            return True
        path = problem.path
        if not path or path[0] == "vars" or path == ("sources",):
            return False
        if path[0] == "from":
            # The sources can be planned without knowing which one is the base.
            self.misses_any = True
            base = next(iter(self.recipe.sources), "")
            self.recipe = dataclasses.replace(self.recipe, base=base)
            return bool(base)
        if path[0] == "name":
            self.recipe = dataclasses.replace(self.recipe, name="dataset")
            self.paths.add(path)
        elif path[0] == "sources":
            return self._without_source(str(path[1]), path[2:])
        elif path[0] == "join":
            self._without_join(path)
        elif path[0] == "split":
            self.paths |= {("split",), ("fit", "splits")}
            fit = dataclasses.replace(self.recipe.fit, splits=())
            self.recipe = dataclasses.replace(self.recipe, split=Split(), fit=fit)
        else:
            self._without_key(path)
        return True

    def _without_key(self, path: tuple[str | int, ...]) -> None:
        known = {key.name: field for field, key in keys_of(Recipe).items()}
        section = path[0] if path[0] in known else nearest_word(str(path[0]), known)
        self.paths.add(path)
        if path[0] in self.recipe.checks:
            checks = {name: one for name, one in self.recipe.checks.items() if name != path[0]}
            self.recipe = dataclasses.replace(self.recipe, checks=checks)
            return
        if section is None or section == "name":  # the dataset has another name already
            return
        field = known[str(section)]
        value = getattr(self.recipe, field)
        if section in ("derive", "rename", "encode") and path[0] == section and len(path) > 1:
            self.names.add(str(path[1]))
            if section == "rename" and path[1] in value:
                self.names.add(value[path[1]])
            value = {name: item for name, item in value.items() if name != path[1]}
        elif section in ("drop", "keep") and len(path) > 1 and isinstance(path[1], int):
            value = (*value[: path[1]], *value[path[1] + 1 :])
        else:
            self.misses_any |= section in _WITH_COLUMNS
            value = _default(Recipe, field)
        self.recipe = dataclasses.replace(self.recipe, **{field: value})

    def _without_source(self, name: str, inner: tuple[str | int, ...]) -> bool:
        known = {key.name: field for field, key in keys_of(Source).items()}
        key = str(inner[0]) if inner else ""
        meant = key if key in known else nearest_word(key, known)
        names_columns = key == "columns" and self.recipe.sources[name].header is False
        if key and not names_columns and (meant is None or meant in _HARMLESS["source"]):
            self.names |= {str(step) for step in inner[1:]}
            self.paths.add(("sources", name, *inner))
            if key in known:
                source = self.recipe.sources[name]
                changed = dataclasses.replace(source, **{key: _default(Source, known[key])})
                sources = {**self.recipe.sources, name: changed}
                self.recipe = dataclasses.replace(self.recipe, sources=sources)
            return True
        lost = ("sources", name)
        if lost in self.paths:
            return False
        self.paths.add(lost)
        if name == self.recipe.base:
            self.misses_any = True
        for number, join in list(zip(self.joins, self.recipe.join, strict=True)):
            if join.source == name:
                self._without_join(("join", number))
        return True

    def _without_join(self, path: tuple[str | int, ...]) -> None:
        self.paths.add(path)
        if path[2:3] and path[2] in _HARMLESS["join"]:
            return
        if len(path) < 2 or path[1] not in self.joins:
            self.misses_any |= len(path) < 2
            return
        index = self.joins.index(path[1])
        join = self.recipe.join[index]
        plan = self.planned.get(join.source)
        if plan is not None and path[2:] in ((), ("on",)):
            self.names |= {join.prefix + name for name in plan.schema.names}
        elif join.prefix:
            self.prefixes.add(join.prefix)
        else:
            self.misses_any = True
        del self.joins[index]
        left = (*self.recipe.join[:index], *self.recipe.join[index + 1 :])
        self.recipe = dataclasses.replace(self.recipe, join=left)


def _is_harmless(problem: Problem) -> bool:
    """Whether the rest is as it would be without the problem."""
    return problem.message.startswith(("found this key on line", "found no 'name'"))


def _default(kind: Any, field: str) -> Any:
    declared = next(one for one in dataclasses.fields(kind) if one.name == field)
    if declared.default_factory is not dataclasses.MISSING:
        return declared.default_factory()
    return declared.default
