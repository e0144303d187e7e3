"""The command ``graph``: builds a dataset's serving graph."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand, format_option, verbose
from beam_pipelines.cli.output import answer


@click.command(cls=StorageCommand)
@click.argument("dataset")
@format_option
@verbose
def graph(dataset: str, form: str) -> None:
    """Build the serving graph of a DATASET, a SavedModel, unless it is there."""
    from beam_pipelines.pipeline.make_graph import make_graph

    path = make_graph(dataset)
    answer(form, {"graph": path}, [path])
