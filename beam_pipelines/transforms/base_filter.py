"""Filters the rows of the base source before the joins.

The parts of the recipe's filter that use columns of the base source alone are applied there, the
others after the joins. The same rows remain as by the whole filter after the joins, in the same
chunks. But fewer are joined, and the counts of the joins are of rows that fulfil these parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from beam_pipelines.core.chunks import Chunk, add_counts
from beam_pipelines.sql.conjuncts import conjunction, conjuncts_of
from beam_pipelines.sql.expressions import Expression, evaluate, parse_expression
from beam_pipelines.transforms.rename import rename_batch
from beam_pipelines.transforms.select import SelectPlan


def divide_filter(
    select: SelectPlan, base: pa.Schema, joined: pa.Schema
) -> tuple[SelectPlan | None, SelectPlan]:
    """Divides the filter of a selection.

    Args:
      select: of joined rows.
      base: columns of the base source.
      joined: of joined rows, already renamed.

    Returns:
      What is selected before the joins, or ``None``, and after them. The rows of the first one have
      their new names, until ``joinable``.
    """
    if select.filter is None:
        return None, select
    rename = {name: select.rename.get(name, name) for name in base.names}
    own: list[str] = []
    others: list[str] = []
    for sql in conjuncts_of(select.filter.sql):
        part = parse_expression("filter", sql, joined.names)
        is_own = part.columns and set(part.columns) <= set(rename.values())
        (own if is_own else others).append(sql)
    if not own:
        return None, select
    first = SelectPlan(
        _condition(own, joined),
        (),
        pa.schema([field.with_name(rename[field.name]) for field in base]),
        rename={old: new for old, new in rename.items() if old != new},
    )
    rest = _condition(others, joined) if others else None
    return first, dataclasses.replace(select, filter=rest)


def _condition(parts: Sequence[str], schema: pa.Schema) -> Expression:
    """Returns the condition that all parts hold."""
    condition = parse_expression("filter", conjunction(parts), schema.names)
    found = evaluate(pa.RecordBatch.from_pylist([], schema=schema), condition)
    if pa.types.is_boolean(found.type):
        return condition
    # AND makes booleans of other values.
    return condition._replace(sql=f"(\n{condition.sql}\n) AND TRUE")


def joinable(chunk: Chunk, plan: SelectPlan) -> Chunk:
    """Returns a chunk that ``plan`` has selected as the joins expect it.

    Its columns have the names of the base source. Its counts get ``filtered_first``.

    Args:
      chunk: with the count ``filtered``.
      plan: from ``divide_filter``, before the joins.
    """
    counts = add_counts(chunk.counts, {"filtered_first": chunk.counts["filtered"]})
    old_names = {new: old for old, new in plan.rename.items()}
    return chunk._replace(batch=rename_batch(chunk.batch, old_names), counts=counts)
