"""The command ``preview``: the first rows, raw and encoded."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from beam_pipelines.cli.options import (
    StorageCommand,
    date_option,
    input_root_option,
)
from beam_pipelines.cli.output import answer, output_options
from beam_pipelines.cli.recipe_options import chosen_settings, encode_option, recipe_options
from beam_pipelines.core.arrow import memory

if TYPE_CHECKING:
    from beam_pipelines.pipeline.previews.first_rows import FirstRows, ShownRow

_WIDTH = 40  # of a value, in characters


@click.command(cls=StorageCommand, epilog="preview recipe.yaml -n 20")
@click.argument("recipe_or_data")
@click.option(
    "-n",
    "number",
    type=click.IntRange(1, 10_000),
    default=5,
    show_default=True,
    help="How many rows to show.",
)
@recipe_options
@encode_option
@date_option
@input_root_option
@output_options
@click.pass_context
def preview(
    context: click.Context,
    recipe_or_data: str,
    number: int,
    form: str,
    encode: bool,
    date: datetime.date | None,
    input_root: tuple[str, ...],
) -> None:
    """Show the first rows before and after their encoding.

    Writes nothing.
    """
    # The imports are most of the time.
    memory.pause_garbage_collection()
    from beam_pipelines.pipeline.planning import plan_recipe
    from beam_pipelines.pipeline.planning.private import values_hidden
    from beam_pipelines.pipeline.previews.first_rows import first_rows

    memory.resume_garbage_collection()
    plan = plan_recipe.plan(
        recipe_or_data,
        settings=chosen_settings(context),
        date=date,
        input_roots=input_root,
        encode=encode,
    )
    with values_hidden(plan.recipe):
        found = first_rows(plan, number)
    if form == "json":
        answer(form, _document(found), ())
        return
    answer(form, None, _lines(found))


def _document(found: FirstRows) -> dict[str, Any]:
    return {
        "rows": [dataclasses.asdict(row) for row in found.rows],
        "inputs": {name: list(columns) for name, columns in found.inputs.items()},
        "rows_read": found.read,
        "notes": list(found.notes),
    }


def _lines(found: FirstRows) -> Iterator[str]:
    for number, row in enumerate(found.rows, 1):
        yield f"row {number}, {row.split}"
        cells = list(_cells(found, row))
        widths = [max((len(cell[index]) for cell in cells), default=0) for index in range(3)]
        for name, raw, feature, value in cells:
            line = f"  {name:<{widths[0]}}  {raw:<{widths[1]}}  {feature:<{widths[2]}}  {value}"
            yield line.rstrip()
        yield ""
    for note in found.notes:
        yield f"note: {note}."


def _cells(found: FirstRows, row: ShownRow) -> Iterator[tuple[str, str, str, str]]:
    """Yields column, raw value, feature and encoded value.

    Columns of several features come once, with the first of them.
    """
    shown: set[str] = set()
    for feature, columns in found.inputs.items():
        first, *others = columns
        value = _with_label(row.encoded.get(feature), found.labels.get(feature, ()))
        for column, name, text in ((first, feature, value), *((other, "", "") for other in others)):
            raw = _shown(row.raw[column]) if column in row.raw else ""
            place = ("", "") if column in shown else (column, raw)
            yield *place, name and f"→ {name}", text
            shown.add(column)
    for column in row.raw:
        if column not in shown:
            yield column, _shown(row.raw[column]), "→ not written", ""


def _with_label(value: Any, labels: tuple[str, ...]) -> str:
    from beam_pipelines.encodings.labels import labels_behind

    return _shown(value) + labels_behind(value if isinstance(value, list) else [value], labels)


def _shown(value: Any) -> str:
    from beam_pipelines.core.formatting import show_cell

    return show_cell(value, _WIDTH, is_quoted=True)
