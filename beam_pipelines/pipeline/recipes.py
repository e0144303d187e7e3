"""Recipes from files, with the known formats and encodings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe import json_schema, reader
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.sources import FORMATS

RECIPE_SUFFIXES = (".yaml", ".yml")


def load(path: str, settings: Sequence[Setting] = ()) -> Recipe:
    """Returns the recipe of a ``.yaml`` or ``.yml`` file.

    Any other path gives the recipe that converts that file as it is.

    Args:
      path: of a recipe or of data.
      settings: values of the command line for the recipe's keys.
    """
    if path.lower().endswith(RECIPE_SUFFIXES):
        return load_recipe(path, settings)
    if settings:
        return reader.set_bare_recipe(path, settings, FORMATS, ENCODING_FOR_KIND)
    return reader.bare_recipe(path)


def load_recipe(path: str, settings: Sequence[Setting] = ()) -> Recipe:
    """Reads a recipe file; the recipe's relative paths start in its folder.

    Raises:
      RecipeError: the file is not there or not a recipe; lists every problem.
    """
    # Imports Beam, which reading a recipe from text does not need.
    from beam_pipelines.storage import files

    try:
        text = files.read_document(path).decode("utf-8-sig")
    except DataError as error:
        raise RecipeError(f"{path}: the recipe cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: found bytes that are not UTF-8 at {error.start}, expected a YAML file."
        ) from error
    return parse_recipe(text, path, os.path.dirname(path), settings=settings)


def parse_recipe(
    text: str,
    origin: str,
    directory: str = "",
    encodings: Mapping[str, Any] | None = None,
    settings: Sequence[Setting] = (),
) -> Recipe:
    """Reads a recipe from YAML text."""
    encodings = ENCODING_FOR_KIND if encodings is None else encodings
    return reader.parse_recipe(text, origin, FORMATS, encodings, directory, settings, os.environ)


def recipe_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a recipe."""
    return json_schema.recipe_schema(FORMATS, ENCODING_FOR_KIND)
