"""Finds columns with personal data, and stops runs on them."""

from __future__ import annotations

from collections.abc import Sequence

from beam_pipelines.analysis.personal.findings import Personal, find_personal, show_personal
from beam_pipelines.core.chunks import ChunkCounts
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.offending_rows import RangeReader
from beam_pipelines.pipeline.plan import Plan


def locate_personal(
    plan: Plan, chunk_counts: Sequence[ChunkCounts], rows: int
) -> tuple[Personal, ...] | None:
    """Returns the personal data of a run, located in files.

    Args:
      plan: of the run.
      chunk_counts: of the base source's chunks, in any order.
      rows: number of selected rows.

    Returns:
      The findings; ``None`` if the recipe does not ask for them.
    """
    rule = plan.recipe.pii
    if rule is None:
        return None
    chunks = (((counted.range_number, counted.part), counted.personal) for counted in chunk_counts)
    found = find_personal(chunks, rows, rule.action)
    located = RangeReader(plan).rows_of([each.place for each in found], ())
    return tuple(each._replace(first=row.where) for each, row in zip(found, located, strict=True))


def check_personal(found: Sequence[Personal] | None, outcome: str) -> None:
    """Raises ``DataError`` if columns have personal data, and the action is ``error``.

    The message has no value of them.
    """
    stopping = [each for each in found or () if each.stops]
    if stopping:
        lines = "".join(f"\n  {show_personal(each.to_json())}" for each in stopping)
        names = ", ".join(dict.fromkeys(each.column for each in stopping))
        raise DataError(
            f"personal data; {outcome}:{lines}\n"
            f"Leave the columns out ('drop: [{names}]'), or allow them "
            f"('pii: {{action: error, allow: [{names}]}}'), or take 'pii: warn'."
        )
