"""Plans the sources of a recipe, with its date in their paths."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection

from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.pipeline.planning.private import plan_privately
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.unions import plan_union
from beam_pipelines.storage.input_roots import OutsideRootError


def plan_source_of(source: Source, recipe: Recipe) -> SourcePlan:
    """Plans a source with the recipe's date in its paths."""
    if source.union is not None:
        members = [plan_source_of(recipe.sources[name], recipe) for name in source.union.union]
        return plan_union(dataclasses.replace(source, limits=recipe.limits), members)
    path = tuple(_of_day(source, pattern, recipe.date) for pattern in source.path)
    try:
        source = dataclasses.replace(source, path=path, limits=recipe.limits)
        return plan_privately(source, recipe)
    except OutsideRootError as error:
        raise RecipeProblems([Problem(("sources", source.name), str(error))]) from error


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


def check_date(recipe: Recipe, used: Collection[str]) -> None:
    """Raises ``RecipeProblems`` if there is a date that no path uses."""

    def takes_date(pattern: str) -> bool:
        try:
            return path_dates.has_date(pattern)
        except ValueError:
            return True  # reported by _of_day

    unions = [union for name in used if (union := recipe.sources[name].union)]
    read = [*used, *(name for union in unions for name in union.union)]
    patterns = [pattern for name in read for pattern in recipe.sources[name].path]
    if recipe.date is not None and not any(map(takes_date, patterns)):
        message = (
            f"found --date {recipe.date}, but no source has {{date}} in its 'path', as in "
            f"clicks/{{date}}.jsonl."
        )
        raise RecipeProblems([Problem(("sources",), message)])
