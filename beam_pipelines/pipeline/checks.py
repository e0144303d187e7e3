"""Judges checks, stops runs on them, and lists their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_pipelines.checks.check import Facts, Finding
from beam_pipelines.core.chunks import ChunkCounts
from beam_pipelines.core.errors import FindingsError
from beam_pipelines.core.formatting import show_count
from beam_pipelines.pipeline.offending_rows import RangeReader, write_rows
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN
from beam_pipelines.transforms.equal_rows import Met, merge_met

# Check -> what it found.
Findings = Mapping[str, tuple[Finding, ...]]


def judge_checks(
    plan: Plan, chunk_counts: Sequence[ChunkCounts], found: Iterable[Met], facts: Facts
) -> Findings:
    """Returns what the checks of a plan find.

    Args:
      plan: of the run.
      chunk_counts: of the base source's chunks, in any order.
      found: in all partitions.
      facts: without what chunks and meets add.

    Raises:
      DataError: a condition has no value.
    """
    met = merge_met(found)
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
                ),
                rows,
            )
        )
        for number, check in enumerate(plan.select.checks)
    }


def entries_of(findings: Findings) -> list[dict[str, Any]]:
    """Returns the entries of the manifest; a check has at least one."""
    nothing = (Finding("ok", "nothing was found"),)
    return [each.to_json(name) for name, own in findings.items() for each in own or nothing]


def stop_on_findings(findings: Findings, folder: str) -> None:
    """Stops a run on findings; lists their rows in ``folder/rejected/``.

    Raises:
      FindingsError: a check stops it.
    """
    stopping = {name: own for name, own in findings.items() if _stopping(own)}
    if stopping:
        listed = itertools.chain.from_iterable(map(_listed, stopping.values()))
        path = write_rows(listed, folder, OFFENDERS_OF_STOPPED_RUN)
        check_findings(stopping, "nothing was written", dict.fromkeys(stopping, path))


def write_listed(findings: Findings, folder: str) -> dict[str, str]:
    """Writes the first rows of each check to a file in ``folder/rejected/``.

    They are one JSON object a line. No source is called as these files are.

    Returns:
      Check -> path of its file; empty if there are no rows, and then there is no file.
    """
    return {
        name: write_rows(_listed(own), folder, f"_{name}.jsonl") for name, own in findings.items()
    }


def _listed(findings: Sequence[Finding]) -> Iterator[Mapping[str, Any]]:
    return (entry for finding in findings for entry in finding.listed)


def _stopping(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def check_findings(findings: Findings, outcome: str, paths: Mapping[str, str]) -> None:
    """Raises an error with all findings that stop.

    Args:
      findings: of checks.
      outcome: outcome of the run.
      paths: check -> file of its first rows; empty if it does not stay.

    Raises:
      FindingsError: there are some.
    """
    found = [(name, finding) for name, own in findings.items() for finding in _stopping(own)]
    if not found:
        return
    lines = [f"{show_count(len(found), 'finding')}; {outcome}:"]
    lines += [f"  {name}: {finding.line}" for name, finding in found]
    if files := dict.fromkeys(path for name, _ in found if (path := paths.get(name))):
        lines.append(f"The first rows are in {', '.join(files)}.")
    lines += dict.fromkeys(finding.hint for _, finding in found if finding.hint)
    raise FindingsError("\n".join(lines))
