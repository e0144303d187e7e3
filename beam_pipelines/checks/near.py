"""``near``: similar values meet in a way of another package."""

from __future__ import annotations

from beam_pipelines.checks.check import Known
from beam_pipelines.checks.meet import Way
from beam_pipelines.core import plugins
from beam_pipelines.recipe.near import Near


def plan_near(near: Near, known: Known, check: str) -> Way:
    """Returns the way in which similar values meet; notes what is wrong.

    Raises:
      DataError: the package is not installed that compares them.
    """
    way: Way = plugins.load(plugins.FUNCTIONS, "near")(near, known, (check, "near"))
    return way
