"""The command ``beam-pipelines compare``: statistics, or examples by a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options
from beam_pipelines.core.formatting import shorten, show_bytes, show_change, show_share
from beam_pipelines.core.visible_text import visible

if TYPE_CHECKING:
    from beam_pipelines.analysis.comparison import ColumnComparison, SplitComparison, Values
    from beam_pipelines.dataset.compare import Comparison
    from beam_pipelines.pipeline.compare_data import DataComparison

_COLUMNS = ("feature", "type", "missing", "drift", "p", "new", "vanished")
# Columns that are left out if no feature has an entry.
_OPTIONAL = 5
# Lines of columns that are alike, and characters of a cell.
_ALIKE, _WIDEST = 20, 32
_HEADS = ("feature", "in base", "in test", "same", "different", "base only", "test only")


@click.command(
    cls=StorageCommand,
    epilog="compare out/2026-11-20 out/2026-11-21\ncompare old.csv new.csv --html differences.html",
)
@click.argument("base", metavar="BASE")
@click.argument("test", metavar="TEST")
@click.option(
    "--by",
    metavar="FEATURES",
    help="Features that identify an example, separated by commas: compares example by example.",
)
@click.option("--split", metavar="NAME", help="Split of both datasets; default: all splits.")
@click.option(
    "--max_drift",
    type=click.FloatRange(0, 1),
    metavar="BITS",
    help="Largest drift, and change of a share, without a finding; default: 0.1.",
)
@click.option(
    "-n", "number", type=click.IntRange(0), help="Pairs to show; default: 5. With --by only."
)
@click.option("-o", "--output", metavar="FILE", help="Write what was found as JSON.")
@click.option("--html", "page", metavar="FILE", help="Write it as a page. Not with --by.")
@output_options
@click.pass_context
def compare(
    context: click.Context,
    base: str,
    test: str,
    by: str | None,
    split: str | None,
    max_drift: float | None,
    number: int | None,
    output: str | None,
    page: str | None,
    form: str,
) -> None:
    """Compare two datasets, days or files; exit 1 if they differ.

    Their statistics are compared. With --by, compare them example by example, joined by a key.
    """
    from beam_pipelines.storage import files

    document: dict[str, Any]
    findings: Sequence[str] = ()
    if by is None:
        if number is not None:
            raise click.UsageError("found -n without --by, expected both or neither.")
        from beam_pipelines.analysis.drift import LARGE_DRIFT
        from beam_pipelines.pipeline import compare_data

        limit = LARGE_DRIFT if max_drift is None else max_drift
        found = compare_data.compare_data(base, test, split=split, max_drift=limit)
        lines, document, findings = _data_lines(found), found.to_json(), found.findings
        if page is not None:
            files.write_bytes(page, found.to_html().encode())
    else:
        if max_drift is not None:
            raise click.UsageError("found --max_drift with --by, expected one of them.")
        if page is not None:
            raise click.UsageError("found --html with --by, expected one of them.")
        from beam_pipelines.dataset import compare as comparing

        names = [name for name in by.split(",") if name]
        if not names:
            raise click.UsageError("found --by without a feature, expected the name of one.")
        examples = 5 if number is None else number
        pairs = comparing.compare(base, test, names, split=split, examples=examples)
        lines, document = _lines(pairs), pairs.to_json()
    if output is not None:
        files.write_bytes(output, (json.dumps(document, indent=2) + "\n").encode())
    answer(form, document, map(visible, lines))
    if findings:
        context.exit(1)


def _data_lines(found: DataComparison) -> Iterator[str]:
    for name, split in found.splits.items():
        yield f"{name}: {_change(split.rows)} rows"
        yield from _table(list(_column_lines(split)))
        yield ""
    for name, (base, test) in found.joins.items():
        shares = " → ".join(show_share(join.matched, join.rows) for join in (base, test))
        yield f"join with {name}: {shares} matched, {base.fanout:.3g} → {test.fanout:.3g} rows each"
    base_size, test_size = found.sizes
    if base_size is not None and test_size is not None:
        sizes = " → ".join(show_bytes(size) for size, _ in (base_size, test_size))
        yield f"shards: {_change((base_size[1], test_size[1]))}, {sizes}"
    for finding in found.findings:
        yield f"differs: {finding}"
    if not found.findings:
        yield f"{found.test} is like {found.base}."
    yield from _not_judged(found)


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
    base, test = numbers
    change = f" ({show_change(base, test)})" if base and base != test else ""
    return f"{base:,} → {test:,}{change}"


def _column_lines(split: SplitComparison) -> Iterator[Sequence[str]]:
    """Yields the heads and the columns: those with findings, then by drift."""
    ordered = sorted(split.columns, key=lambda one: (not one.findings, -(one.drift or 0)))
    different = sum(bool(column.findings) for column in ordered)
    shown = ordered[: different + _ALIKE]
    if shown:
        yield _COLUMNS
    for column in shown:
        yield [shorten(visible(cell, keep=""), _WIDEST) for cell in _cells(column)]
    if len(shown) < len(ordered):
        yield [f"… and {len(ordered) - len(shown):,} more that are alike"]


def _cells(column: ColumnComparison) -> Iterator[str]:
    base, test = column.types
    yield ("! " if column.findings else "") + column.name
    yield str(base or test) if base == test else f"{base or 'none'} → {test or 'none'}"
    yield column.shown_missing
    yield column.note if column.drift is None else f"{column.drift:.3f}"
    p_value = column.p_value
    yield "" if p_value is None else "<0.001" if p_value < 0.001 else f"{p_value:.3f}"
    yield _shown(column.new)
    yield _shown(column.vanished)


def _shown(values: Values | None) -> str:
    if values is None or not values.number:
        return ""
    named = ", ".join(f"{text} ({count:,})" for text, count in values.most)
    return f"{values.number:,}: {named}"


def _table(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    full = [line for line in lines if len(line) > 1]
    columns = list(zip(*full, strict=True))
    shown = [n for n, column in enumerate(columns) if n < _OPTIONAL or any(column[1:])]
    for line in lines:
        if len(line) == 1:
            yield line[0]
            continue
        cells = [line[n].ljust(max(map(len, columns[n]))) for n in shown]
        yield "  ".join(cells).rstrip()


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
