"""Finds which rows of each class and split a limit keeps.

A limit keeps the rows with the smallest hashes of their addresses (``transforms/sample.py``).
"""

from __future__ import annotations

import dataclasses
import fractions
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from beam_pipelines.analysis.sampled_classes import SampledClass
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.sample import MOST_COPIES
from beam_pipelines.transforms.classes import code_classes, merge_names, name_classes
from beam_pipelines.transforms.cuts import (
    Cuts,
    SortedKeys,
    count_classes,
    find_cuts,
    send_keys,
    sort_keys,
)
from beam_pipelines.transforms.exchange import Exchange, Message
from beam_pipelines.transforms.held_chunks import HoldChunks
from beam_pipelines.transforms.quotas import whole_weights
from beam_pipelines.transforms.sample import SAMPLE, SamplePlan, classes_in
from beam_pipelines.transforms.split import SplitPlan, assign_split

# Names of classes and their splits, and the limit of each.
_Named = dict[int, str]
_BETWEEN = "\0"


def send_sampled(chunk: Chunk, split: SplitPlan, sample: SamplePlan, partitions: int) -> Message:
    """Sends the keys of the rows that a limit may leave out."""
    assignment = assign_split(split, chunk)
    chosen = np.flatnonzero(np.isin(assignment, sample.splits))
    coded = code_classes(chunk.batch, (sample.column,), SAMPLE)
    own = classes_in(coded, assignment)[chosen]
    keys = sample.keys_of(chunk[:2], len(assignment))[chosen]
    return send_keys(chunk[:2], own, keys, partitions, chosen)


def name_sampled(chunk: Chunk, split: SplitPlan, sample: SamplePlan) -> _Named:
    """Returns class and split -> limit, name of the class, and split."""
    coded = code_classes(chunk.batch, (sample.column,), SAMPLE)
    names = name_classes(chunk.batch, (sample.column,), coded)
    found = {}
    for split_number in sample.splits:
        splits = np.full(len(coded.classes), split_number, np.uint8)
        whole = dataclasses.replace(coded, codes=np.arange(len(coded.classes)))
        both = classes_in(whole, splits).tolist()
        for number, own in zip(both, coded.classes.tolist(), strict=True):
            limit = sample.limit_of(own)
            is_named = own in sample.classes
            name = sample.names[sample.classes.index(own)] if is_named else names[own]
            parts = (str(limit or ""), split.names[split_number], name)
            found[number] = _BETWEEN.join(parts)
    return found


def cut_limits(
    partitions: Sequence[SortedKeys], names: Mapping[int, str], sample: SamplePlan
) -> Cuts:
    """Returns the cuts after the rows that limits keep.

    Raises:
      DataError: a class that the recipe names does not occur, or one of a mix is not named or would
        be repeated too often.
    """
    counted = count_classes(partitions)
    shown = {number: names[number].split(_BETWEEN, 2) for number in counted}
    rows = np.array(list(counted.values()), np.int64).reshape(-1, 1)
    for split in {split for _, split, _ in shown.values()} if sample.mix else ():
        check_named(sample, {name for _, own, name in shown.values() if own == split})
    copies = np.zeros(rows.shape, np.int64)
    if sample.mix:
        places = [(split, name) for _, split, name in shown.values()]
        copies, kept = np.divmod(_mixed(sample, places, rows[:, 0].tolist()).reshape(-1, 1), rows)
    else:
        limits = [int(limit) if limit else 2**62 for limit, _, _ in shown.values()]
        kept = np.minimum(rows, np.array(limits, np.int64).reshape(-1, 1))
    check_named(sample, {name for _, _, name in shown.values()})
    labels = {number: f"{name}{_BETWEEN}{split}" for number, (_, split, name) in shown.items()}
    return find_cuts(partitions, labels, np.hstack([kept, rows - kept]), copies[:, 0])


def _mixed(
    sample: SamplePlan, places: Sequence[tuple[str, str]], rows: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Returns the rows of each class in the mix.

    It is the largest one that repeats no row, or the smallest one that leaves none out.

    Args:
      sample: its shares, and whether it repeats rows.
      places: split and name of each class.
      rows: of each class.
    """
    weights = dict(zip(sample.names, whole_weights(sample.mix), strict=True))
    others = sorted({name for _, name in places} - set(weights))
    if others:
        raise DataError(
            f"sample.mix: found rows of class {', '.join(others[:5])} in column "
            f"'{sample.column}', expected {', '.join(weights)} only; nothing was written. Give it "
            "a share, or leave it out with 'filter'."
        )
    chosen = max if sample.repeats else min
    most = {
        split: chosen(
            fractions.Fraction(count, weights[name])
            for (own, name), count in zip(places, rows, strict=True)
            if own == split
        )
        for split in {split for split, _ in places}
    }
    mixed = [int(most[split] * weights[name]) for split, name in places]
    for (_, name), count, own in zip(places, rows, mixed, strict=True):
        if own > MOST_COPIES * count:
            raise DataError(
                f"sample.mix: found {count:,} rows of class {name} in column '{sample.column}', "
                f"which would become {own:,}, expected each to be written {MOST_COPIES:,} times at "
                "most; nothing was written. Give the class a smaller share, or leave 'repeat' out."
            )
    return np.array(mixed, np.int64)


def check_named(sample: SamplePlan, found: set[str]) -> None:
    """Raises ``DataError`` if a class that the recipe names does not occur.

    Args:
      sample: its plan.
      found: named classes that occur, by name.
    """
    missing = [name for name in sample.names if name not in found]
    if missing:
        raise DataError(
            f"sample: found no row of class {', '.join(missing)} in column '{sample.column}' of "
            "the splits that are sampled, expected some; nothing was written. Mend the class, or "
            "leave it out of the recipe."
        )


def _save(
    _once: None,
    partitions: Sequence[SortedKeys],
    names: Mapping[int, str],
    sample: SamplePlan,
    path: str,
) -> str:
    cut_limits(partitions, names, sample).save(path)
    return path


@dataclasses.dataclass
class FindLimits(beam.PTransform):
    """Finds the rows that limits keep, and holds all chunks meanwhile.

    Input: ``Chunk`` elements before they are split. Output: a dict with ``chunks``: the same; and
    ``limits``: the path of the file of ``Cuts``, complete when the first chunk arrives.

    Attributes:
      split: assigns rows.
      sample: has limits.
      partitions, path, scratch, folder, deletes: as in ``AssignSplits``.
    """

    split: SplitPlan
    sample: SamplePlan
    partitions: int
    path: str
    scratch: tuple[str, str]
    folder: str | None
    deletes: bool = False

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        names = (
            chunks
            | "NameClasses" >> beam.Map(name_sampled, self.split, self.sample)
            | "MergeNames" >> beam.CombineGlobally(lambda named: merge_names(named, SAMPLE))
        )
        counted = (
            chunks
            | "SendKeys" >> beam.Map(send_sampled, self.split, self.sample, self.partitions)
            | "Meet" >> Exchange(self.folder)
            | "SortKeys" >> beam.Map(sort_keys, self.scratch[0], SAMPLE)
        )
        saved = (
            chunks.pipeline
            | "Once" >> beam.Create([None], reshuffle=False)
            | "Limit"
            >> beam.Map(
                _save,
                beam.pvalue.AsList(counted),
                beam.pvalue.AsSingleton(names),
                self.sample,
                self.path,
            )
        )
        held = chunks | "Wait" >> HoldChunks(saved, self.scratch[1], self.deletes)
        return {"chunks": held, "limits": saved}


def limited_classes(path: str) -> list[SampledClass]:
    """Returns the classes of the file of ``FindLimits``."""
    cuts = Cuts.load(path)
    found = []
    for label, rows, kept, copies in zip(
        cuts.names,
        cuts.rows.sum(axis=1).tolist(),
        cuts.rows[:, 0].tolist(),
        cuts.copies.tolist(),
        strict=True,
    ):
        name, _, split = label.partition(_BETWEEN)
        written = kept + copies * rows
        found.append(SampledClass(name, (split,), rows, written, rows / max(written, 1)))
    return found
