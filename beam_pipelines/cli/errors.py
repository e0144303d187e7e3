"""Messages and exit statuses of commands that fail or are interrupted."""

from __future__ import annotations

import dataclasses
import re
import shlex
import traceback

import click

from beam_pipelines.cli.output import say
from beam_pipelines.core.errors import PipelineError, RecipeError, mask, out_of_memory
from beam_pipelines.core.process import signals

# A key that a message proposes, with a value or without: 'encoding: cp1252', "formats: {'a': …}".
_PROPOSED = re.compile(r"""(['"])(\w+): (\{[^{}]*\}|\S.*?)\1(?=[ ,.;:)]|$)|[Ss]et '(\w+)'""")
# Between keys that are set together.
_AND = re.compile("(?: of the source)?(?:, |,? and )")

# Keys of a recipe, outside of sources, that messages propose with a value.
_TOP_KEYS = {"derive", "drop", "filter", "on_error"}


def say_interrupted() -> int:
    """Prints that the command was interrupted; returns the exit status.

    The message includes the outcome of the command.
    """
    with signals.ignoring_signals():
        _complain(signals.message())
    return signals.INTERRUPTED


def print_failure(error: Exception, is_verbose: bool) -> int:
    """Prints an error, and returns the exit status."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "beam-pipelines"
        if type(error).__name__ == "NoArgsIsHelpError":  # not in the oldest click that we take
            say(error.format_message(), err=True)
            return error.exit_code
        _complain(error.format_message(), f"See '{command} --help'.")
        return error.exit_code
    if is_verbose:
        say(mask("".join(traceback.format_exception(error)).rstrip("\n")), err=True)
    if not isinstance(error, PipelineError):
        error = out_of_memory(f"{type(error).__name__}: {_last_line(error)}") or error
    if isinstance(error, PipelineError):
        # Each line of a RecipeError is a problem; a DataError is one problem of any length.
        is_list = isinstance(error, RecipeError)
        excerpts = error.excerpts if isinstance(error, RecipeError) else ()
        for index, line in enumerate(str(error).split("\n") if is_list else [str(error)]):
            _complain(line)
            if excerpt := "".join(excerpts[index : index + 1]):
                say(excerpt, err=True)
        if error.hint:
            say(mask(error.hint), err=True)
        return error.exit_code
    hint = "" if is_verbose else " Run again with --verbose for the traceback."
    _complain(f"{type(error).__name__}: {_last_line(error)}".rstrip(".") + "." + hint)
    return 1


def hint_without_recipe(message: str, data: str) -> str:
    """Returns options for the keys that a message proposes first.

    Args:
      message: of an error.
      data: the command's argument.
    """
    # Only errors need these.
    from beam_pipelines.pipeline.planning.recipes import is_recipe
    from beam_pipelines.recipe.model import Source
    from beam_pipelines.recipe.reader import bare_name
    from beam_pipelines.sources import FORMATS

    if is_recipe(data):
        return ""
    known = {*(field.name for field in dataclasses.fields(Source)), *FORMATS.option_names}
    known.remove("name")  # of the source itself
    settings: list[str] = []
    end = 0
    for found in _PROPOSED.finditer(message):
        _, key, value, alone = found.groups()
        if (key or alone) in known | _TOP_KEYS:
            if settings and not _AND.fullmatch(message, end, found.start()):
                break
            name = key if key in _TOP_KEYS else f"sources.{bare_name(data)}.{key or alone}"
            settings.append(f"{name}={value or '…'}")
            end = found.end()
    if not settings:
        return ""
    of_sources = all(setting.startswith("sources.") for setting in settings)
    commands = "convert, describe, init and preview" if of_sources else "convert, describe, preview"
    options = " ".join(f"--set {shlex.quote(setting)}" for setting in settings)
    return f"Without a recipe, {commands} take {options}"


def is_interruption(error: BaseException) -> bool:
    """Whether an error has a KeyboardInterrupt as its context.

    Beam wraps interruptions in this way.
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
    """Returns the error's text, or the last line of a worker's traceback.

    Beam passes a worker's error as its traceback.
    """
    lines = str(error).strip().splitlines()
    return lines[-1] if lines and lines[0].startswith("Traceback ") else str(error)


def _complain(*messages: str) -> None:
    for message in messages:
        say(mask(f"error: {message}" if not message.startswith("See '") else message), err=True)


def warn(message: str) -> None:
    """Prints a warning to standard error."""
    say(mask(f"warning: {message}"), err=True)
