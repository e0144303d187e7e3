"""Commands for stored statistics: ``beam-pipelines statistics merge``."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand, verbose
from beam_pipelines.cli.output import say


@click.group()
def statistics() -> None:
    """Statistics of datasets."""


@statistics.command(cls=StorageCommand)
@click.argument("datasets", metavar="DIR DIR…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    help="Folder for the statistics of all of them together.",
)
@verbose
def merge(datasets: tuple[str, ...], output: str) -> None:
    """Merge the statistics of datasets, split by split, without reading their examples."""
    if len(datasets) < 2:
        raise click.UsageError(f"found one dataset, {datasets[0]}, expected at least two.")
    from beam_pipelines.analysis.statistics.datasets import merge_datasets

    merged = merge_datasets(datasets, output)
    for split, table in merged.items():
        say(f"{split}: {table.rows:,} rows, {len(table.columns):,} columns")
    say(f"{output}: statistics of {len(datasets)} datasets written.")
