"""The checks that a recipe can ask for."""

from __future__ import annotations

from collections.abc import Iterator

from beam_pipelines.checks.check import Check, SelectedColumns
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe.model import Recipe


def plan_checks(recipe: Recipe, known: SelectedColumns) -> tuple[Check, ...]:
    """Returns the checks of a recipe; notes what is wrong with them."""
    every = dict.fromkeys((*plugins.known(plugins.CHECKS), *sorted(recipe.checks)))
    names = [name for name in every if name in recipe.checks]
    kinds: list[type[Check]] = [plugins.load(plugins.CHECKS, name) for name in names]
    planned = (kind.plan(recipe.checks[kind.name], recipe, known) for kind in kinds)
    checks = tuple(check for check in planned if check is not None)
    for check in checks:
        known.problems.extend(_impossible(check, recipe))
        if not check.changes_rows and any(meet.drop for meet in check.meets):
            raise TypeError(
                f"check '{check.name}' leaves rows out, expected 'changes_rows = True' of "
                f"{type(check).__name__}: the recipe's hash has to know it."
            )
    return checks


def _impossible(check: Check, recipe: Recipe) -> Iterator[Problem]:
    """Yields keys of a recipe that a check contradicts."""
    meets_splits = any(meet.has_splits for meet in check.meets)
    if meets_splits and recipe.sequence is not None and recipe.sequence.group_by:
        message = (
            "found it with 'group_by' of the sequence: grouped rows are not compared. Leave it "
            "out: a split by the columns of 'group_by' has all rows of a key."
        )
        yield Problem((check.name,), message)
