"""The keys of sources of spreadsheets."""

from __future__ import annotations

import dataclasses

from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.values import Value, read_text, reader
from beam_pipelines.recipe.yaml import Scalar
from beam_pipelines.sources.options import HeaderOptions, TextsOptions


@reader(type=["string", "integer"])
def _read_sheet(value: Value) -> str | int | None:
    """A sheet's name, or its number from 1."""
    found = value.tree.value if isinstance(value.tree, Scalar) else None
    if isinstance(found, bool) or (isinstance(found, int) and found < 1):
        value.expected("the name of a sheet, or its number from 1")
        return None
    return found if isinstance(found, int) else read_text(value)


@dataclasses.dataclass(frozen=True)
class ExcelOptions(HeaderOptions, TextsOptions):
    """A sheet, and where its table is."""

    sheet: str | int | None = recipe_key(
        _read_sheet, None, "the only one", "Sheet of an `excel` source."
    )
