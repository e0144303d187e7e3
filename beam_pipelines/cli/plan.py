"""``beam-pipelines plan``: estimates a conversion and its limits.

The conversion has its real size or another.
"""

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
from beam_pipelines.cli.recipe_options import chosen_settings, recipe_options
from beam_pipelines.recipe.unions import unused_sources
from beam_pipelines.recipe.values import parse_bytes

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.plan import Plan
    from beam_pipelines.pipeline.previews.estimate import Preview, Scale


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
@recipe_options
@date_option
@input_root_option
@output_options
@click.pass_context
def plan(
    context: click.Context,
    recipe_or_data: str,
    assume_bytes: int | None,
    date: datetime.date | None,
    input_root: tuple[str, ...],
    form: str,
) -> None:
    """Estimate a conversion: shards, memory, CPU hours, limits."""
    from beam_pipelines.pipeline.planning.plan_recipe import plan as make_plan
    from beam_pipelines.pipeline.planning.private import values_hidden
    from beam_pipelines.pipeline.previews.estimate import make_preview, make_scale

    planned = make_plan(
        recipe_or_data, settings=chosen_settings(context), date=date, input_roots=input_root
    )
    with values_hidden(planned.recipe):
        preview = make_preview(planned)
    scale = make_scale(planned, preview, assume_bytes)
    document = {
        "plan": plan_document(planned),
        "preview": dataclasses.asdict(preview),
        "scale": dataclasses.asdict(scale),
    }
    lines = _lines(planned, preview, scale, assume_bytes)
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


def _lines(plan: Plan, preview: Preview, scale: Scale, assumed: int | None) -> Iterator[str]:
    """Yields the figures: at most nine lines, more with an assumed size."""
    from beam_pipelines.core.formatting import show_bytes, show_count

    there = (
        f" (assumed; {show_bytes(plan.base.size_bytes)} are there)" if assumed is not None else ""
    )
    yield f"with {show_bytes(scale.size_bytes)} of {plan.recipe.base}{there}"
    yield _line("rows", f"about {_count(scale.rows)} of {show_bytes(preview.row_bytes)}")
    largest = show_bytes(scale.largest_range_bytes)
    yield _line(
        "read", f"{show_count(scale.ranges, 'range')} of {largest} at most; {_why_first(plan)}"
    )
    splits = ", ".join(
        f"{name} {_count(split.rows)} in {split.shards:,}" for name, split in scale.splits.items()
    )
    yield _line("shards", f"{show_bytes(scale.shard_bytes)}; rows and files of splits: {splits}")
    yield _line("temporary", f"{show_bytes(scale.kept_bytes)} between reading and writing")
    yield _line(
        "memory",
        f"about {show_bytes(scale.worker_bytes)} a worker process, with "
        f"{show_bytes(scale.broadcast_bytes)} of joined tables",
    )
    steps = ", ".join(f"{name} {show_hours(secs)}" for name, secs in scale.cpu_secs.items())
    yield _line("CPU", f"about {show_hours(sum(scale.cpu_secs.values()))}: {steps}")
    if preview.omissions:
        yield _line("guessed", "; ".join(preview.omissions))
    if assumed is None:
        return
    yield f"limits, by the size of {plan.recipe.base} at which they are met; the first three"
    for limit in scale.limits[:3]:
        met = "  met: " if limit.value > limit.most else "       "
        yield f"{met}{show_bytes(limit.size_bytes):>10}  {limit.name}: {limit.remedy}"


def _line(name: str, text: str) -> str:
    return f"  {name:<10} {text}"


def _why_first(plan: Plan) -> str:
    """Returns why rows are read before one is written."""
    learned = "statistics, schema and shard sizes come first"
    if plan.encode.reads > 1:
        return f"{learned}, and {plan.encode.reads} reads fit the encodings"
    return learned


def _count(number: float) -> str:
    """Returns a number as text, with commas or with a word.

    A word follows three digits, as in ``1.25 billion``.
    """
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million")):
        if number >= size:
            return f"{number / size:,.3g}{word}"
    return f"{number:,.0f}"


def show_hours(secs: float) -> str:
    """Returns a duration in hours, minutes or seconds of one core."""
    if secs >= 3600:
        return f"{secs / 3600:,.0f} h" if secs >= 36_000 else f"{secs / 3600:.1f} h"
    return f"{secs / 60:.0f} min" if secs >= 60 else f"{secs:.1f} s"
