"""Plans the sources of a recipe, with its date in their paths."""

from __future__ import annotations

import dataclasses
import datetime

from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.files.beam.input_roots import OutsideRootError
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source, with_images
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.sources.wrapping.unions import plan_union


def plan_sources(
    recipe: Recipe, contract: bytes | None, planned: dict[str, SourcePlan]
) -> dict[str, SourcePlan]:
    """Plans the sources that a recipe uses.

    Args:
      recipe: as it is.
      contract: the recipe's schema, serialized, or ``None``.
      planned: plans by name, which are not made again; gets those that are made.

    Raises:
      RecipeProblems: the problems of all sources.
    """
    used, found = _used(recipe), dict[str, SourcePlan]()
    problems: list[Problem] = []
    for name in (name for name in recipe.sources if name in used):
        try:
            planned[name] = planned.get(name) or _plan(recipe.sources[name], recipe)
            plan = with_derived(planned[name], recipe.sources[name].derive)
        except RecipeProblems as error:
            problems += error.problems
            continue
        prefixes = [join.prefix for join in recipe.join if join.source == name]
        prefixes += [""] if name == recipe.base else []
        found[name] = with_images(plan, contract, recipe.rename, prefixes)
    if len(found) < len(used):
        raise RecipeProblems(problems)
    return found


def _used(recipe: Recipe) -> set[str]:
    return {recipe.base, *(join.source for join in recipe.join)}


def _plan(source: Source, recipe: Recipe) -> SourcePlan:
    """Plans a source with the recipe's date in its paths.

    With private columns, what planning decided has no examples of values.
    """
    private = _private_names(recipe)
    source = source.with_planning(limits=recipe.limits)
    if source.union is not None:
        members = [
            with_derived(_plan(member, recipe), member.derive)
            for member in map(recipe.sources.__getitem__, source.union.union)
        ]
        return dataclasses.replace(plan_union(source, members), private=private)
    path = tuple(_of_day(source, pattern, recipe.date) for pattern in source.path)
    source = dataclasses.replace(source, path=path)
    try:
        plan = plan_source(source, recipe.directory)
    except OutsideRootError as error:
        raise RecipeProblems([Problem(("sources", source.name), str(error))]) from error
    if not private:
        return plan
    decisions = tuple(decision.partition("  # ")[0] for decision in plan.decisions)
    return dataclasses.replace(plan, decisions=decisions, private=private)


def _private_names(recipe: Recipe) -> tuple[str, ...]:
    """Returns all names that sources may have for private columns."""
    old = {new: name for name, new in recipe.rename.items()}
    names = {*recipe.private, *(old.get(name, name) for name in recipe.private)}
    prefixes = [join.prefix for join in recipe.join if join.prefix]
    cut = {name.removeprefix(prefix) for name in names for prefix in prefixes}
    return tuple(sorted(names | cut))


def _of_day(source: Source, pattern: str, date: datetime.date | None) -> str:
    """Returns a pattern with the date in place of ``{date}``."""
    where = ("sources", source.name, "path")
    try:
        has_date = path_dates.has_date(pattern)
    except ValueError as error:
        raise RecipeProblems([Problem(where, str(error))]) from error
    if has_date and date is None:
        message = (
            f"found a date in '{pattern}', expected the day on the command line, as in "
            "--date 2026-11-21."
        )
        raise RecipeProblems([Problem(where, message)])
    return pattern if date is None else path_dates.fill_date(pattern, date)


def check_date(recipe: Recipe) -> None:
    """Raises ``RecipeProblems`` if there is a date that no path uses."""

    def takes_date(pattern: str) -> bool:
        try:
            return path_dates.has_date(pattern)
        except ValueError:
            return True  # reported by _of_day

    used = _used(recipe)
    unions = [union for name in used if (union := recipe.sources[name].union)]
    read = [*used, *(name for union in unions for name in union.union)]
    patterns = [pattern for name in read for pattern in recipe.sources[name].path]
    if recipe.date is not None and not any(map(takes_date, patterns)):
        message = (
            f"found --date {recipe.date}, but no source has {{date}} in its 'path', as in "
            f"clicks/{{date}}.jsonl."
        )
        raise RecipeProblems([Problem(("sources",), message)])
