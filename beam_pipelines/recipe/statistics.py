"""The section ``statistics`` of a recipe."""

from __future__ import annotations

import dataclasses

from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.values import read_share, read_text, read_texts


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics beyond those of all rows, or of some only."""

    weight: str | None = recipe_key(read_text, None, "none", "Column with the weight of each row.")
    slice_by: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns, each of whose values gets statistics of its own."
    )
    features: tuple[str, ...] = recipe_key(
        read_texts, (), "all", "Columns whose values are counted; of others, only their presence."
    )
    sample: float | None = recipe_key(
        read_share("a share above 0 and up to 1, as 0.1 or 10%", lambda share: 0 < share <= 1),
        None,
        "all rows",
        "Share of the rows whose values are counted; presence is counted in every row.",
    )
