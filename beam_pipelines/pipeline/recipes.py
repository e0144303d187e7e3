"""Recipes from files, with the known formats and encodings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe import json_schema, reader
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources import FORMATS


def load(path: str) -> Recipe:
    """Returns the recipe of a YAML file, or of a data file."""
    return reader.load(path, FORMATS, ENCODING_FOR_KIND)


def load_recipe(path: str) -> Recipe:
    """Reads a recipe file."""
    return reader.load_recipe(path, FORMATS, ENCODING_FOR_KIND)


def parse_recipe(
    text: str, origin: str, directory: str = "", encodings: Mapping[str, Any] | None = None
) -> Recipe:
    """Reads a recipe from YAML text."""
    return reader.parse_recipe(
        text, origin, FORMATS, ENCODING_FOR_KIND if encodings is None else encodings, directory
    )


def recipe_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a recipe."""
    return json_schema.recipe_schema(FORMATS, ENCODING_FOR_KIND)
