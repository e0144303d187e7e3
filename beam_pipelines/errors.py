"""The two kinds of failure a user can cause, and how they are worded.

A message reads *where - what was found - what was expected - what to do*. Both exceptions take one argument, so that
they survive pickling between Beam's processes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple


class PipelineError(Exception):
    """A failure that is explained to the user without a traceback."""

    exit_code = 1


class DataError(PipelineError):
    """The data or the run failed: exit status 1."""


class RecipeError(PipelineError):
    """The recipe or the command line is wrong: exit status 2. The message lists every problem, one a line."""

    exit_code = 2


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns ``" Did you mean 'x'?"`` for the known word nearest to ``word``, or an empty string if none is near."""
    matches = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean '{matches[0]}'?" if matches else ""


class Problem(NamedTuple):
    """One thing that is wrong with a recipe.

    Attributes:
      path: keys and indexes that lead to it in the recipe: ``("join", 0, "on")``; empty for the whole recipe.
      message: what was found, what was expected, what to do.
    """

    path: tuple[str | int, ...]
    message: str


class RecipeProblems(Exception):
    """All problems that one step of planning found. ``recipe_file`` adds line numbers and makes a ``RecipeError`` of it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems
