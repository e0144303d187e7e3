"""Commands that read a dataset: ``inspect`` and ``verify``."""

from __future__ import annotations

import dataclasses
import sys

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options


@click.command(cls=StorageCommand, epilog="inspect out/flights -n 1 --split eval")
@click.argument("path", metavar="DIR_OR_SHARD")
@click.option(
    "-n",
    "number",
    type=click.IntRange(1, sys.maxsize),
    help="How many examples to show; default: 5, with --images 64.",
)
@click.option("--split", metavar="NAME", help="Split to take them from; default: the first.")
@click.option(
    "--images",
    metavar="FILE",
    help="Draw their pictures, with class names, on one sheet: a .png file.",
)
@click.option(
    "--feature", metavar="NAME", help="Feature with the pictures; default: image/encoded."
)
@output_options
def inspect(
    path: str,
    number: int | None,
    split: str | None,
    images: str | None,
    feature: str | None,
    form: str,
) -> None:
    """Print examples of a dataset or a TFRecord file.

    With --images, draw their pictures.
    """
    from beam_pipelines.dataset.inspect import (
        example_values,
        inspect_examples,
        write_contact_sheet,
    )

    if images is not None:
        count = write_contact_sheet(path, images, number or 64, split, feature)
        text = f"{images}: {count:,} picture{'' if count == 1 else 's'} of {path}."
        answer(form, {"path": images, "pictures": count}, [text])
        return
    if feature is not None:
        raise click.UsageError("found --feature without --images FILE, expected both or neither.")
    if form == "json":
        answer(form, example_values(path, number or 5, split), ())
        return
    for text in inspect_examples(path, number or 5, split):
        answer(form, None, [text])


@click.command(cls=StorageCommand, epilog="verify out/flights")
@click.argument("path", metavar="DIR")
@click.option("--images", is_flag=True, help="Also decode images, as TensorFlow would.")
@output_options
def verify(path: str, images: bool, form: str) -> None:
    """Read every shard again, and check it by the manifest.

    Checksums, numbers of rows and the schema have to fit.
    """
    from beam_pipelines.core.formatting import show_bytes, show_count
    from beam_pipelines.dataset.verify import verify_dataset

    found = verify_dataset(path, images)
    lines = [
        f"{path}: {show_count(found.shards, 'shard')} with {show_count(found.rows, 'row')} and "
        f"{show_bytes(found.bytes)}"
        + (f", and {show_count(found.files, 'other file')}," if found.files else "")
        + " are as the manifest says"
        + (
            ", and every record parses by the schema."
            if found.is_parsed
            else "; raw records are not parsed."
        )
        + (" Every image is whole." if images else "")
    ]
    answer(form, {"path": path, **dataclasses.asdict(found)}, lines)
