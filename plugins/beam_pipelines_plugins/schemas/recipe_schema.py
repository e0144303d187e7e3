"""The JSON Schema of a recipe, for editors.

It follows from the keys that model.py declares.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA
from beam_pipelines.core.process import plugins
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.keys import json_schema, keys_of
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.splits import READ_PART, FileSplit, Split, TimeSplit
from beam_pipelines.recipe.unions import Union
from beam_pipelines.recipe.values import read_texts
from beam_pipelines.sources import FORMATS

# The first line of a recipe, which names the schema in its folder.
MODELINE = f"# yaml-language-server: $schema={RECIPE_SCHEMA}"


def schema_text() -> str:
    """Returns the JSON Schema of recipes as text."""
    return json.dumps(recipe_schema(), indent=1) + "\n"


def recipe_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of a recipe.

    It is looser than the reader: it does not know which keys contradict each other.
    """
    source = json_schema(Source, {"format": {"enum": list(FORMATS)}})
    for key in FORMATS.option_names:
        source["properties"].setdefault(key, {})
        with contextlib.suppress(DataError):  # the format is not installed
            source["properties"] |= json_schema(FORMATS.declaring(key))["properties"]
    kind = {"enum": list(ENCODING_FOR_KIND)}
    step = {"type": "object", "propertyNames": kind, "minProperties": 1, "maxProperties": 1}
    chain = {"anyOf": [kind, step, {"type": "array", "items": {"anyOf": [kind, step]}}]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "beam-pipelines recipe",
        **json_schema(
            Recipe,
            {
                "sources": _mapping(
                    {"anyOf": [*read_texts.schema["anyOf"], source, json_schema(Union)]}
                ),
                "join": {"type": "array", "items": json_schema(Join)},
                "encode": _mapping(chain),
                "split": _split(),
            },
        ),
    }
    for name in (*plugins.OWN[plugins.CHECKS], *plugins.installed(plugins.CHECKS)):
        check = plugins.load(plugins.CHECKS, name)
        schema["properties"][name] = {"description": check.help, **check.reader.schema}
    return schema


def _mapping(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": items, "minProperties": 1}


def _split() -> dict[str, Any]:
    share = {**READ_PART.schema, "exclusiveMinimum": 0, "maximum": 1}
    kinds = map(json_schema, (TimeSplit, FileSplit))
    return {
        "type": "object",
        "properties": {key.name: dict(key.read.schema) for key in keys_of(Split).values()},
        "additionalProperties": {"anyOf": [share, *kinds]},
    }
