"""Command-line options: Beam's, and those that several commands share.

A command that runs a job takes every option of Beam's (``--runner``, ``--project``,
``--direct_num_workers``, …) and its own; one that only opens files takes those of storages
(``--s3_endpoint_url``, …). Beam ignores unknown flags, so that a misspelt one silently changes
nothing; here it is an error with the nearest name.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import click

from beam_pipelines.cli.errors import hint_without_recipe
from beam_pipelines.cli.output import answer, output_unless_quiet
from beam_pipelines.core.arrow import memory
from beam_pipelines.core.errors import PipelineError, nearest
from beam_pipelines.runners import fork_server
from beam_pipelines.runners.beam_import import import_beam, names_runner
from beam_pipelines.runners.beam_patches import applied, cache_option_views, patch_command_process

# Beam's option classes for opening files.
STORAGE_OPTIONS = ("S3Options", "GoogleCloudOptions", "HadoopFileSystemOptions", "AzureOptions")
# Those that a run on this machine looks at, with storages'.
_LOCAL_OPTIONS = (
    *STORAGE_OPTIONS,
    "DebugOptions",
    "DirectOptions",
    "ProfilingOptions",
    "StandardOptions",
    "TypeOptions",
)


class BeamCommand(click.Command):
    """A click command that collects Beam's options in ``context.meta[BEAM_OPTIONS]``.

    Attributes:
      classes: names of Beam's option classes that it takes; empty: all.
      checks_access: whether object stores among its arguments are checked first.
    """

    classes: tuple[str, ...] = ()
    checks_access = True

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, and which options of Beam's the command takes."""
        formatter.write_paragraph()
        formatter.write_text("Example:")
        for line in (self.epilog or "").splitlines():
            formatter.write(f"  beam-pipelines {line}\n")
        if not self.classes:
            formatter.write_paragraph()
            formatter.write_text(_TAKES_ALL)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments before click parses its share."""
        try:
            own, beam_options = split_arguments(args, _own_flags(self), self.classes)
            ctx.meta[BEAM_OPTIONS] = beam_options
            rest = super().parse_args(ctx, [*own])  # click takes arguments out of the list
        except click.UsageError as error:
            error.ctx = ctx  # names the command whose --help to see
            raise
        import_beam(args)
        import pyarrow as pa

        from beam_pipelines.files.beam import cloud_access, files

        # Arrow replaces our signal handlers while it reads, and loses a signal at its end.
        pa.enable_signal_handlers(False)
        files.use_options(beam_options)
        if self.checks_access:
            cloud_access.check_paths(_opened([*own, *beam_options]))
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, with a fork server if it needs one.

        A command that takes all of Beam's options needs one, unless its data are one small file.
        Where the result would be JSON, an error is JSON, too.
        """
        try:
            with output_unless_quiet():
                return self._invoke(ctx)
        except PipelineError as error:
            data = ctx.params.get("recipe_or_data") or ctx.params.get("data")
            paths = [data] if isinstance(data, str) else list(data or ())
            if len(paths) == 1:
                error.hint = f"{hint_without_recipe(str(error), paths[0])}\n{error.hint}".strip()
            if ctx.params.get("form") == "json":
                answer("json", {"error": str(error)}, ())
            raise

    def _invoke(self, ctx: click.Context) -> Any:
        if self.classes:
            memory.resume_garbage_collection()
            return super().invoke(ctx)
        from beam_pipelines.pipeline import convert  # noqa: F401 - workers need its imports
        from beam_pipelines.runners.local_workers import register_unmeasured_coder

        patch_command_process()
        is_patched = not names_runner(ctx.meta[BEAM_OPTIONS])
        if is_patched:
            register_unmeasured_coder()
        memory.resume_garbage_collection()
        with (
            fork_server.running(forks=not _is_small(ctx)),
            applied(cache_option_views) if is_patched else contextlib.nullcontext(),
        ):
            return super().invoke(ctx)


def _is_small(context: click.Context) -> bool:
    """Whether a command reads one data file, in one thread."""
    from beam_pipelines.pipeline.planning.recipes import is_recipe
    from beam_pipelines.runners.run import ONE_THREAD_BYTES

    path = context.params.get("recipe_or_data", "")
    is_data = not is_recipe(path) and os.path.isfile(path) and not context.meta[BEAM_OPTIONS]
    return is_data and os.path.getsize(path) < ONE_THREAD_BYTES


def _opened(arguments: list[str]) -> Iterator[str]:
    """Yields arguments and values of options, without roots of inputs.

    The arguments are those of ``split_arguments``, so that flags have their own names.
    """
    before = ""
    for argument in arguments:
        name, _, value = argument.partition("=")
        if "--input_root" not in (before, name):
            yield value or argument
        before = argument


class StorageCommand(BeamCommand):
    """A click command that runs no job.

    It takes Beam's options for opening files only.
    """

    classes = STORAGE_OPTIONS


_TAKES_ALL = (
    "All options of Apache Beam are taken as well, such as --runner, "
    "--direct_num_workers or --temp_location; see docs/cli.md."
)
BEAM_OPTIONS = "beam_pipelines.beam_options"


class Flag(NamedTuple):
    """A flag, and whether a value follows it: always, never, or optionally."""

    name: str
    takes_value: bool
    value_is_optional: bool = False


def split_arguments(
    arguments: list[str], own_flags: dict[str, Flag], classes: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Divides arguments into ours (our flags, and positional ones) and Beam's.

    Dashes in a name are read as underscores if that makes it a known one: ``--dry-run`` is
    ``--dry_run``. Beam is imported only if there is a flag that is not ours.

    Raises:
      click.UsageError: a flag is neither ours nor Beam's, or Beam does not accept its value.
    """
    own: list[str] = []
    beam_options: list[str] = []
    beam: _BeamParser | None = None
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
                beam = beam or _beam_parser(classes)
                flag, target = _find(name, beam.flags), beam_options
                if flag is None:
                    hint = nearest(name, own_flags) or nearest(name, beam.flags)
                    of_beam = "of Beam's for files" if classes else "of Beam"
                    raise click.UsageError(
                        f"found {name}, which is neither an option of this command nor "
                        f"{of_beam}.{hint}"
                    )
            target.append(flag.name + equals + value)
            # An optional value is joined to its flag by ``=``, so none follows.
            if flag.takes_value and not equals and not flag.value_is_optional:
                target.extend(itertools.islice(rest, 1))
    if beam is not None:
        options = beam.parser.parse_args(beam_options)
        _check_values(options)
        runner = getattr(options, "runner", None) or "direct"
        # On this machine.
        if classes or runner.lower().removesuffix("runner") in ("direct", "fnapi"):
            _check_effect(beam_options, own_flags, beam, classes or _LOCAL_OPTIONS)
    return own, beam_options


def _check_effect(
    beam_options: list[str], own_flags: dict[str, Flag], beam: _BeamParser, classes: tuple[str, ...]
) -> None:
    """Refuses flags of Beam's that change nothing on this machine.

    Beam takes and ignores them: ``--num_workers 4`` is of a job on Dataflow.
    """
    for name in (option.partition("=")[0] for option in beam_options):
        is_read = beam.classes_of.get(name, set()).intersection(classes)
        if name.startswith("--") and not is_read:
            hint = nearest(name, own_flags) or (
                " Name the engine with --runner." if "StandardOptions" in classes else ""
            )
            raise click.UsageError(
                f"found {name}, an option of Beam's for jobs on engines, which has no effect on "
                f"this machine.{hint}"
            )


def _check_values(options: argparse.Namespace) -> None:
    """Checks values that Beam accepts, and fails over later."""
    from beam_pipelines.runners.options import check_runner

    check_runner(getattr(options, "runner", None))
    if (getattr(options, "direct_num_workers", 0) or 0) < 0:
        raise click.UsageError(
            f"found --direct_num_workers {options.direct_num_workers}, expected a number from 0 "
            "(all cores) up."
        )


def _find(name: str, flags: dict[str, Flag]) -> Flag | None:
    return flags.get(name) or flags.get("--" + name[2:].replace("-", "_"))


def _own_flags(command: click.Command) -> dict[str, Flag]:
    flags = {"--help": Flag("--help", takes_value=False)}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for name in parameter.opts:
                flags[name] = Flag(name, takes_value=not parameter.is_flag)
    return flags


class _BeamParser(NamedTuple):
    """A parser for Beam's options.

    Attributes:
      parser: of the arguments.
      flags: name -> flag.
      classes_of: name of a flag -> names of the option classes that have it.
    """

    parser: argparse.ArgumentParser
    flags: dict[str, Flag]
    classes_of: dict[str, set[str]]


def _beam_parser(classes: tuple[str, ...]) -> _BeamParser:
    """Returns a parser for the arguments of Beam's option classes.

    ``classes`` are the names of the classes; if it is empty, all are taken.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    class Parser(argparse.ArgumentParser):
        """Reports errors as click does; allows one flag in two classes."""

        def error(self, message: str) -> NoReturn:
            raise click.UsageError(f"Beam's options: {message}.")

    parser = Parser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    actions: dict[str, argparse.Action] = parser._option_string_actions  # noqa: SLF001 - no public way
    classes_of: dict[str, set[str]] = {}
    for options in _subclasses(PipelineOptions):
        if classes and options.__name__ not in classes:
            continue
        before = dict(actions)
        options._add_argparse_args(parser)  # noqa: SLF001 - the method that Beam asks subclasses to define
        for name, action in actions.items():
            if before.get(name) is not action:
                classes_of.setdefault(name, set()).add(options.__name__)
    flags = {
        name: Flag(name, takes_value=action.nargs != 0, value_is_optional=action.nargs == "?")
        for name, action in actions.items()
        if name.startswith("--") and name != "--help"
    }
    return _BeamParser(parser, flags, classes_of)


def _subclasses(of: Any) -> Iterator[Any]:
    for subclass in of.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
