"""Tells our own command-line flags from Beam's, and a misspelt one from both.

A command that runs a job takes every option of Beam's (``--runner``, ``--project``,
``--direct_num_workers``, …) beside its own; one that only opens files takes those of storages
(``--s3_endpoint_url``, …). Beam itself ignores what it does not know, so that a misspelt flag
silently changes nothing; here it is an error with the nearest name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar

import click

from beam_pipelines.core import memory
from beam_pipelines.core.errors import nearest
from beam_pipelines.runners import fork_server
from beam_pipelines.runners.beam_patches import (
    import_beam,
    is_unpatched,
    names_runner,
    patch_command_process,
)

# Beam's classes of options that say how files are opened.
STORAGE_OPTIONS = ("S3Options", "GoogleCloudOptions", "HadoopFileSystemOptions", "AzureOptions")


class BeamCommand(click.Command):
    """A click command that puts Beam's options aside, as a list of arguments, in
    ``context.meta[BEAM_OPTIONS]``.

    Attributes:
      classes: names of Beam's classes of options that it takes; all, if there are none.
    """

    classes: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments before click reads its own share of them."""
        try:
            own, beam_options = split_arguments(args, _own_flags(self), self.classes)
        except click.UsageError as error:
            error.ctx = ctx  # names the command whose --help to see
            raise
        ctx.meta[BEAM_OPTIONS] = beam_options
        rest = super().parse_args(ctx, own)
        import_beam(args)
        import pyarrow as pa

        from beam_pipelines.core import files

        # Arrow puts handlers of its own in the place of ours while it reads, and loses a signal
        # that comes when it is about to end.
        pa.enable_signal_handlers(False)
        files.use_options(beam_options)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, while a fork server runs if the command takes all of Beam's options."""
        if self.classes:
            memory.resume_garbage_collection()
            return super().invoke(ctx)
        from beam_pipelines.pipeline import convert  # noqa: F401 - workers need its imports
        from beam_pipelines.runners.local_workers import register_unmeasured_coder

        patch_command_process()
        if not (is_unpatched() or names_runner(ctx.meta[BEAM_OPTIONS])):
            register_unmeasured_coder()
        memory.resume_garbage_collection()
        with fork_server.running():
            return super().invoke(ctx)


class StorageCommand(BeamCommand):
    """A click command that runs no job: of Beam's options it takes those that say how files are
    opened.
    """

    classes = STORAGE_OPTIONS


BEAM_EPILOG = (
    "All options of Apache Beam are taken as well, such as --runner, "
    "--direct_num_workers or --temp_location; see docs/cli.md."
)
BEAM_OPTIONS = "beam_pipelines.beam_options"

Command = TypeVar("Command", bound=Any)


def verbose(command: Command) -> Command:
    """Gives a command the option that every one has; ``cli.run`` looks for it."""
    option = click.option(
        "--verbose", is_flag=True, expose_value=False, help="Show tracebacks and the log of Beam."
    )
    return option(command)


def resume_option(command: Command) -> Command:
    """Gives a command that converts the option to go on where another run broke off."""
    option = click.option(
        "--resume",
        is_flag=True,
        help="Keep the shards that a run which broke off has finished, if they fit.",
    )
    return option(command)


class Flag(NamedTuple):
    """A flag as it is written, and whether a value has to, may or must not follow it."""

    name: str
    takes_value: bool
    value_is_optional: bool = False


def split_arguments(
    arguments: list[str], own_flags: dict[str, Flag], classes: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Divides arguments into ours (flags and everything that is no flag's value) and Beam's.

    Dashes within a name are read as underscores where that makes it a known one: ``--dry-run`` is
    ``--dry_run``. Beam is imported only when there is a flag that is not ours.

    Raises:
      click.UsageError: a flag is neither ours nor Beam's, or a value is not what Beam expects.
    """
    own: list[str] = []
    beam_options: list[str] = []
    beam_flags: dict[str, Flag] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            own += [argument, *rest]
        elif not argument.startswith("--"):
            own.append(argument)
        else:
            name, equals, value = argument.partition("=")
            flag, target = _find(name, own_flags), own
            if flag is None:
                import_beam(arguments)
                beam_flags = beam_flags or _beam_flags(classes)
                flag, target = _find(name, beam_flags), beam_options
            if flag is None:
                hint = nearest(name, [*own_flags, *beam_flags])
                of_beam = "of Beam's for files" if classes else "of Beam"
                raise click.UsageError(
                    f"found {name}, which is neither an option of this command nor {of_beam}.{hint}"
                )
            target.append(flag.name + equals + value)
            if flag.takes_value and not equals:
                target.extend(_following(rest, flag))
    if beam_options:
        _check_values(_beam_parser(classes).parse_args(beam_options))
    return own, beam_options


def _check_values(options: argparse.Namespace) -> None:
    """Checks what Beam takes as it is and then fails over in its own way."""
    from apache_beam.options.pipeline_options import StandardOptions

    known = StandardOptions.KNOWN_RUNNER_NAMES
    names = {name.lower().removesuffix("runner") for name in known}
    runner = getattr(options, "runner", None)
    if runner and "." not in runner and runner.lower().removesuffix("runner") not in names:
        raise click.UsageError(
            f"found --runner {runner}, expected one of {', '.join(known)}.{nearest(runner, known)}"
        )
    if (getattr(options, "direct_num_workers", 0) or 0) < 0:
        raise click.UsageError(
            f"found --direct_num_workers {options.direct_num_workers}, expected a number from 0 "
            "(all cores) up."
        )


def _find(name: str, flags: dict[str, Flag]) -> Flag | None:
    return flags.get(name) or flags.get("--" + name[2:].replace("-", "_"))


def _following(rest: Iterator[str], flag: Flag) -> list[str]:
    """Returns the value that follows a flag. One that is optional has to be joined to its flag by
    ``=``.
    """
    value = None if flag.value_is_optional else next(rest, None)
    return [] if value is None else [value]


def _own_flags(command: click.Command) -> dict[str, Flag]:
    flags = {"--help": Flag("--help", takes_value=False)}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for name in parameter.opts:
                flags[name] = Flag(name, takes_value=not parameter.is_flag)
    return flags


def _beam_flags(classes: tuple[str, ...]) -> dict[str, Flag]:
    actions: dict[str, argparse.Action] = _beam_parser(classes)._option_string_actions  # noqa: SLF001 - no public way
    return {
        name: Flag(name, takes_value=action.nargs != 0, value_is_optional=action.nargs == "?")
        for name, action in actions.items()
        if name.startswith("--") and name != "--help"
    }


def _beam_parser(classes: tuple[str, ...]) -> argparse.ArgumentParser:
    """Returns one parser with the arguments of Beam's ``PipelineOptions`` classes of some names, or
    of all.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    class Parser(argparse.ArgumentParser):
        """Reports errors as click does. Beam's own parser also allows what we define: the same flag
        in two classes.
        """

        def error(self, message: str) -> NoReturn:
            raise click.UsageError(f"Beam's options: {message}.")

    parser = Parser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for options in _subclasses(PipelineOptions):
        if classes and options.__name__ not in classes:
            continue
        options._add_argparse_args(parser)  # noqa: SLF001 - the method that Beam asks subclasses to define
    return parser


def _subclasses(of: Any) -> Iterator[Any]:
    for subclass in of.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
