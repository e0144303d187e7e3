"""Recipes from files, with the known formats and encodings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.text.yaml import Tree
from beam_pipelines.sources import FORMATS

RECIPE_SUFFIXES = (".yaml", ".yml")


def is_recipe(path: str) -> bool:
    """Whether a path is a recipe's; any other is data."""
    return path.lower().endswith(RECIPE_SUFFIXES)


def load(path: str, settings: Sequence[Setting] = ()) -> Recipe:
    """Returns the recipe of a ``.yaml`` or ``.yml`` file.

    Any other path gives the recipe that converts that file as it is. Relative paths of a recipe
    file start in its folder.

    Args:
      path: of a recipe or of data.
      settings: values of the command line for the recipe's keys.

    Raises:
      RecipeError: the file is not there or not a recipe; lists every problem.
    """
    if not is_recipe(path):
        return reader.bare_recipe(path, FORMATS, ENCODING_FOR_KIND, settings, of_images(path))
    # Imports Beam, which reading a recipe from text does not need.
    from beam_pipelines.files.beam import files

    try:
        text = files.read_document(path).decode("utf-8-sig")
    except DataError as error:
        raise RecipeError(str(error)) from error
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: found bytes that are not UTF-8 at {error.start}, expected a YAML file."
        ) from error
    return parse_recipe(text, path, os.path.dirname(path), settings)


def of_images(path: str, table: str = "") -> Tree | None:
    """Returns the recipe's tree if a path is a folder of images.

    Args:
      path: of data.
      table: path of the table with labels; empty: it is looked for in the folder.
    """
    if not os.path.isdir(path):
        return None
    # Imports Beam, as ``load`` does.
    from beam_pipelines.pipeline.planning.image_folders import image_folder

    return image_folder(path, table)


def parse_recipe(
    text: str,
    origin: str,
    directory: str = "",
    settings: Sequence[Setting] = (),
    encodings: Mapping[str, Any] | None = None,
) -> Recipe:
    """Reads a recipe from YAML text.

    Raises:
      RecipeError: lists every problem.
    """
    encodings = ENCODING_FOR_KIND if encodings is None else encodings
    return reader.parse_recipe(text, origin, FORMATS, encodings, directory, settings)
