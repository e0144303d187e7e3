"""The command ``index``: indexes datasets."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options


class _Index(StorageCommand):
    checks_access = False  # it refuses paths that are not local


@click.command(cls=_Index, epilog="index out/flights")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option("--dali", is_flag=True, help="Also write DALI's index of each uncompressed shard.")
@output_options
def index(paths: tuple[str, ...], dali: bool, form: str) -> None:
    """Index the shards of datasets that lack an index."""
    from beam_pipelines_plugins.foreign_index.make_index import make_indexes

    indexes = (made for path in paths for made in make_indexes(path, dali))
    if form == "json":
        answer(form, [made._asdict() for made in indexes], ())
        return
    for made in indexes:
        line = (
            f"{made.path}: {made.parts:,} parts of {made.files:,} file(s) with {made.rows:,} "
            "records."
        )
        answer(form, None, [line])
