"""Finds where rows occur twice, and stops runs on them."""

from __future__ import annotations

from beam_pipelines.analysis.duplicates import FoundDuplicates, show_found
from beam_pipelines.analysis.expectations import Repeats
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.offending_rows import RangeReader, write_rows
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN

# Under rejected/ of a description. No source is called so.
DUPLICATES = "_duplicates.jsonl"


def locate_duplicates(plan: Plan, rows: int, repeats: Repeats) -> FoundDuplicates | None:
    """Returns the duplicates of a run, located in files.

    Args:
      plan: of the run.
      rows: number of rows that were compared.
      repeats: of their values.
    """
    rule = plan.recipe.duplicates
    if rule is None:
        return None
    pairs = RangeReader(plan).pairs_of(repeats.pairs)
    return FoundDuplicates(rule, rows, repeats.rows, pairs)


def stop_on_duplicates(plan: Plan, found: FoundDuplicates | None, folder: str) -> None:
    """Stops a run with duplicates, if the recipe asks for it.

    Their first pairs are listed in ``folder/rejected/``.

    Raises:
      DataError: there are duplicates, and their action is ``error``.
    """
    if found is not None and found.stops:
        path = write_pairs(plan, found, folder, OFFENDERS_OF_STOPPED_RUN)
        check_duplicates(found, "nothing was written", path)


def check_duplicates(found: FoundDuplicates | None, outcome: str, path: str) -> None:
    """Raises ``DataError`` if there are duplicates whose action is ``error``.

    Args:
      found: the duplicates, or ``None``.
      outcome: outcome of the run.
      path: file of the first pairs; empty if it does not stay.
    """
    if found is None or not found.stops:
        return
    pairs = "".join(f"\n  {pair.row}, as {pair.first}" for pair in found.pairs)
    note = f"\nThe first pairs are in {path}." if path else ""
    raise DataError(
        f"duplicates: {show_found(found.to_json())}; {outcome}:{pairs}{note}\n"
        "Mend the data; or leave the later rows out with 'action: drop', or take 'action: warn'."
    )


def write_pairs(plan: Plan, found: FoundDuplicates | None, folder: str, name: str) -> str:
    """Writes the rows of the first pairs to ``folder/rejected/``.

    They are one JSON object a line. Without any, no file is left.

    Returns:
      The file's path; empty if there is none.
    """
    if found is None:
        return ""
    entries = (
        {
            "source": plan.recipe.base,
            "file": pair.file,
            "position": pair.place,
            "reason": f"a {'near ' if found.rule.near else ''}duplicate of {pair.first}",
            "text": pair.text,
            "first_text": pair.first_text,
        }
        for pair in found.pairs
    )
    return write_rows(entries, folder, name)
