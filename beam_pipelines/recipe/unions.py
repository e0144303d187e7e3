"""The keys of a source that is the rows of other sources."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import needed_key, recipe_key
from beam_pipelines.recipe.values import read_choice, read_text, read_texts


@dataclasses.dataclass(frozen=True)
class Union:
    """Rows of several sources, one after the other, with columns by name."""

    union: tuple[str, ...] = needed_key(read_texts, "The sources, in order.", "[web, app]")
    missing: Literal["error", "fill"] = recipe_key(
        read_choice(("error", "fill")),
        "error",
        "`error`",
        "A column that some sources lack is an error, or null in their rows.",
    )
    origin: str | None = recipe_key(
        read_text, None, "none", "New column with the name of each row's source."
    )
    key: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns whose combined value must be unique in all of them."
    )
