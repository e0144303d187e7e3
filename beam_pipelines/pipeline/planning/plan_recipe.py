"""Plans a conversion of a recipe, a mapping, or a data file.

It imports nothing that runs a job, so that a preview begins at once.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.process import plugins
from beam_pipelines.files.beam import cloud_access
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.policy import PolicyOptions, with_policy
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.settings import Setting

# A recipe: a YAML file, a data file that is converted as it is, a mapping with the keys of
# docs/recipe.md, or a Recipe.
RecipeLike: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Recipe"
NO_POLICY = PolicyOptions()


def plan(
    recipe: RecipeLike,
    *,
    schema: str | None = None,
    date: datetime.date | None = None,
    input_roots: Sequence[str] = (),
    policy: PolicyOptions = NO_POLICY,
    settings: Sequence[Setting] = (),
    encode: bool = False,
) -> Plan:
    """Plans a conversion and checks its recipe.

    Lists files, infers types and checks every column that the recipe names.

    Args:
      recipe: path of a recipe or a data file, a mapping, or a ``Recipe``.
      schema: path of a schema in place of the recipe's.
      date: the day that ``{date}`` in paths stands for.
      input_roots: folders and URLs that contain all inputs; empty: inputs may be anywhere.
      policy: environment, baseline and accepted anomalies.
      settings: values for keys of the recipe, as the command line has them.
      encode: encodes the columns of a data file as ``init`` proposes it.

    Raises:
      RecipeError: lists the problems of the recipe, each with its line: those of its keys, or else
        those that planning finds.
      DataError: a source cannot be read.
    """
    if encode:
        shown = "recipe.yaml" if isinstance(recipe, Recipe | Mapping) else os.fspath(recipe)
        if recipes.is_recipe(shown):
            raise RecipeError(
                "found --encode with a recipe, expected a data file without one. "
                f"'beam-pipelines init {shown} -o encoded.yaml' writes the recipe with "
                "an encoding for each column."
            )
        bare = plan(recipe, schema=schema, date=date, input_roots=input_roots, settings=settings)
        encode_settings = plugins.load(plugins.FUNCTIONS, "encode")
        settings = [*encode_settings(bare), *settings]
    loaded = _read(recipe, settings)
    loaded = dataclasses.replace(loaded, schema=schema or loaded.schema, date=date or loaded.date)
    cloud_access.check_paths(path for source in loaded.sources.values() for path in source.path)
    with loaded.lines.explained():
        made = make_plan(loaded, input_roots=input_roots)
    return with_policy(made, policy)


def _read(recipe: RecipeLike, settings: Sequence[Setting]) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Mapping):
        # JSON is YAML; one key a line, so that problems have lines.
        text = json.dumps(recipe, indent=1, default=str)
        return recipes.parse_recipe(text, "recipe", settings=settings)
    return recipes.load(os.fspath(recipe), settings)
