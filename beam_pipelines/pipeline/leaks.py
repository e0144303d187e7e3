"""Finds where rows leak between splits, and stops runs on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_pipelines.analysis.leaks import (
    NEAR,
    ROWS,
    FeatureLeak,
    FitLeak,
    Leak,
    RowLeak,
    TimeLeak,
    cure_of,
    show_leak,
)
from beam_pipelines.analysis.report import SampledRows
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.kinds.target_mean import TargetMean
from beam_pipelines.pipeline.offending_rows import RangeReader, write_rows
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN
from beam_pipelines.recipe.leaks import Leaks
from beam_pipelines.transforms.leaks import FoundLeaks, merge_leaks
from beam_pipelines.transforms.split_times import SplitTimes, merge_times

# Under rejected/ of a description. No source is called so.
LEAKS = "_leaks.jsonl"


def locate_leaks(
    plan: Plan,
    rows: Mapping[str, int],
    found: Iterable[FoundLeaks | SplitTimes],
    sampled: SampledRows,
) -> tuple[Leak, ...] | None:
    """Returns the leaks of a run, located in files.

    Args:
      plan: of the run.
      rows: split -> its rows.
      found: in all partitions and chunks.
      sampled: a description of sampled rows.

    Returns:
      The leaks; ``None`` if the recipe does not ask for them.
    """
    rule = plan.recipe.leaks
    if rule is None:
        return None
    found, reader = list(found), RangeReader(plan)
    times = merge_times(each for each in found if isinstance(each, SplitTimes))
    hashes = (each for each in found if isinstance(each, FoundLeaks))
    label = plan.recipe.label or ""
    return (
        *_row_leaks(plan, rule, rows, hashes, reader),
        *_time_leaks(plan, rule, times, reader),
        *(FeatureLeak(rule, label, each, sampled.rows) for each in sampled.giveaways),
        *_fit_leaks(plan, rule),
    )


def _row_leaks(
    plan: Plan,
    rule: Leaks,
    rows: Mapping[str, int],
    found: Iterable[FoundLeaks],
    reader: RangeReader,
) -> Iterator[Leak]:
    """Yields equal rows and entities of several splits."""
    names = plan.split.names
    entities = (rule.entity,) if rule.entity else ()
    kinds: tuple[tuple[str, ...] | str, ...] = (ROWS, *entities, NEAR)
    merged = merge_leaks(found, plan.select.compared, len(plan.select.leaks) + 1)
    for what, own in zip(kinds, merged, strict=False):
        for (earlier, split), some in own.items():
            yield RowLeak(
                rule,
                what,
                names[earlier],
                names[split],
                rows[names[split]],
                some.rows,
                reader.pairs_of(some.pairs),
            )


def _time_leaks(plan: Plan, rule: Leaks, times: SplitTimes, reader: RangeReader) -> Iterator[Leak]:
    """Yields splits with rows later than one below them."""
    names = plan.split.names
    for split, later in itertools.combinations(range(len(names)), 2):
        last, first = times.last.get(split), times.first.get(later)
        if last is not None and first is not None and last.time > first.time:
            pairs = reader.pairs_of([(first.place, last.place)])
            yield TimeLeak(rule, names[split], names[later], last.shown, first.shown, pairs)


def _fit_leaks(plan: Plan, rule: Leaks) -> Iterator[Leak]:
    """Yields features with means of a target over rows to evaluate on."""
    if plan.transform_graph:
        return
    names = plan.split.names
    to_train_on = "train" if "train" in names else names[0]
    others = tuple(name for name in plan.encode.fit.splits if name != to_train_on)
    if others:
        for chain in plan.encode.chains:
            for step in chain.steps:
                if isinstance(step.encoding, TargetMean):
                    yield FitLeak(rule, chain.name, step.encoding.target, others)


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
        what = "rows leak between splits"
        if not any(isinstance(leak, RowLeak | TimeLeak) for leak in stopping):
            what = "features give the label away"
        raise DataError(f"{what}; {outcome}:{lines}{note}\n{cure_of(tuple(stopping))}")


def write_leaks(plan: Plan, leaks: Sequence[Leak] | None, folder: str, name: str) -> str:
    """Writes the rows of the first pairs to ``folder/rejected/``.

    They are one JSON object a line. Without any, no file is left.

    Returns:
      The file's path; empty if there is none.
    """
    if leaks is None:
        return ""
    entries = (
        {
            "source": plan.recipe.base,
            "split": leak.split,
            "file": pair.file,
            "position": pair.place,
            "reason": leak.reason_of(pair),
            "text": pair.text,
            "first_text": pair.first_text,
        }
        for leak in leaks
        if isinstance(leak, RowLeak | TimeLeak)
        for pair in leak.pairs
    )
    return write_rows(entries, folder, name)
