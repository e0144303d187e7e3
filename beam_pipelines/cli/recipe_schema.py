"""The JSON Schema of recipes, as a file for editors."""

from __future__ import annotations

import json

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options, say
from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA

# The first line of a recipe, which names the schema in its folder.
MODELINE = f"# yaml-language-server: $schema={RECIPE_SCHEMA}"


def schema_text() -> str:
    """Returns the JSON Schema of recipes as text."""
    from beam_pipelines.pipeline.planning.recipes import recipe_schema

    return json.dumps(recipe_schema(), indent=1) + "\n"


@click.command(cls=StorageCommand, epilog="schema recipe -o recipe.schema.json")
@click.option(
    "-o", "--output", metavar="FILE", help="The file to write, or replace; default: print it."
)
@output_options
def recipe(output: str | None, form: str) -> None:
    """Write the JSON Schema of recipes.

    With it, editors complete and check YAML.
    """
    from beam_pipelines.storage import files

    if output is None:
        say(schema_text().rstrip("\n"))
        return
    with files.replace(output) as file:
        file.write(schema_text().encode())
    line = f"{output} written. First line of a recipe next to it: {MODELINE}"
    answer(form, {"path": output}, [line])
