"""``near``: a key for similar values, which another package lets meet."""

from __future__ import annotations

import dataclasses

from beam_pipelines.checks.check import SelectedColumns
from beam_pipelines.checks.meet import Way
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe.keys import json_schema, needed_key, read_keys, recipe_key
from beam_pipelines.recipe.values import Value, ValueReader, read_share, read_text

_read_similarity = read_share(
    "a similarity from 0.5 to 1, as 0.8", lambda similarity: 0.5 <= similarity <= 1
)


@dataclasses.dataclass(frozen=True)
class NearColumn:
    """A column whose similar values are looked for."""

    column: str = needed_key(read_text, "Column of texts or images.", "text")
    similarity: float = recipe_key(
        _read_similarity,
        0.8,
        "0.8",
        "Least similarity: of texts Jaccard's, of images the share of equal bits.",
    )


def _read(value: Value) -> NearColumn | None:
    found = read_keys(NearColumn, value, "a mapping such as {column: text, similarity: 0.8}")
    return NearColumn(**found) if "column" in found else None


read_near: ValueReader[NearColumn] = ValueReader(_read, json_schema(NearColumn))


def plan_near(near: NearColumn, known: SelectedColumns, check: str) -> Way:
    """Returns the way in which similar values meet; notes what is wrong.

    Raises:
      DataError: the package is not installed that compares them.
    """
    way: Way = plugins.load(plugins.FUNCTIONS, "near")(near, known, (check, "near"))
    return way
