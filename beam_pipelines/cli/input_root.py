"""The option ``--input_root`` of every command that plans a recipe: where the files that it reads
have to lie.
"""

from __future__ import annotations

from typing import Any, TypeVar

import click

from beam_pipelines.core.input_roots import check_root

Command = TypeVar("Command", bound=Any)


def input_root_option(command: Command) -> Command:
    """Gives a command the option, as an argument ``input_root``: a tuple of folders and URLs, empty
    if it is not given.
    """
    text = (
        "Folder or URL below which all that the recipe reads has to lie; may be given "
        "several times."
    )
    option = click.option("--input_root", metavar="DIR", multiple=True, callback=_roots, help=text)
    return option(command)


def _roots(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    for root in value:
        try:
            check_root(root)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value
