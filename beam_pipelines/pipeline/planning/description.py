"""Describes the plan of a conversion in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from beam_pipelines.core.columns import type_name
from beam_pipelines.core.formatting import show_bytes, show_count
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.unions import unused_lines, unused_sources

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.plan import Plan


def describe_plan(plan: Plan) -> list[str]:
    """Returns lines for the user: sources, joins, features, splits, shards."""
    recipe, output = plan.recipe, plan.recipe.output
    of_day = f" of {recipe.date}, span {path_dates.span_of(recipe.date)}" if recipe.date else ""
    added = f", generation {plan.generation}: new files only" if plan.append else ""
    lines = [f"plan of '{recipe.name}'{of_day}{added}", "sources"]
    for name, source in plan.sources.items():
        number = "about" if source.source.url else f"{show_count(len(source.files), 'file')},"
        lines.append(
            f"  {name}: {source.format}, {number} {show_bytes(source.size_bytes)}, "
            f"{show_count(len(source.ranges), 'range')}, "
            f"{show_count(len(source.read_schema), 'column')}"
        )
        lines += [f"    {file.path} ({show_bytes(file.size_bytes)})" for file in source.files[:5]]
        if len(source.files) > 5:
            lines.append(f"    … and {len(source.files) - 5} more")
        lines += [f"    found {decision}" for decision in source.decisions]
    lines += [f"warning  {line}" for line in unused_lines(unused_sources(recipe))]
    if plan.base_filter is not None and plan.base_filter.filter is not None:
        lines.append(f"filter before the joins\n  {plan.base_filter.filter.sql}")
    if recipe.join:
        lines.append("joins")
    for step in plan.joins.steps:
        join = step.join
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in join.on)
        lines.append(f"  {join.how} join with {join.source} on {on}: {step.strategy}")
    if plan.select.filter is not None:
        after = " after the joins" if recipe.join else ""
        lines.append(f"filter{after}\n  {plan.select.filter.sql}")
    lines += _describe_records(plan)
    if plan.encode.reads > 1:
        lines.append(
            f"  fitted in {plan.encode.reads} reads: some encodings are fitted on what others have "
            "fitted"
        )
    classes = ", ".join(recipe.split.stratify)
    rows = f"each class of {classes}" if classes else "the rows"
    shares = recipe.split.shares
    names = (
        f"{name} {shares[name]:.4g}" if name in shares else name for name in recipe.split.names
    )
    lines.append(f"splits\n  {', '.join(names)}" + (f" of {rows}" if shares else ""))
    lines.append("shards")
    count = (
        f"{output.num_shards} a split"
        if output.num_shards
        else f"of about {show_bytes(output.shard_size)}"
    )
    multiple = (
        f", a multiple of {output.shards_multiple_of}" if output.shards_multiple_of > 1 else ""
    )
    order = f"shuffled with seed {output.shuffle_seed}" if output.shuffle else "in source order"
    lines.append(f"  {count}{multiple}, {output.compression}, {order}")
    return lines


def _describe_records(plan: Plan) -> Iterator[str]:
    if plan.recipe.output.record is not None:
        yield f"raw records\n  the values of {plan.recipe.output.record}"
        return
    if plan.groups:
        ordered = f", ordered by {', '.join(plan.groups.order_by)}" if plan.groups.order_by else ""
        yield f"sequences\n  of the rows with the same {', '.join(plan.groups.by)}{ordered}"
    made = {chain.name: chain for chain in plan.encode.chains}
    yield "features written"
    for name, feature in plan.encode.features().items():
        chain = made.get(name)
        steps = (
            f" = {' > '.join([', '.join(chain.inputs), *(step.kind for step in chain.steps)])}"
            if chain
            else ""
        )
        kind = (
            f"feature list of {type_name(feature.value_type)}"
            if name in plan.encode.lists
            else type_name(feature.type)
        )
        yield f"  {name}: {kind}{steps}"
    for sparse in plan.sparse:
        if set(sparse.columns) <= set(plan.encode.written) - set(made):
            sizes = " × ".join(
                "learned from the data" if size is None else f"{size:,}" for size in sparse.sizes
            )
            yield f"  {sparse.name}: sparse, of {', '.join(sparse.columns)}; size {sizes}"
