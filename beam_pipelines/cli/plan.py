"""The commands ``plan`` and ``preview``: what a conversion would do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options
from beam_pipelines.cli.recipe_options import (
    chosen_plan,
    encode_option,
    input_options,
    recipe_options,
)
from beam_pipelines.core import formatting
from beam_pipelines.core.arrow import memory
from beam_pipelines.recipe.unions import unused_sources
from beam_pipelines.recipe.values import parse_bytes

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.plan import Plan
    from beam_pipelines.pipeline.previews import prices as pricing
    from beam_pipelines.pipeline.previews.estimate import Preview, Scale
    from beam_pipelines.pipeline.previews.first_rows import FirstRows, ShownRow

_WIDTH = 40  # of a value, in characters


def _bytes(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Returns the number of bytes in a text such as ``100TB``."""
    size = None if text is None else parse_bytes(text)
    if size is not None and size < 1:
        raise click.BadParameter(
            f"found '{text}', expected a number of bytes, such as 100TB, 1.5TiB or 500GB.",
            context,
            parameter,
        )
    return size


@click.command(cls=StorageCommand, epilog="plan recipe.yaml --assume_bytes 1TB")
@click.argument("recipe_or_data")
@click.option(
    "--assume_bytes",
    callback=_bytes,
    metavar="SIZE",
    help="Plan as if the base source had this size, such as 100TB; other sources keep theirs.",
)
@click.option("--prices", metavar="FILE", help="Prices in YAML, by which the run is estimated.")
@recipe_options
@input_options
@output_options
@click.pass_context
def plan(
    context: click.Context,
    recipe_or_data: str,
    assume_bytes: int | None,
    prices: str | None,
    form: str,
) -> None:
    """Estimate a conversion: shards, memory, time, money, limits."""
    from beam_pipelines.pipeline.planning.private import values_hidden
    from beam_pipelines.pipeline.previews import prices as pricing
    from beam_pipelines.pipeline.previews.estimate import make_preview, make_scale

    priced = None if prices is None else pricing.read_prices(prices)
    planned = chosen_plan(context, recipe_or_data)
    with values_hidden(planned.recipe):
        preview = make_preview(planned)
    scale = make_scale(planned, preview, assume_bytes)
    requests = pricing.count_requests(planned, preview, scale)
    document = {
        "plan": plan_document(planned),
        "preview": dataclasses.asdict(preview),
        "scale": dataclasses.asdict(scale),
        "requests": requests,
    }
    lines = [*_lines(planned, preview, scale, requests, assume_bytes)]
    if priced is not None:
        price = pricing.price_of(scale, requests, priced)
        document["price"] = dataclasses.asdict(price)
        lines += _price_lines(price, priced)
    answer(form, document, [planned.describe(), *lines] if form == "text" else ())


def plan_document(plan: Plan) -> dict[str, Any]:
    """Returns a plan as data for JSON."""
    from beam_pipelines.core.arrow.columns import type_name

    return {
        "name": plan.recipe.name,
        "sources": {
            name: {
                "format": source.format,
                "files": len(source.files),
                "bytes": source.size_bytes,
                "ranges": len(source.ranges),
                "columns": {field.name: type_name(field.type) for field in source.schema},
                "decisions": list(source.decisions),
            }
            for name, source in plan.sources.items()
        },
        "joins": [
            {"source": step.join.source, "how": step.join.how, "strategy": step.strategy}
            for step in plan.joins.steps
        ],
        "unused_sources": list(unused_sources(plan.recipe)),
        "splits": list(plan.recipe.split.names),
        "columns": {field.name: type_name(field.type) for field in plan.encode.columns},
        "features": list(plan.encode.written),
        "text": plan.describe().splitlines(),
    }


def _lines(
    plan: Plan, preview: Preview, scale: Scale, requests: float, assumed: int | None
) -> Iterator[str]:
    """Yields the figures: at most nine lines, more with an assumed size."""
    there = (
        f" (assumed; {formatting.show_bytes(plan.base.size_bytes)} are there)"
        if assumed is not None
        else ""
    )
    yield f"with {formatting.show_bytes(scale.size_bytes)} of {plan.recipe.base}{there}"
    yield _line("rows", f"about {_count(scale.rows)} of {formatting.show_bytes(preview.row_bytes)}")
    largest, reads = formatting.show_bytes(scale.largest_range_bytes), plan.encode.reads
    more = f", and {reads} reads fit the encodings" if reads > 1 else ""
    yield _line(
        "read",
        f"{formatting.show_count(scale.ranges, 'range')} of {largest} at most; statistics, schema "
        f"and shard sizes come first{more}",
    )
    splits = ", ".join(
        f"{name} {_count(split.rows)} in {split.shards:,}" for name, split in scale.splits.items()
    )
    split = max(scale.splits.values(), key=lambda split: split.rows)
    size = scale.shard_bytes * split.rows / sum(each.rows for each in scale.splits.values())
    each = f"of {formatting.show_bytes(size / split.shards)}"
    if split.part_size != plan.recipe.output.part_size:
        each += f" in parts of {formatting.show_bytes(split.part_size)}"
    yield _line(
        "shards",
        f"{formatting.show_bytes(scale.shard_bytes)}, {each}; rows and files of splits: {splits}",
    )
    yield _line(
        "temporary",
        f"{formatting.show_bytes(scale.kept_bytes)} between reading and writing; about "
        f"{_count(requests)} requests, if the output is in an object store",
    )
    yield _line(
        "memory",
        f"about {formatting.show_bytes(scale.worker_bytes)} a worker process, with "
        f"{formatting.show_bytes(scale.broadcast_bytes)} of joined tables",
    )
    steps = ", ".join(
        f"{name} {formatting.show_secs(secs)}" for name, secs in scale.cpu_secs.items()
    )
    yield _line("CPU", f"about {formatting.show_secs(sum(scale.cpu_secs.values()))}: {steps}")
    if preview.omissions:
        yield _line("guessed", "; ".join(preview.omissions))
    if assumed is None:
        return
    yield f"limits, by the size of {plan.recipe.base} at which they are met"
    for name, size in scale.limits.items():
        met = "  met: " if size < scale.size_bytes else "       "
        yield f"{met}{formatting.show_bytes(size):>10}  {name}"


def _price_lines(price: pricing.Price, prices: pricing.Prices) -> Iterator[str]:
    parts = ", ".join(f"{name} {amount:,.4g}" for name, amount in price.parts.items() if amount)
    total = f"{price.currency} {price.low:,.4g} to {price.high:,.4g}"
    yield _line("money", f"{total}: {parts}")
    needed, there = (
        formatting.show_bytes(price.worker_bytes),
        formatting.show_bytes(prices.worker_memory),
    )
    fits = "fits" if price.fits else "too little: take a machine with more memory for each core"
    yield _line("machine", f"{prices.worker_cores} processes take {needed} of {there}: {fits}")


def _line(name: str, text: str) -> str:
    return f"  {name:<10} {text}"


def _count(number: float) -> str:
    """Returns a number as text, with commas or with a word.

    A word follows three digits, as in ``1.25 billion``.
    """
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million")):
        if number >= size:
            return f"{number / size:,.3g}{word}"
    return f"{number:,.0f}"


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
@input_options
@output_options
@click.pass_context
def preview(context: click.Context, recipe_or_data: str, number: int, form: str) -> None:
    """Show the first rows before and after their encoding.

    Writes nothing.
    """
    # The imports are most of the time.
    memory.pause_garbage_collection()
    from beam_pipelines.pipeline.planning import plan_recipe  # noqa: F401 - for chosen_plan
    from beam_pipelines.pipeline.planning.private import values_hidden
    from beam_pipelines.pipeline.previews.first_rows import first_rows

    memory.resume_garbage_collection()
    plan = chosen_plan(context, recipe_or_data)
    with values_hidden(plan.recipe):
        found = first_rows(plan, number)
    if form == "json":
        answer(form, _document(found), ())
        return
    answer(form, None, _row_lines(found))


def _document(found: FirstRows) -> dict[str, Any]:
    return {
        "rows": [dataclasses.asdict(row) for row in found.rows],
        "inputs": {name: list(columns) for name, columns in found.inputs.items()},
        "rows_read": found.read,
        "notes": list(found.notes),
    }


def _row_lines(found: FirstRows) -> Iterator[str]:
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
    return formatting.show_cell(value, _WIDTH, is_quoted=True)
