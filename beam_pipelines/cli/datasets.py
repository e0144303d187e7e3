"""Commands on datasets: ``feed``, ``graph``, ``inspect``, ``verify``."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options

if TYPE_CHECKING:
    from beam_pipelines.dataset.feed import Feed

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


_Picture = tuple[str, tuple[int, int], str | None]


def _seconds_of(_context: click.Context, _parameter: click.Parameter, text: str) -> float | None:
    """Returns the seconds of a time such as 12ms."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|ms|us|µs)", text or "")
    if text is None:
        return None
    if found is None or not float(found[1]):
        raise click.BadParameter(f"found {text!r}, expected a time above 0: 12ms, 0.5s or 900us.")
    return float(found[1]) * _UNITS[found[2]]


def _pictures_of(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[_Picture]:
    """Returns features, the sizes of their pictures, and crops."""
    pictures: list[_Picture] = []
    for text in texts:
        found = re.fullmatch(r"(.+)=([1-9]\d*)x([1-9]\d*)(?:,(center|random))?", text)
        if found is None:
            raise click.BadParameter(
                f"found {text!r}, expected NAME=HEIGHTxWIDTH, with ',center' or ',random' for a "
                "crop, such as image/encoded=224x224,random."
            )
        pictures.append((found[1], (int(found[2]), int(found[3])), found[4]))
    return pictures


@click.command(cls=StorageCommand, epilog="inspect out/flights -n 1 --split eval")
@click.argument("path", metavar="DIR_OR_SHARD")
@click.option(
    "-n",
    "number",
    type=click.IntRange(1, sys.maxsize),
    default=5,
    show_default=True,
    help="How many examples to show.",
)
@click.option("--split", metavar="NAME", help="Split to take them from; default: the first.")
@output_options
def inspect(path: str, number: int, split: str | None, form: str) -> None:
    """Print examples of a dataset or a TFRecord file."""
    from beam_pipelines.dataset.inspect import example_values, inspect_examples

    if form == "json":
        answer(form, example_values(path, number, split), ())
        return
    for text in inspect_examples(path, number, split):
        answer(form, None, [text])


@click.command(cls=StorageCommand, epilog="verify out/flights")
@click.argument("path", metavar="DIR")
@output_options
def verify(path: str, form: str) -> None:
    """Read every shard again, and check it by the manifest.

    Checksums, numbers of rows and the schema have to fit.
    """
    from beam_pipelines.core.formatting import show_bytes, show_count
    from beam_pipelines.dataset.verify import verify_dataset

    found = verify_dataset(path)
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
    ]
    answer(form, {"path": path, **dataclasses.asdict(found)}, lines)


@click.command(cls=StorageCommand, epilog="feed out/flights --batch 512 --step 12ms")
@click.argument("path", metavar="DIR")
@click.option("--batch", type=click.IntRange(1), default=512, help="Rows of a step; default: 512.")
@click.option("--step", callback=_seconds_of, metavar="TIME", help="Time of a step, such as 12ms.")
@click.option("--split", metavar="NAME", help="Split to read; default: the first.")
@click.option(
    "--images",
    callback=_pictures_of,
    multiple=True,
    metavar="NAME=HEIGHTxWIDTH[,CROP]",
    help="Decode a feature's pictures, with a center or random crop. Repeatable.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    help="How long to read; default: 10.",
)
@output_options
def feed(
    path: str,
    batch: int,
    step: float | None,
    split: str | None,
    images: list[_Picture],
    seconds: float,
    form: str,
) -> None:
    """Read as a trainer does, and say how fast, and what bounds it."""
    from beam_pipelines.dataset.feed import measure_feed
    from beam_pipelines.reader.dataset import Dataset
    from beam_pipelines.reader.images import Image

    wanted = {name: Image(size, crop) for name, size, crop in images}  # type: ignore[arg-type]
    try:
        found = measure_feed(Dataset(path), split, batch, seconds, wanted, step)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    answer(form, {"path": path, "batch": batch, **found._asdict()}, _feed_lines(found, batch))


def _feed_lines(found: Feed, batch: int) -> Iterator[str]:
    rows, steps = found.rows_per_second, found.steps_per_second
    parts = ", ".join(f"{name} {cost:,.2f}" for name, cost in found.cpu.items())
    yield f"rows          {rows:,.0f}/s, the first batch after {found.first_batch:.2f} s"
    yield f"steps         {steps:,.1f}/s of {batch:,} rows, one in {1e3 / steps:,.2f} ms"
    yield f"cores         {found.cores_busy:.1f} of {found.cores} busy"
    yield f"CPU of a row  {sum(found.cpu.values()):,.2f} µs: {parts}"
    if found.step is not None:
        verdict = f"no, it waits {found.waits:.0%} of its time" if found.waits else "yes"
        yield f"fed           {verdict}: reading takes {1 / steps / found.step:,.2f} times the step"
    yield f"bound by      {found.bound}"
    yield f"to change     {found.advice}"
    if found.others_busy >= 0.5:
        yield f"others        took {found.others_busy:.1f} cores; a quiet machine feeds more"


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
