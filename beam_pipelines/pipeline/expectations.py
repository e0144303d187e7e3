"""Stops runs on failed expectations, and finds the rows that fail."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from beam_pipelines.analysis.expectations import Judged, Repeats, found_of, judge, show_condition
from beam_pipelines.core.chunks import ChunkCounts
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.private import HIDDEN
from beam_pipelines.pipeline.offending_rows import FoundRow, RangeReader, show_found, write_rows
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN

# Under rejected/ of a description. No source is called so.
FAILING = "_expectations.jsonl"


def judge_rows(
    plan: Plan, chunk_counts: Sequence[ChunkCounts], rows: int, repeats: Sequence[Repeats]
) -> tuple[Judged, ...]:
    """Judges the expectations of a recipe, and finds where rows fail.

    Args:
      plan: of the run.
      chunk_counts: of the base source's chunks, in any order.
      rows: number of rows that were checked.
      repeats: of the values that have to be unique.

    Raises:
      DataError: a condition has no value.
    """
    expected = plan.select.expected
    if not expected:
        return ()
    chunks = sorted(
        ((counted.range_number, counted.part), counted.pieces)
        for counted in chunk_counts
        if counted.pieces
    )
    judged = judge(expected, chunks, rows, repeats)
    reader = RangeReader(plan)
    return tuple(
        each
        if each.holds
        else each._replace(first=tuple(row.where for row in reader.rows_of(each.places, ())))
        for each in judged
    )


def stop_on_expectations(plan: Plan, judged: Sequence[Judged], folder: str) -> None:
    """Stops a run if an expectation fails; lists its rows in ``folder/rejected/``.

    Raises:
      DataError: one of severity ``error`` is not met.
    """
    if any(map(_stops, judged)):
        path = write_failing(plan, judged, folder, OFFENDERS_OF_STOPPED_RUN)
        check_expectations(judged, "nothing was written", path)


def _stops(judged: Judged) -> bool:
    return not judged.holds and judged.rule.severity == "error"


def check_expectations(judged: Sequence[Judged], outcome: str, path: str) -> None:
    """Raises ``DataError`` if an expectation of severity ``error`` is not met.

    Args:
      judged: all expectations.
      outcome: outcome of the run.
      path: file of the failing rows; empty if there is none.
    """
    failed = [each for each in judged if _stops(each)]
    if not failed:
        return
    count = f"{len(failed)} expectation{'' if len(failed) == 1 else 's'}"
    note = f"\nThe first rows that fail are in {path}." if path else ""
    lines = "".join(f"\n  {_line(each)}" for each in failed)
    raise DataError(
        f"{count} of {len(judged)} failed; {outcome}:{lines}{note}\n"
        "Mend the data or the recipe; or give an expectation a 'budget' or 'severity: warn'."
    )


def _line(judged: Judged) -> str:
    entry, more = judged.to_json(), len(judged.first) - 1
    where = f"; {judged.first[0]}{f' and {more} more' if more > 0 else ''}" if judged.first else ""
    return f"{judged.rule.name}, {show_condition(entry)}: {found_of(entry)}{where}"


def write_failing(plan: Plan, judged: Sequence[Judged], folder: str, name: str) -> str:
    """Writes the first rows that fail to ``folder/rejected/``.

    They are one JSON object a line. Without such rows, no file is left.

    Returns:
      The file's path; empty if there is none.
    """
    if not judged:
        return ""
    return write_rows(_failing_rows(plan, judged), folder, name)


def _failing_rows(plan: Plan, judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    reader = RangeReader(plan)
    for each, expected in zip(judged, plan.select.expected, strict=True):
        if each.holds:
            continue
        for row in reader.rows_of(each.places, expected.condition.columns):
            yield {
                "expectation": each.rule.name,
                "source": plan.recipe.base,
                "file": mask(row.position.file),
                "position": row.position.place,
                "reason": f"found {_values(row, plan.recipe.private)}, expected {each.rule.sql}",
                "text": row.position.text,
            }


def _values(row: FoundRow, private: Collection[str]) -> str:
    return ", ".join(
        f"{name}: {HIDDEN if name in private else show_found(value)}"
        for name, value in row.values.items()
    )
