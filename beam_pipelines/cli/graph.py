"""The command ``graph``: builds a dataset's serving graph."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options


@click.command(cls=StorageCommand, epilog="graph out/flights")
@click.argument("dataset")
@output_options
def graph(dataset: str, form: str) -> None:
    """Build the serving graph of a DATASET, unless it is there.

    It is a SavedModel.
    """
    from beam_pipelines.pipeline.serving_graph import make_graph

    path = make_graph(dataset)
    answer(form, {"graph": path}, [path])
