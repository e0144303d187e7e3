"""The command ``beam-pipelines compare``: the differences of two datasets by a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from beam_pipelines.cli.options import StorageCommand, verbose
from beam_pipelines.cli.output import say

if TYPE_CHECKING:
    from beam_pipelines.dataset.compare import Comparison

_HEADS = ("feature", "in base", "in test", "same", "different", "base only", "test only")


@click.command(cls=StorageCommand)
@click.argument("base", metavar="BASE")
@click.argument("test", metavar="TEST")
@click.option(
    "--by",
    metavar="FEATURES",
    required=True,
    help="Features that identify an example, separated by commas.",
)
@click.option("--split", metavar="NAME", help="Split of both datasets; default: all splits.")
@click.option(
    "-n", "number", type=click.IntRange(0), default=5, show_default=True, help="Pairs to show."
)
@click.option("-o", "--output", metavar="FILE", help="Write the counts and pairs as JSON.")
@verbose
def compare(
    base: str, test: str, by: str, split: str | None, number: int, output: str | None
) -> None:
    """Compare two datasets example by example, joined by a key."""
    from beam_pipelines.dataset import compare as comparing
    from beam_pipelines.storage import files

    names = [name for name in by.split(",") if name]
    if not names:
        raise click.UsageError("found --by without a feature, expected the name of one.")
    found = comparing.compare(base, test, names, split=split, examples=number)
    if output is not None:
        files.write_bytes(output, (json.dumps(found.to_json(), indent=2) + "\n").encode())
    for line in _lines(found):
        say(line)


def _lines(found: Comparison) -> Iterator[str]:
    stats, key = found.match_stats, ", ".join(found.by)
    both = (
        stats.identifiers_count - stats.ids_missing_in_base_count - stats.ids_missing_in_test_count
    )
    yield (
        f"{key}: {both:,} in both, {stats.ids_missing_in_test_count:,} in {found.base} only, "
        f"{stats.ids_missing_in_base_count:,} in {found.test} only"
    )
    if stats.duplicate_id_count:
        yield f"{stats.duplicate_id_count:,} occur several times in a dataset: not compared"
    missing = stats.base_missing_id_count + stats.test_missing_id_count
    if missing:
        yield f"{missing:,} examples without {key}: not compared"
    lines = [
        _HEADS,
        *(
            (
                name,
                *(
                    f"{count:,}"
                    for count in (
                        skew.base_count,
                        skew.test_count,
                        skew.match_count,
                        skew.mismatch_count,
                        skew.base_only,
                        skew.test_only,
                    )
                ),
            )
            for name, skew in found.features.items()
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
    for row in found.examples:
        yield ", ".join(f"{name} {value}" for name, value in row.key.items())
        for name, (base, test) in row.features.items():
            yield f"  {name}: {base} → {test}"
