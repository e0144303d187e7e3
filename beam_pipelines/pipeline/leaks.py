"""Finds where rows leak between splits, and stops runs on them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence

from beam_pipelines.analysis.leaks import ROWS, Leak, show_leak
from beam_pipelines.core.dataset_layout import REJECTED
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.pipeline.offending_rows import RangeReader
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN
from beam_pipelines.storage import file_changes, files
from beam_pipelines.transforms.leaks import FoundLeaks, merge_leaks

# Under rejected/ of a description. No source is called so.
LEAKS = "_leaks.jsonl"


def locate_leaks(
    plan: Plan, rows: Mapping[str, int], found: Iterable[FoundLeaks]
) -> tuple[Leak, ...] | None:
    """Returns the leaks of a run, located in files.

    Args:
      plan: of the run.
      rows: split -> its rows.
      found: in all partitions.

    Returns:
      The leaks; ``None`` if the recipe does not ask for them.
    """
    rule, columns, names = plan.recipe.leaks, plan.select.leaks, plan.split.names
    if rule is None:
        return None
    reader, leaks = RangeReader(plan), []
    merged = merge_leaks(found, plan.select.compared, len(columns))
    for number, own in enumerate(merged):
        for (earlier, split), some in own.items():
            both = reader.rows_of(tuple(itertools.chain.from_iterable(some.pairs)), ())
            pairs = tuple(zip(both[::2], both[1::2], strict=True))
            leak = Leak(
                rule,
                rule.entity if number else ROWS,
                names[earlier],
                names[split],
                rows[names[split]],
                some.rows,
                tuple((first.where, row.where) for first, row in pairs),
                tuple(
                    (mask(row.position.file), *row.position[1:], first.position.text)
                    for first, row in pairs
                ),
            )
            leaks.append(leak)
    return tuple(leaks)


def stop_on_leaks(plan: Plan, leaks: Sequence[Leak] | None, folder: str) -> None:
    """Stops a run with leaks, if the recipe asks for it.

    Their first pairs are listed in ``folder/rejected/``.

    Raises:
      DataError: there are leaks, and their action is ``error``.
    """
    if leaks and plan.recipe.leaks is not None and plan.recipe.leaks.action == "error":
        path = write_leaks(plan, leaks, folder, OFFENDERS_OF_STOPPED_RUN)
        check_leaks(leaks, "nothing was written", path)


def check_leaks(leaks: Sequence[Leak] | None, outcome: str, path: str) -> None:
    """Raises ``DataError`` if there are leaks whose action is ``error``.

    Args:
      leaks: those found, or ``None``.
      outcome: outcome of the run.
      path: file of the first pairs; empty if it does not stay.
    """
    stopping = [leak for leak in leaks or () if leak.rule.action == "error"]
    if stopping:
        lines = "".join(f"\n  {show_leak(leak.to_json())}" for leak in stopping)
        note = f"\nThe first pairs are in {path}." if path else ""
        raise DataError(
            f"rows leak between splits; {outcome}:{lines}{note}\n"
            "Split by columns that are the same in such rows ('split: {by: …}'), leave duplicates "
            "out ('duplicates'), or take 'leaks: warn'."
        )


def write_leaks(plan: Plan, leaks: Sequence[Leak] | None, folder: str, name: str) -> str:
    """Writes the rows of the first pairs to ``folder/rejected/``.

    They are one JSON object a line. Without any, no file is left.

    Returns:
      The file's path; empty if there is none.
    """
    if leaks is None:
        return ""
    path = files.join(folder, REJECTED, name)
    file_changes.delete(path)
    lines = [
        json.dumps(
            {
                "source": plan.recipe.base,
                "split": leak.split,
                "file": file,
                "position": position,
                "reason": f"{_values(leak)} of {first}, in '{leak.first}'",
                "text": text,
                "first_text": first_text,
            },
            ensure_ascii=False,
        )
        for leak in leaks
        for (first, _), (file, position, text, first_text) in zip(
            leak.pairs, leak.rows_shown, strict=True
        )
    ]
    if lines:
        files.write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
    return path if lines else ""


def _values(leak: Leak) -> str:
    return "the values" if isinstance(leak.what, str) else f"the {', '.join(leak.what)}"
