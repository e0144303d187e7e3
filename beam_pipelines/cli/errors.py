"""What a command says that fails or is interrupted, and its exit status."""

from __future__ import annotations

import traceback

import click

from beam_pipelines.core import signals
from beam_pipelines.core.errors import PipelineError, RecipeError, mask, out_of_memory


def say_interrupted() -> int:
    """Says that the command was interrupted, and what has come of it; returns the exit status."""
    with signals.ignoring_signals():
        _complain(signals.message())
    return signals.INTERRUPTED


def print_failure(error: Exception, is_verbose: bool) -> int:
    """Prints what went wrong, and returns the exit status."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "beam-pipelines"
        _complain(error.format_message(), f"See '{command} --help'.")
        return error.exit_code
    if is_verbose:
        click.echo(mask("".join(traceback.format_exception(error))), err=True, nl=False)
    if not isinstance(error, PipelineError):
        error = out_of_memory(f"{type(error).__name__}: {_last_line(error)}") or error
    if isinstance(error, PipelineError):
        # Each line of a RecipeError is a problem of its own; a DataError is one, whatever its
        # length.
        _complain(*(str(error).split("\n") if isinstance(error, RecipeError) else [str(error)]))
        return error.exit_code
    hint = "" if is_verbose else " Run again with --verbose for the traceback."
    _complain(f"{type(error).__name__}: {_last_line(error)}".rstrip(".") + "." + hint)
    return 1


def is_interruption(error: BaseException) -> bool:
    """Whether an error is what Beam made of a KeyboardInterrupt: an error of its own, with the
    original as its context.
    """
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        if isinstance(following, KeyboardInterrupt):
            return True
        seen.append(following)
        following = following.__context__
    return False


def _last_line(error: Exception) -> str:
    """Returns what went wrong: from a worker process Beam brings a whole traceback as text, which
    ends with it.
    """
    lines = str(error).strip().splitlines()
    return lines[-1] if lines and lines[0].startswith("Traceback ") else str(error)


def _complain(*messages: str) -> None:
    for message in messages:
        click.echo(
            mask(f"error: {message}" if not message.startswith("See '") else message), err=True
        )


def warn(message: str) -> None:
    """Prints a warning to standard error."""
    click.echo(mask(f"warning: {message}"), err=True)
