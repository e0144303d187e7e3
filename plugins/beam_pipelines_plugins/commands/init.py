"""The command ``init``: writes a first recipe."""

from __future__ import annotations

import click

from beam_pipelines.cli.errors import warn
from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, is_quiet, output_options
from beam_pipelines.cli.recipe_options import chosen_settings, set_option


@click.command(cls=StorageCommand, epilog="init flights.csv planes.csv -o recipe.yaml")
@click.argument("data", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="recipe.yaml",
    show_default=True,
    help="The recipe to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file that is there.")
@set_option
@output_options
@click.pass_context
def init(
    context: click.Context, data: tuple[str, ...], output: str, overwrite: bool, form: str
) -> None:
    """Look at data files and write a recipe with comments."""
    from beam_pipelines_plugins.first_recipe.init import write_recipe

    unreadable = write_recipe(data, output, overwrite, chosen_settings(context))
    for one in () if is_quiet() else unreadable:
        warn(f"{one.path} is left out: {one.reason}")
    line = f"{output} written. Read it, then: beam-pipelines convert {output} --output out/"
    answer(form, {"recipe": output}, [line])
