"""Judges checks; stops runs on what they find, and on anomalies.

The error of anomalies has a table of them, the offending rows, and remedies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import Row, SplitAnomalies, describe, find_anomalies, table
from beam_pipelines.analysis.anomalies.policy import ValidationPolicy
from beam_pipelines.analysis.anomalies.rules.reason import Info
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.checks.check import Facts, Finding
from beam_pipelines.core.errors import FindingsError, RecipeError
from beam_pipelines.core.formatting import show_count
from beam_pipelines.core.layout.dataset_layout import RAW_SCHEMA
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import offending_rows
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.transforms.equal_rows import Met, merge_met

# Check -> what it found.
Findings = Mapping[str, tuple[Finding, ...]]
# Under rejected/ of the output. No source is called so, and in a dataset there is neither.
OFFENDERS_OF_STOPPED_RUN = "_stopped_run.jsonl"
OFFENDERS = "_anomalies.jsonl"
# Anomalies that 'derive', 'drop' and joins of a recipe explain.
_OF_COLUMNS = {"SCHEMA_NEW_COLUMN", "SCHEMA_MISSING_COLUMN"}


def baseline_of(policy: ValidationPolicy) -> Mapping[str, TableStatistics] | None:
    """Returns the statistics of a policy's baseline, if it has one."""
    return read_statistics(policy.baseline) if policy.baseline else None


def schema_of(path: str) -> str:
    """Returns the path of the schema in a dataset or a description.

    Raises:
      RecipeError: there is none.
    """
    schema_path = files.within(path, RAW_SCHEMA)
    if not files.exists(schema_path):
        raise RecipeError(
            f"{path}: found no {RAW_SCHEMA} in it, expected a schema. Name one with --schema."
        )
    return schema_path


def check_statistics(
    path: str,
    statistics: Mapping[str, TableStatistics],
    schema_path: str,
    schema: schema_pb2.Schema,
    policy: ValidationPolicy,
) -> dict[str, SplitAnomalies]:
    """Returns the anomalies of stored statistics, if all are accepted.

    Args:
      path: source of the statistics, for the message.
      statistics: by split.
      schema_path, schema: the schema to check against.
      policy: validation policy: environment, baseline, accepted anomalies.

    Raises:
      DataError: an anomaly is not accepted.
    """
    anomalies = find_anomalies(statistics, schema, policy, baseline_of(policy))
    if has_errors(anomalies):
        raise anomalies_error(anomalies, schema_path, f"{path} does not pass")
    return anomalies


def check_run(
    plan: Plan, anomalies: Mapping[str, SplitAnomalies], schema: schema_pb2.Schema, folder: str
) -> None:
    """Stops a run with anomalies; lists their rows in ``folder/rejected/``.

    Args:
      plan: of the run.
      anomalies: of the data.
      schema: the schema that they violate.
      folder: the run's output. An existing dataset in it stays as it is.

    Raises:
      DataError: an anomaly is not accepted.
    """
    if has_errors(anomalies):
        offenders, path = write_offenders(plan, anomalies, schema, folder, OFFENDERS_OF_STOPPED_RUN)
        outcome, contract = "nothing was written", plan.contract_path
        raise anomalies_error(anomalies, contract, outcome, offenders, path, plan)


def has_errors(anomalies: Mapping[str, SplitAnomalies]) -> bool:
    """Returns whether any split has an anomaly that is not accepted."""
    return any(found.has_errors for found in anomalies.values())


def write_offenders(
    plan: Plan,
    anomalies: Mapping[str, SplitAnomalies],
    schema: schema_pb2.Schema,
    folder: str,
    name: str,
) -> tuple[offending_rows.Offenders, str]:
    """Finds offending rows; writes them to ``folder/rejected/``.

    Without such rows, no file is left.

    Returns:
      The rows, and the path of the file.
    """
    # Not the schema widened by accepted anomalies: features may share a domain.
    expected = schema if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    offenders = offending_rows.find_offenders(plan, anomalies, expected)
    return offenders, offending_rows.write_rows(offenders.entries(), folder, name)


def anomalies_error(
    anomalies: Mapping[str, SplitAnomalies],
    schema_path: str | None,
    outcome: str,
    offenders: offending_rows.Offenders | None = None,
    offenders_path: str = "",
    plan: Plan | None = None,
) -> FindingsError:
    """Returns an error with a table of the anomalies not accepted.

    Args:
      anomalies: by split; at least one is an ERROR.
      schema_path: file of the schema; ``None`` if it was inferred.
      outcome: outcome of the run.
      offenders: offending rows, if a search was made.
      offenders_path: file of these rows; empty if it does not stay.
      plan: of the run, if there was one.
    """
    schema_path = schema_path and files.shown(schema_path)
    rows = [row for row in describe(anomalies) if row.severity == "ERROR"]
    offenders = offenders or offending_rows.Offenders({})
    in_schema = table.place_in_schema(schema_path)

    def where(row: Row) -> str:
        found = offenders.rows.get(
            offending_rows.AnomalyKey(row.split, row.feature, Info.Type.Value(row.type)), ()
        )
        if not found:
            return in_schema(row)
        # The search ends at this number of rows.
        least = "at least " if len(found) >= offending_rows.ROWS_PER_ANOMALY else ""
        others = f" and {least}{len(found) - 1} more" if len(found) > 1 else ""
        joined = plan.joined_words(row.feature) if plan is not None else ""
        return f"{files.name_of(found[0].file)}, {found[0].position}{joined}{others}"

    count = f"{len(rows)} anomal{'y' if len(rows) == 1 else 'ies'}"
    return FindingsError(
        f"{count} against {schema_path or 'the inferred schema'}; "
        f"{outcome}:\n{table.render_anomalies(rows, where)}\n"
        f"{_rows_note(offenders, offenders_path)}{_recipe_note(rows, plan)}"
        f"{table.CURES} (here: {table.kinds_of(rows)})."
    )


def _recipe_note(rows: Sequence[Row], plan: Plan | None) -> str:
    """Returns a remedy for data without a recipe and a dataset's schema."""
    if plan is None or not {row.type for row in rows} & _OF_COLUMNS:
        return ""
    recipe, paths = plan.recipe, plan.base.source.path
    if not paths or recipe.join or recipe.rename or recipe.derive or recipe.drop or recipe.keep:
        return ""
    return (
        "If the schema is of a dataset, its recipe may add columns and leave some out. Then "
        # A recipe's paths start at its own folder.
        f"validate the recipe: '--set sources.SOURCE.path={files.absolute(paths[0])}' has it read "
        "these data.\n"
    )


def _rows_note(offenders: offending_rows.Offenders, path: str) -> str:
    number = sum(len(rows) for rows in offenders.rows.values())
    note = f"The first rows that cause each anomaly are in {path}.\n" if number and path else ""
    if number and not path:
        note = (
            f"Add --output to have up to {offending_rows.ROWS_PER_ANOMALY} rows of each listed.\n"
        )
    if not offenders.is_complete:
        mib = offenders.read_bytes >> 20
        note += (
            f"The first {mib:,} MiB of the source were searched for such rows; there may be "
            "more after that.\n"
        )
    return note


def judge_checks(
    plan: Plan,
    pieces: Sequence[tuple[tuple[int, int], tuple[Any, ...]]],
    found: Iterable[Met],
    facts: Facts,
) -> Findings:
    """Returns what the checks of a plan find.

    Args:
      plan: of the run.
      pieces: addresses of chunks, in order, with what the checks found in each.
      found: in all partitions.
      facts: without what chunks and meets add.

    Raises:
      DataError: a condition has no value.
    """
    met = merge_met(found)
    rows = offending_rows.RangeReader(plan)
    return {
        check.name: tuple(
            check.judge(
                facts._replace(
                    met=met,
                    pieces=[(address, own[number]) for address, own in pieces],
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
        path = offending_rows.write_rows(listed, folder, OFFENDERS_OF_STOPPED_RUN)
        check_findings(stopping, "nothing was written", dict.fromkeys(stopping, path))


def write_listed(findings: Findings, folder: str) -> dict[str, str]:
    """Writes the first rows of each check to a file in ``folder/rejected/``.

    They are one JSON object a line. No source is called as these files are.

    Returns:
      Check -> path of its file; empty if there are no rows, and then there is no file.
    """
    return {
        name: offending_rows.write_rows(_listed(own), folder, f"_{name}.jsonl")
        for name, own in findings.items()
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
