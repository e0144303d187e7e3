"""The commands about schemas: ``schema infer | update | diff`` and ``validate``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from beam_pipelines.cli import options
from beam_pipelines.cli.output import answer, is_quiet, output_options, say
from beam_pipelines.cli.recipe_options import (
    chosen,
    chosen_settings,
    input_options,
    output_of_day,
    planning,
    policy_options,
    recipe_options,
)
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import anomalies_pb2

# The first line of a recipe, which names the schema in its folder.
MODELINE = f"# yaml-language-server: $schema={RECIPE_SCHEMA}"


@click.group()
def schema() -> None:
    """Infer, widen and compare schemas; write that of recipes."""


@schema.command(cls=options.StorageCommand, epilog="schema infer out/flights -o flights.pbtxt")
@click.argument("statistics", metavar="DATASET")
@click.option("-o", "--output", metavar="FILE", required=True, help="The schema to write (.pbtxt).")
@click.option("--overwrite", is_flag=True, help="Replace the file that is there.")
@output_options
def infer(statistics: str, output: str, overwrite: bool, form: str) -> None:
    """Write the schema of a dataset, description or statistics."""
    from beam_pipelines.analysis.schema import infer_schema, read_schema, write_schema
    from beam_pipelines.analysis.schema.sparse import add_sparse_features, sparse_columns
    from beam_pipelines.analysis.statistics.datasets import read_statistics
    from beam_pipelines.core.layout.schema_features import features_by_path
    from beam_pipelines.core.layout.tensor_representations import add_representations
    from beam_pipelines.pipeline.validate import has_schema, schema_of
    from beam_pipelines.storage import files

    known = read_statistics(statistics)
    found = infer_schema(known)
    # Statistics do not say which columns are one sparse tensor; a dataset's own schema does.
    sparse = sparse_columns(read_schema(schema_of(statistics))) if has_schema(statistics) else ()
    add_sparse_features(found, sparse, known)
    add_representations(found)
    if files.exists(output) and not overwrite:
        raise RecipeError(
            f"{output}: there is a file already. Add --overwrite to replace it, or choose another "
            "--output."
        )
    write_schema(output, found)
    domains = len(found.string_domain)
    tensors = (
        f" {len(sparse)} sparse, of the columns that the dataset's own schema names."
        if sparse
        else ""
    )
    features = len(features_by_path(found))
    answer(
        form,
        {"path": output, "features": features, "domains": domains, "sparse": len(sparse)},
        [f"{output}: {features} features, {domains} of them with a domain of texts.{tensors}"],
    )


@schema.command(cls=options.StorageCommand, epilog="schema update flights.pbtxt out/2026-11-21")
@click.argument("path", metavar="SCHEMA")
@click.argument("statistics", metavar="DATASET...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Where to write it; default: SCHEMA itself.")
@output_options
def update(path: str, statistics: tuple[str, ...], output: str | None, form: str) -> None:
    """Widen a schema until datasets pass.

    What they do not contradict stays, but for comments.
    """
    from beam_pipelines.analysis.schema import read_schema, schema_to_text
    from beam_pipelines.analysis.schema.text import has_comments
    from beam_pipelines.analysis.schema.update import diff_schemas, render_diff, update_schema
    from beam_pipelines.analysis.statistics.datasets import read_statistics
    from beam_pipelines.storage import files

    before = read_schema(path)
    after = update_schema(
        before, [split for dataset in statistics for split in read_statistics(dataset).values()]
    )
    if after != before and output is None and has_comments(files.read_bytes(path).decode()):
        raise RecipeError(
            f"{path}: found comments, which an update does not keep. Write the schema anew without "
            f"them with '--output {path}', or write another file."
        )
    if after != before or output is not None:
        with files.replace(output or path) as file:
            file.write(schema_to_text(after))
    found = diff_schemas(before, after)
    answer(form, [change._asdict() for change in found], [render_diff(found)])


def schema_text() -> str:
    """Returns the JSON Schema of recipes as text."""
    from beam_pipelines.pipeline.planning.recipes import recipe_schema

    return json.dumps(recipe_schema(), indent=1) + "\n"


@schema.command(cls=options.StorageCommand, epilog="schema recipe -o recipe.schema.json")
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


@schema.command(cls=options.StorageCommand, epilog="schema diff old.pbtxt new.pbtxt")
@click.argument("before")
@click.argument("after")
@output_options
def diff(before: str, after: str, form: str) -> None:
    """Show what changed between two schemas."""
    from beam_pipelines.analysis.schema import read_schema
    from beam_pipelines.analysis.schema.update import diff_schemas, render_diff

    found = diff_schemas(read_schema(before), read_schema(after))
    answer(form, [change._asdict() for change in found], [render_diff(found)])


@click.command(cls=options.BeamCommand, epilog="validate out/flights --schema flights.pbtxt")
@click.argument("data", metavar="DATASET_OR_RECIPE")
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    help="What to expect; default: the dataset's or recipe's own.",
)
@policy_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Of a recipe: folder for what 'describe' writes, and the rows to blame.",
)
@recipe_options
@input_options
@output_options
@click.pass_context
def validate(
    context: click.Context,
    data: str,
    schema_path: str | None,
    output: str | None,
    form: str,
) -> None:
    """Check a dataset or a recipe's data against a schema.

    Exit 1 if they do not pass.
    """
    from beam_pipelines.analysis.statistics.datasets import is_stored
    from beam_pipelines.pipeline import api

    if chosen(context, "date") is not None and is_stored(data):
        raise click.UsageError(f"found --date with {data}, which is a dataset of some day already.")
    settings = chosen_settings(context)
    if settings and is_stored(data):
        raise click.UsageError(
            f"found --set, --label or --split with {data}, which is a dataset, expected a recipe."
        )
    found = api.validate(
        data,
        schema=schema_path,
        output=output_of_day(context, output),
        beam_options=context.meta[options.BEAM_OPTIONS],
        quiet=is_quiet(),
        **planning(context),
    )
    findings = list(_findings(found))
    if not is_stored(data):
        from beam_pipelines.pipeline.planning import recipes
        from beam_pipelines.recipe.unions import unused_lines, unused_sources

        unused = unused_lines(unused_sources(recipes.load(data, settings)))
        findings += [
            {"kind": "warning", "split": "all", "place": "", "text": one} for one in unused
        ]
    document = {"data": data, "splits": list(found), "findings": findings}
    answer(form, document, _passed(data, found, findings))


def _findings(
    anomalies: Mapping[str, anomalies_pb2.Anomalies],
) -> Iterator[dict[str, Any]]:
    """Yields warnings, measured distances and skipped checks of data that passed."""
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    from beam_pipelines.analysis.anomalies.table import recorded_anomalies

    kinds = anomalies_pb2.DriftSkewInfo.Measurement.Type
    for split, found in anomalies.items():
        for severity, where, what in recorded_anomalies(found):
            yield {"kind": severity, "split": split, "place": where, "text": what}
        for drift in found.drift_skew_info:
            for word, measurements in (
                ("drift", drift.drift_measurements),
                ("skew", drift.skew_measurements),
            ):
                for measured in measurements:
                    yield {
                        "kind": word,
                        "split": split,
                        "place": f"feature '{'.'.join(drift.path.step)}'",
                        "text": f"{kinds.Name(measured.type)} {measured.value:.6g}, at most "
                        f"{measured.threshold:.6g}",
                        "value": measured.value,
                        "threshold": measured.threshold,
                    }
        if found.data_missing:
            yield {"kind": "not checked", "split": split, "place": "", "text": "it has no rows."}


def _passed(
    name: str,
    anomalies: Mapping[str, anomalies_pb2.Anomalies],
    findings: Iterable[Mapping[str, Any]],
) -> Iterator[str]:
    """Yields the findings as lines, and that the data passed."""
    from beam_pipelines.core.layout.schema_features import features_by_path

    for found in findings:
        place = f"{found['split']}, {found['place']}" if found["place"] else found["split"]
        yield f"{found['kind']:<8}  {place}: {found['text']}"
    numbers = (len(features_by_path(found.baseline)) for found in anomalies.values())
    features = max(numbers, default=0)
    splits = f"{len(anomalies)} split{'s' * (len(anomalies) != 1)}"
    yield f"{name} passes: {features} features in {splits}, no anomaly that stops a run."
