"""Plans a conversion of a recipe, a mapping, or a data file.

A wrong part of a recipe keeps planning from looking at the parts after it. So the wrong part is
left out, and the rest is planned again. Problems that may only follow from what was left out are
not reported.

It imports nothing that runs a job, so that a preview begins at once.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from beam_pipelines.core.errors import Problem, RecipeError, RecipeProblems, nearest_word
from beam_pipelines.core.process import plugins
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.policy import PolicyOptions, with_policy
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources import FORMATS
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.storage import cloud_access

# A recipe: a YAML file, a data file that is converted as it is, a mapping with the keys of
# docs/recipe.md, or a Recipe.
RecipeLike: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Recipe"
NO_POLICY = PolicyOptions()


def plan(
    recipe: RecipeLike,
    *,
    schema: str | None = None,
    date: datetime.date | None = None,
    input_roots: Sequence[str] = (),
    policy: PolicyOptions = NO_POLICY,
    settings: Sequence[Setting] = (),
    encode: bool = False,
) -> Plan:
    """Plans a conversion and checks its recipe.

    Lists files, infers types and checks every column that the recipe names.

    Args:
      recipe: path of a recipe or a data file, a mapping, or a ``Recipe``.
      schema: path of a schema in place of the recipe's.
      date: the day that ``{date}`` in paths stands for.
      input_roots: folders and URLs that contain all inputs; empty: inputs may be anywhere.
      policy: environment, baseline and accepted anomalies.
      settings: values for keys of the recipe, as the command line has them.
      encode: encodes the columns of a data file as ``init`` proposes it.

    Raises:
      RecipeError: lists every problem of the recipe, each with its line.
      DataError: a source cannot be read.
    """
    if encode:
        if isinstance(recipe, Recipe | Mapping) or recipes.is_recipe(os.fspath(recipe)):
            raise RecipeError(
                "found --encode with a recipe, expected a data file without one. "
                f"'beam-pipelines init {_shown(recipe)} -o encoded.yaml' writes the recipe with "
                "an encoding for each column."
            )
        bare = plan(recipe, schema=schema, date=date, input_roots=input_roots, settings=settings)
        encode_settings = plugins.load(plugins.FUNCTIONS, "encode")
        settings = [*encode_settings(bare), *settings]
    loaded, problems = _read(recipe, settings)
    loaded = dataclasses.replace(loaded, schema=schema or loaded.schema, date=date or loaded.date)
    cloud_access.check_paths(path for source in loaded.sources.values() for path in source.path)
    with loaded.lines.explained():
        made = _make_plan(loaded, problems, input_roots)
    return with_policy(made, policy)


def _shown(recipe: RecipeLike) -> str:
    return "recipe.yaml" if isinstance(recipe, Recipe | Mapping) else os.fspath(recipe)


def _make_plan(recipe: Recipe, problems: Sequence[Problem], input_roots: Sequence[str]) -> Plan:
    """Returns the plan of a recipe, or raises all problems."""
    planned: dict[str, SourcePlan] = {}

    def attempt(part: Recipe) -> Plan:
        return make_plan(part, input_roots=input_roots, planned=planned)

    if problems:
        raise RecipeProblems(_all_problems(recipe, problems, attempt, planned))
    try:
        return attempt(recipe)
    except RecipeProblems as error:
        found = _all_problems(recipe, error.problems, attempt, planned)
        raise RecipeProblems(found) from error


def _read(recipe: RecipeLike, settings: Sequence[Setting]) -> tuple[Recipe, list[Problem]]:
    if isinstance(recipe, Recipe):
        return recipe, []
    if isinstance(recipe, Mapping):
        # JSON is YAML; one key a line, so that problems have lines.
        text = json.dumps(recipe, indent=1, default=str)
        return recipes.read_text(text, "recipe", settings=settings)
    return recipes.read(os.fspath(recipe), settings)


# Each round leaves out at least one part; recipes with more mistakes than that are rare.
_MOST_ROUNDS = 20
# Keys of a join and of a source that add no column.
_HARMLESS = {"join": {"how", "strategy"}, "source": {"columns", "key", "infer", "nulls", "types"}}
# Sections that others name columns of.
_WITH_COLUMNS = {"join", "rename", "derive", "drop", "keep", "sequence", "encode"}


def _all_problems(
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
        names = {*known, *plugins.known(plugins.CHECKS), *self.recipe.checks}
        section = path[0] if path[0] in names else nearest_word(str(path[0]), names)
        self.paths.add(path)
        if section in names.difference(known):
            checks = {name: one for name, one in self.recipe.checks.items() if name != section}
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
        key, source = str(inner[0]) if inner else "", self.recipe.sources[name]
        names = [*known, *FORMATS.option_names]
        meant = key if key in names else nearest_word(key, names)
        names_columns = key == "columns" and FORMATS.says_names(source)
        if meant == "derive":
            prefixes = ("", *(join.prefix for join in self.recipe.join if join.source == name))
            self.names |= {prefix + column for prefix in prefixes for column in source.derive}
        if key and not names_columns and (meant in (None, "derive", *_HARMLESS["source"])):
            self.names |= {str(step) for step in inner[1:]}
            self.paths.add(("sources", name, *inner))
            if key in names:
                options = {own: value for own, value in source.options.items() if own != key}
                default = {key: _default(Source, known[key])} if key in known else {}
                changed = dataclasses.replace(source, options=options, **default)
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
