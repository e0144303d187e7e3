"""Commands for stored statistics: ``beam-pipelines statistics merge``."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options


@click.group()
def statistics() -> None:
    """Statistics of datasets."""


@statistics.command(
    cls=StorageCommand,
    epilog="statistics merge out/2026-11-20 out/2026-11-21 -o out/two_days",
)
@click.argument("datasets", metavar="DIR DIR…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    help="Folder for the statistics of all of them together.",
)
@output_options
def merge(datasets: tuple[str, ...], output: str, form: str) -> None:
    """Merge the statistics of datasets, split by split.

    Their examples are not read.
    """
    if len(datasets) < 2:
        raise click.UsageError(f"found one dataset, {datasets[0]}, expected at least two.")
    from beam_pipelines.analysis.statistics.datasets import merge_datasets

    merged = merge_datasets(datasets, output)
    splits = {
        split: {"rows": table.rows, "columns": len(table.columns)}
        for split, table in merged.items()
    }
    lines = [
        *(f"{name}: {n['rows']:,} rows, {n['columns']:,} columns" for name, n in splits.items()),
        f"{output}: statistics of {len(datasets)} datasets written.",
    ]
    answer(form, {"path": output, "splits": splits}, lines)
