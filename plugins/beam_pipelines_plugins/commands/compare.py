"""The command ``compare``: what changed between two datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options, table
from beam_pipelines.core.formatting import shorten, visible

if TYPE_CHECKING:
    from beam_pipelines_plugins.comparison import DataComparison
    from beam_pipelines_plugins.comparison.datasets import (
        ComparedColumn,
        SplitComparison,
        TextsOfOneSide,
    )

_COLUMNS = ("feature", "type", "missing", "drift", "p", "new", "vanished")
# Columns that are left out if no feature has an entry.
_OPTIONAL = 5
# Lines of columns that are alike, and characters of a cell.
_ALIKE, _WIDEST = 20, 32


@click.command(
    cls=StorageCommand,
    epilog="compare out/2026-11-20 out/2026-11-21\ncompare old.csv new.csv --format json",
)
@click.argument("base", metavar="BASE")
@click.argument("test", metavar="TEST")
@click.option("--split", metavar="NAME", help="Split of both datasets; default: all splits.")
@click.option(
    "--max_drift",
    type=click.FloatRange(0, 1),
    metavar="BITS",
    help="Largest drift, and change of a share, without a finding; default: 0.1.",
)
@output_options
@click.pass_context
def compare(
    context: click.Context,
    base: str,
    test: str,
    split: str | None,
    max_drift: float | None,
    form: str,
) -> None:
    """Compare two datasets, days or files; exit 1 if they differ.

    Their statistics are compared.
    """
    from beam_pipelines.analysis.drift import LARGE_DRIFT
    from beam_pipelines_plugins.comparison import compare_data

    limit = LARGE_DRIFT if max_drift is None else max_drift
    found = compare_data(base, test, split=split, max_drift=limit)
    answer(form, found.to_json(), map(visible, _lines(found)))
    if found.findings:
        context.exit(1)


def _lines(found: DataComparison) -> Iterator[str]:
    for name, split in found.splits.items():
        yield f"{name}: {_change(split.rows)} rows"
        yield from _column_lines(split)
        yield ""
    for finding in found.findings:
        yield f"differs: {finding}"
    if not found.findings:
        yield f"{found.test} is like {found.base}."
    yield from _not_judged(found)
    if found.has_encodings:
        yield (
            "not compared: features that encodings made, but the columns before them. "
            "'DATASET/examples/Split-train/*', in quotes, is all shards as one file"
        )


def _not_judged(found: DataComparison) -> Iterator[str]:
    notes = [
        f"{name}, {note}" if len(found.splits) > 1 else note
        for name, split in found.splits.items()
        for note in split.not_judged
    ]
    yield from (f"not judged: {note}" for note in notes[:_ALIKE])
    if len(notes) > _ALIKE:
        yield f"… and {len(notes) - _ALIKE:,} more that are not judged"


def _change(numbers: tuple[int, int]) -> str:
    from beam_pipelines_plugins.comparison.datasets import show_change

    base, test = numbers
    change = f" ({show_change(base, test)})" if base and base != test else ""
    return f"{base:,} → {test:,}{change}"


def _column_lines(split: SplitComparison) -> Iterator[str]:
    """Yields the table of columns: those with findings, then by drift."""
    different = sum(bool(column.findings) for column in split.columns)
    shown = split.ordered[: different + _ALIKE]
    if not shown:
        return
    rows = [[shorten(visible(cell, keep=""), _WIDEST) for cell in _cells(one)] for one in shown]
    kept = [n for n in range(len(_COLUMNS)) if n < _OPTIONAL or any(row[n] for row in rows)]
    yield from table([_COLUMNS[n] for n in kept], [[row[n] for n in kept] for row in rows])
    if len(shown) < len(split.columns):
        yield f"… and {len(split.columns) - len(shown):,} more that are alike"


def _cells(column: ComparedColumn) -> Iterator[str]:
    base, test = column.types
    yield ("! " if column.findings else "") + column.name
    yield str(base or test) if base == test else f"{base or 'none'} → {test or 'none'}"
    yield column.shown_missing
    yield column.note if column.drift is None else f"{column.drift:.3f}"
    p_value = column.p_value
    yield "" if p_value is None else "<0.001" if p_value < 0.001 else f"{p_value:.3f}"
    yield _shown(column.new)
    yield _shown(column.vanished)


def _shown(values: TextsOfOneSide | None) -> str:
    if values is None or not values.number:
        return ""
    named = ", ".join(f"{text} ({count:,})" for text, count in values.most)
    return f"{values.number:,}: {named}"
