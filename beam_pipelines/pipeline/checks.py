"""Judges checks, stops runs on them, and lists their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_pipelines.checks.check import Facts
from beam_pipelines.checks.finding import Finding
from beam_pipelines.core.chunks import ChunkCounts
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.offending_rows import RangeReader, write_rows
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN
from beam_pipelines.transforms.meet import Met, OfSplits, merge_met

# Check -> what it found.
Findings = Mapping[str, tuple[Finding, ...]]


def judge_checks(
    plan: Plan,
    chunk_counts: Sequence[ChunkCounts],
    found: Iterable[Met | OfSplits],
    facts: Facts,
) -> Findings:
    """Returns what the checks of a plan find.

    Args:
      plan: of the run.
      chunk_counts: of the base source's chunks, in any order.
      found: in all partitions and chunks.
      facts: without what chunks and meets add.

    Raises:
      DataError: a condition has no value.
    """
    found = list(found)
    met = merge_met(each for each in found if isinstance(each, Met))
    counts = sorted(
        (counted for counted in chunk_counts if counted.pieces), key=lambda each: each[:2]
    )
    rows = RangeReader(plan)
    return {
        check.name: tuple(
            check.judge(
                facts._replace(
                    met=met,
                    pieces=[(counted[:2], counted.pieces[number]) for counted in counts],
                    of_splits=[
                        each.piece
                        for each in found
                        if isinstance(each, OfSplits) and each.check == check.name
                    ],
                ),
                rows,
            )
        )
        for number, check in enumerate(plan.select.checks)
    }


def entries_of(plan: Plan, findings: Findings) -> dict[str, Any]:
    """Returns the entries of the manifest."""
    entries = {check.name: check.entry(findings[check.name]) for check in plan.select.checks}
    return {name: entry for name, entry in entries.items() if entry is not None}


def stop_on_findings(plan: Plan, findings: Findings, folder: str) -> None:
    """Stops a run on findings; lists their rows in ``folder/rejected/``.

    Raises:
      DataError: a check stops it.
    """
    for name, own in findings.items():
        if any(finding.severity == "error" for finding in own):
            path = write_rows(_listed(own), folder, OFFENDERS_OF_STOPPED_RUN)
            check_findings(plan, {name: own}, "nothing was written", {name: path})


def write_listed(findings: Findings, folder: str) -> dict[str, str]:
    """Writes the first rows of each check to a file in ``folder/rejected/``.

    They are one JSON object a line. No source is called as these files are.

    Returns:
      Check -> path of its file; empty if there are no rows, and then there is no file.
    """
    return {
        name: write_rows(_listed(own), folder, f"_{name}.jsonl") for name, own in findings.items()
    }


def _listed(findings: Sequence[Finding]) -> Iterable[Mapping[str, Any]]:
    return (entry for finding in findings for entry in finding.listed)


def check_findings(plan: Plan, findings: Findings, outcome: str, paths: Mapping[str, str]) -> None:
    """Raises ``DataError`` for the first check that stops.

    Args:
      plan: of the run.
      findings: of its checks, or some of them.
      outcome: outcome of the run.
      paths: check -> file of its first rows; empty if it does not stay.
    """
    for check in plan.select.checks:
        own = findings.get(check.name, ())
        stopping = [finding for finding in own if finding.severity == "error"]
        if stopping:
            lines = "".join(f"\n  {line}" for finding in stopping for line in finding.lines)
            path = paths.get(check.name)
            note = f"\nThe first {check.listed} are in {path}." if path else ""
            headline = check.headline(stopping, own)
            raise DataError(f"{headline}; {outcome}:{lines}{note}\n{check.cure(stopping)}")
