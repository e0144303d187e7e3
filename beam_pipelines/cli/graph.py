"""The command ``graph``: builds a dataset's serving graph."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand, verbose
from beam_pipelines.cli.output import say


@click.command(cls=StorageCommand)
@click.argument("dataset")
@verbose
def graph(dataset: str) -> None:
    """Build the serving graph of a DATASET, a SavedModel, unless it is there."""
    from beam_pipelines.pipeline.make_graph import make_graph

    say(make_graph(dataset))
