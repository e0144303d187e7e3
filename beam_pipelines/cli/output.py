"""Prints lines of a command, its result as JSON, or nothing."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import visible

Command = TypeVar("Command", bound=Any)
_QUIET = f"{__name__}.quiet"


def output_options(command: Command) -> Command:
    """Adds ``--quiet``, ``--format``, the argument ``form``, and ``--verbose``.

    ``is_quiet`` reads the first one, ``cli.run`` the last one.
    """
    for option in (
        click.option(
            "--verbose",
            is_flag=True,
            expose_value=False,
            help="Show tracebacks and the log of Beam.",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="What to print.",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=_remember_quiet,
            help="Print nothing but errors, and JSON if it is asked for.",
        ),
    ):
        command = option(command)
    return command


def _remember_quiet(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.meta[_QUIET] = value


def is_quiet() -> bool:
    """Whether the command that runs prints nothing but errors."""
    return bool(click.get_current_context().meta[_QUIET])


@contextlib.contextmanager
def output_unless_quiet() -> Iterator[None]:
    """Drops text on standard output if the command is quiet; JSON stays."""
    if not is_quiet() or click.get_current_context().params.get("form") == "json":
        yield
        return
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        yield


def say(text: str, err: bool = False) -> None:
    """Prints a line with control characters as escapes."""
    click.echo(visible(text), err=err)


def json_text(document: Any) -> str:
    """Returns data as JSON; NaN and infinities, which JSON lacks, are texts."""
    return json.dumps(_finite(document), ensure_ascii=False, indent=1)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def answer(form: str, document: Any, lines: Iterable[str]) -> None:
    """Prints the result of a command.

    Args:
      form: ``json`` or ``text``, as ``output_options`` has it.
      document: the result as data for JSON.
      lines: the result as text.
    """
    if form == "json":
        say(mask(json_text(document)))
        return
    for line in lines:
        say(line)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], gap: int = 3) -> Iterator[str]:
    """Yields the lines of a table: one text column, then numbers."""
    lines = [list(heads), *([visible(cell, keep="") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, (name, *values) in enumerate(lines):
        cells = [cell.rjust(width) for cell, width in zip(values, widths[1:], strict=True)]
        yield (" " * gap).join([name.ljust(widths[0]), *cells]).rstrip()
        if number == 0:
            yield "─" * (sum(widths) + gap * len(values))
