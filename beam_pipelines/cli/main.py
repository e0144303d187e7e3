"""The command line, ``beam-pipelines``.

It has commands such as convert, transform, describe, inspect, verify and init. Commands only parse,
call and print. Commands import Apache Beam only if they need it, because that takes seconds. Exit
status: 0 done, 1 the data or the run failed, 2 the recipe or the command line is wrong, 130
interrupted.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import warnings
from collections.abc import Sequence

import click

from beam_pipelines.cli import datasets
from beam_pipelines.cli import recipe_options as shared_options
from beam_pipelines.cli.doctor import doctor
from beam_pipelines.cli.errors import is_interruption, print_failure, say_interrupted
from beam_pipelines.cli.options import BEAM_OPTIONS, BeamCommand
from beam_pipelines.cli.output import answer, is_quiet, output_options, say
from beam_pipelines.cli.plan import plan, plan_document, preview
from beam_pipelines.cli.streams import NobodyReadsError, explain_output
from beam_pipelines.cli.validate import validate
from beam_pipelines.core.arrow import memory
from beam_pipelines.core.errors import RecipeError, mask
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.process import plugins, signals
from beam_pipelines.core.version import __version__
from beam_pipelines.runners.fork_server import allow_forks, was_interrupted


def main() -> None:
    """Runs the command line and ends the process with its exit status."""
    signals.raise_on_signal()
    allow_forks()
    # Nothing here multiplies matrices, and the threads that numpy would start for it spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault(*memory.ARROW_ALLOCATOR)
    status = None
    try:
        explain_output()
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command, or after it
        if status is None:
            status = say_interrupted()
    signals.exit_on_signal(status)
    atexit._run_exitfuncs()  # noqa: SLF001 - Beam ends the job servers that it started
    # All files are closed; the interpreter's shutdown would take half a second for its modules.
    os._exit(status)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status.

    Errors are printed to standard error.
    """
    is_verbose = "--verbose" in arguments
    signals.begin()
    _set_up_logging(is_verbose)
    try:
        _check_text(arguments)
        status = cli.main(list(arguments), prog_name="beam-pipelines", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, click.Abort):
        is_interrupted = True
    except NobodyReadsError:  # commands print after their work
        return 0
    except Exception as error:  # noqa: BLE001 - users see a traceback with --verbose only
        is_interrupted = was_interrupted() or signals.has_raised() or is_interruption(error)
        if not is_interrupted:
            return print_failure(error, is_verbose)
    return say_interrupted()


def _check_text(arguments: Sequence[str]) -> None:
    """Checks that arguments are text, as manifests and reports name them.

    Raises:
      RecipeError: one is not UTF-8.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise RecipeError(
                f"found {os.fsencode(argument)!r}, expected UTF-8: a dataset names its files in "
                "text. Rename the file or folder."
            ) from None


class _Masked(logging.Formatter):
    """Masks secrets in log lines and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a record."""
        return mask(super().format(record))


def _set_up_logging(is_verbose: bool) -> None:
    """Shows logs and warnings of Beam and its libraries with ``--verbose`` only."""
    if is_verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_Masked(logging.BASIC_FORMAT))
        return
    warnings.simplefilter("ignore")
    # Beam logs a worker that ends early as critical, with its traceback.
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    # A thread of Beam's fails if a worker ends early; the error of the run says why.
    threading.excepthook = lambda _: None


class _Commands(click.Group):
    """Commands of this package, and of other distributions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all that are installed."""
        return sorted({*super().list_commands(ctx), *plugins.installed(plugins.COMMANDS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command of another distribution when it is asked for."""
        command = super().get_command(ctx, cmd_name)
        if command is None and plugins.has(plugins.COMMANDS, cmd_name):
            command = plugins.load(plugins.COMMANDS, cmd_name)
        return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
For a start:
  beam-pipelines init flights.csv            # proposes recipe.yaml
  beam-pipelines preview recipe.yaml         # shows the first rows
  beam-pipelines convert recipe.yaml -o out
""",
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Raw tables in, training-ready TFRecord datasets out, from one recipe."""


@cli.command(
    cls=BeamCommand,
    epilog="convert recipe.yaml -o out/flights\n"
    "convert flights.csv --label late --split train=0.8,eval=0.2 --encode -o out/flights",
)
@click.argument("recipe_or_data")
@click.option(
    "-o", "--output", metavar="DIR", help="Folder of the dataset. Needed, but for --dry_run."
)
@shared_options.run_options
@click.option(
    "--dry_run",
    is_flag=True,
    help="Print the plan (files, ranges, joins, splits, shards) and stop.",
)
@shared_options.recipe_options
@shared_options.encode_option
@shared_options.take_options
@shared_options.input_options
@shared_options.policy_options
@output_options
@click.pass_context
def convert(
    context: click.Context, recipe_or_data: str, output: str | None, dry_run: bool, form: str
) -> None:
    """Make a dataset from a recipe (.yaml) or from a data file."""
    if output is None and not dry_run:
        raise click.UsageError(
            "found no --output, expected the folder of the dataset, for example --output "
            "out/flights."
        )
    output = shared_options.output_of_day(context, output)
    plan = shared_options.chosen_plan(context, recipe_or_data)
    if dry_run or output is None:
        answer(form, plan_document(plan), [plan.describe()])
        return
    from beam_pipelines.cli import summary
    from beam_pipelines.pipeline import convert as convert_module
    from beam_pipelines.pipeline import output_folder
    from beam_pipelines.pipeline.run_options import RunOptions
    from beam_pipelines.runners.run import pipeline_options, waits_for_end

    output_folder.check_inputs(output, [recipe_or_data])
    run = shared_options.running(context)
    if not waits_for_end(pipeline_options(run["beam_options"], plan.size_bytes)):
        where = convert_module.submit(plan, RunOptions(output, **run))
        line = f"submitted: {where}. The dataset is complete when there is a {output}/{MANIFEST}."
        answer(form, {"submitted": where, "dataset": output}, [line])
        return
    manifest = convert_module.convert(plan, output, **run)
    if left := output_folder.left_behind(output):
        say(f"{left}: could not be removed, though the dataset is complete. Remove it.", err=True)
    summary.print_summary(manifest, output, form=form)


@cli.command(cls=BeamCommand, epilog="describe out/flights\ndescribe flights.csv --sample 1%")
@click.argument("recipe_or_data")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for statistics, schema, anomalies and report; default: only print.",
)
@shared_options.recipe_options
@shared_options.take_options
@shared_options.input_options
@shared_options.policy_options
@output_options
@click.pass_context
def describe(context: click.Context, recipe_or_data: str, output: str | None, form: str) -> None:
    """Print statistics of a recipe's data, a file or a dataset.

    Data are read once; a dataset has its statistics.
    """
    from beam_pipelines.analysis.statistics.datasets import is_stored

    if is_stored(recipe_or_data):
        if output is not None or shared_options.has_chosen(context):
            raise click.UsageError(
                f"found an option of recipes and data with {recipe_or_data}, which has its "
                "statistics, expected none."
            )
        from beam_pipelines.cli import summary

        summary.print_statistics(recipe_or_data, form)
        return
    output = shared_options.output_of_day(context, output)
    from beam_pipelines.pipeline import api

    plan = shared_options.chosen_plan(context, recipe_or_data)
    from beam_pipelines.cli import summary
    from beam_pipelines.pipeline import convert as convert_module
    from beam_pipelines.pipeline.run_options import RunOptions

    with api.folder_or_temporary(output) as folder:
        options = RunOptions(folder, beam_options=context.meta[BEAM_OPTIONS], quiet=is_quiet())
        manifest = convert_module.describe(plan, options)
        if form == "json":
            say(summary.description_json(manifest, folder))
            return
        summary.print_description(manifest, folder, output is not None)


@cli.command(cls=BeamCommand, epilog="transform out/flights new.csv -o out/new")
@click.argument("dataset")
@click.argument("new_data", nargs=-1)
@click.option("-o", "--output", metavar="DIR", required=True, help="Folder of the new dataset.")
@click.option(
    "--source",
    "sources",
    metavar="NAME=PATH",
    multiple=True,
    help="New data of another source of the recipe.",
)
@click.option(
    "--split",
    metavar="NAME",
    default="test",
    show_default=True,
    help="The one split that all rows go to.",
)
@click.option(
    "--grow",
    is_flag=True,
    help="Split as the dataset's recipe does, and measure drift from the dataset.",
)
@shared_options.set_option
@shared_options.input_options
@shared_options.run_options
@shared_options.policy_options
@output_options
@click.pass_context
def transform(
    context: click.Context,
    dataset: str,
    new_data: tuple[str, ...],
    output: str,
    sources: tuple[str, ...],
    split: str,
    grow: bool,
    form: str,
) -> None:
    """Convert new data by the fitted encodings of a DATASET.

    With --date, NEW_DATA may be left out: the files of that day are read from where the dataset's
    recipe has them.
    """
    for source in sources:
        if "=" not in source:
            raise click.UsageError(
                f"found --source {source}, expected NAME=PATH, for example planes=new/planes.csv."
            )
    if grow and context.get_parameter_source("split") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "found --grow with --split, expected one of them: a dataset that grows has the splits "
            "of its recipe."
        )
    from beam_pipelines.cli import summary
    from beam_pipelines.dataset.manifest import read_manifest
    from beam_pipelines.pipeline import api

    made = api.transform(
        dataset,
        new_data,
        output,
        sources=dict(source.split("=", 1) for source in sources),
        split=None if grow else split,
        **shared_options.planning(context),
        **shared_options.running(context),
    )
    summary.print_summary(read_manifest(made.folder), made.folder, form=form)


cli.add_command(datasets.feed)
cli.add_command(datasets.inspect)
cli.add_command(datasets.verify)
cli.add_command(validate)
cli.add_command(plan)
cli.add_command(preview)
cli.add_command(doctor)
cli.add_command(datasets.graph)


if __name__ == "__main__":
    main()
