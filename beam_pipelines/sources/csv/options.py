"""The keys of CSV sources."""

from __future__ import annotations

import dataclasses

from beam_pipelines.recipe.keys import FOUND, recipe_key
from beam_pipelines.recipe.values import read_character, read_quote
from beam_pipelines.sources.options import EncodedOptions, HeaderOptions, TextsOptions


@dataclasses.dataclass(frozen=True)
class CsvOptions(TextsOptions, EncodedOptions, HeaderOptions):
    """How cells and lines are written."""

    delimiter: str | None = recipe_key(read_character, None, FOUND, "One character between cells.")
    quote: str | None = recipe_key(
        read_quote, None, FOUND, "One character around cells; an empty text turns quoting off."
    )
