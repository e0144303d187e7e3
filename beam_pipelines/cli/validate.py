"""The command ``validate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from beam_pipelines.cli import options
from beam_pipelines.cli import recipe_options as shared_options
from beam_pipelines.cli.output import answer, is_quiet, output_options

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import anomalies_pb2


@click.command(cls=options.BeamCommand, epilog="validate out/flights --schema flights.pbtxt")
@click.argument("data", metavar="DATASET_OR_RECIPE")
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    help="What to expect; default: the dataset's or recipe's own.",
)
@shared_options.policy_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Of a recipe: folder for what 'describe' writes, and the rows to blame.",
)
@shared_options.recipe_options
@shared_options.input_options
@output_options
@click.pass_context
def validate(
    context: click.Context, data: str, schema_path: str | None, output: str | None, form: str
) -> None:
    """Check a dataset or a recipe's data against a schema.

    Exit 1 if they do not pass.
    """
    from beam_pipelines.analysis.statistics.datasets import is_stored
    from beam_pipelines.pipeline import api

    if shared_options.chosen(context, "date") is not None and is_stored(data):
        raise click.UsageError(f"found --date with {data}, which is a dataset of some day already.")
    settings = shared_options.chosen_settings(context)
    if settings and is_stored(data):
        raise click.UsageError(
            f"found --set, --label or --split with {data}, which is a dataset, expected a recipe."
        )
    found = api.validate(
        data,
        schema=schema_path,
        output=shared_options.output_of_day(context, output),
        beam_options=context.meta[options.BEAM_OPTIONS],
        quiet=is_quiet(),
        **shared_options.planning(context),
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


def _findings(anomalies: Mapping[str, anomalies_pb2.Anomalies]) -> Iterator[dict[str, Any]]:
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
