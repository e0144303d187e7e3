"""Samples rows by class: leaves them out, repeats and weights them.

Rows are chosen by a seeded hash of their address, so that the same ones are chosen on any number of
workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import Problem, missing_column
from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.recipe.sample import Sample
from beam_pipelines.transforms.classes import Coded, code_classes
from beam_pipelines.transforms.cuts import Cuts

# Another stream of numbers than those of splits, shuffle and statistics.
_SEED = 0x736D706C  # "smpl"
SAMPLE = "sample.by"


@dataclasses.dataclass(frozen=True)
class SamplePlan:
    """A sampling that is ready to run.

    Attributes:
      column: of the classes.
      splits: numbers of the splits that are sampled.
      names: of the classes that the recipe names.
      classes: the hash of each of them.
      rates: of each of them; empty: the sampling is by limit.
      limits: of each of them.
      mix: share of each of them; empty: the sampling is not by shares.
      repeats: whether ``mix`` repeats rows and leaves none out.
      limit: of all classes, or ``None``.
      weight: column of the weights, or ``None``.
      seed: of the recipe.
    """

    column: str
    splits: tuple[int, ...]
    names: tuple[str, ...] = ()
    classes: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    limits: tuple[int, ...] = ()
    mix: tuple[float, ...] = ()
    repeats: bool = False
    limit: int | None = None
    weight: str | None = None
    seed: int = 0

    @property
    def has_limits(self) -> bool:
        """Whether the rows of all chunks have to be counted first."""
        return bool(self.limits or self.mix) or self.limit is not None

    def keys_of(self, address: tuple[int, int], rows: int) -> npt.NDArray[np.uint64]:
        """Returns the hash of each row's address."""
        seed = _SEED
        for number in (self.seed, *address):
            seed = mix_int(seed + GOLDEN + number)
        return mix(np.arange(rows, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))

    def of_generation(self, generation: int) -> SamplePlan:
        """Returns the plan for rows that are appended.

        Rows of one place in files of two generations are chosen apart: the rows of each day may
        have the same order.
        """
        return dataclasses.replace(self, seed=mix_int(self.seed + generation))

    def limit_of(self, number: int) -> int | None:
        """Returns the most rows of a class, given by its hash."""
        if self.limits and number in self.classes:
            return self.limits[self.classes.index(number)]
        return self.limit


@dataclasses.dataclass(frozen=True)
class Sampled:
    """What becomes of the rows of a chunk.

    Attributes:
      copies: int64[rows], how often each is written.
      weights: float32[rows].
      counts: ``sampled_out/<split>`` and ``repeated/<split>``, and of classes with a rate
        ``class_found/<number>`` and ``class_kept/<number>``.
    """

    copies: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    counts: Mapping[str, int]


def plan_sample(
    sample: Sample | None,
    label: str | None,
    splits: tuple[str, ...],
    schema: pa.Schema,
    problems: list[Problem],
) -> SamplePlan | None:
    """Plans the sampling of rows with some columns; ``None`` without one.

    Args:
      sample: of the recipe.
      label: of the recipe: the column of the classes, if the sample names none.
      splits: their names.
      schema: columns of the rows.
      problems: gets columns, classes and splits that cannot be sampled.
    """
    if sample is None:
        return None
    column = sample.by or label
    found = list(_problems(sample, column, splits, schema))
    problems += found
    if found:
        return None
    wanted = sample.splits or (("train",) if "train" in splits else splits[:1])
    plan = SamplePlan(
        column or "",
        tuple(splits.index(name) for name in wanted),
        weight=sample.weight,
        seed=sample.seed,
    )
    limits = sample.limit if isinstance(sample.limit, Mapping) else {}
    given = tuple(sample.rates) or tuple(limits) or tuple(sample.mix)
    classes = _hash_classes(plan.column, given, schema, problems)
    if isinstance(sample.limit, int):
        return dataclasses.replace(plan, limit=sample.limit)
    return dataclasses.replace(
        plan,
        names=given,
        classes=classes,
        rates=tuple(sample.rates.values()),
        limits=tuple(limits.values()),
        mix=tuple(sample.mix.values()),
        repeats=sample.repeat,
    )


def _problems(
    sample: Sample, column: str | None, splits: tuple[str, ...], schema: pa.Schema
) -> Iterator[Problem]:
    place = ("sample", "by") if sample.by else ("sample",)
    if column is None:
        yield Problem(place, "found no 'by' and no 'label', expected the column of the classes.")
    elif column not in schema.names:
        yield Problem(place, missing_column(column, schema.names))
    elif pa.types.is_list(schema.field(column).type):
        kind = type_name(schema.field(column).type)
        yield Problem(place, f"column '{column}' is {kind}, expected one value in a row.")
    if sample.weight in schema.names:
        message = f"found '{sample.weight}', but the rows have this column. Choose a new name."
        yield Problem(("sample", "weight"), message)
    for index, name in enumerate(sample.splits):
        if name not in splits:
            known = ", ".join(splits)
            message = f"found the split '{name}', expected {known}."
            yield Problem(("sample", "splits", index), message)


def _hash_classes(
    column: str, names: tuple[str, ...], schema: pa.Schema, problems: list[Problem]
) -> tuple[int, ...]:
    """Returns the hash of each class that the recipe names."""
    kind, key = schema.field(column).type, ("sample",)
    found: dict[int, str] = {}
    for name in names:
        try:
            text = pa.array([None if name == "null" else name], pa.string())
            batch = pa.record_batch([text.cast(kind)], [column])
        except (pa.ArrowException, ValueError):
            message = f"found the class '{name}', expected values of column '{column}': "
            problems.append(Problem(key, f"{message}{type_name(kind)}."))
            continue
        (number,) = code_classes(batch, (column,), SAMPLE).classes.tolist()
        if number in found:
            message = f"found the class '{found[number]}' again as '{name}', expected it once."
            problems.append(Problem(key, message))
        found[number] = name
    return tuple(found)


def classes_in(coded: Coded, assignment: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Returns the hash of each row's class and split."""
    splits = mix(np.arange(256, dtype=np.uint64) + np.uint64(GOLDEN))
    return mix(coded.of_rows ^ splits[assignment])


def sample_rows(
    plan: SamplePlan,
    chunk: Chunk,
    assignment: npt.NDArray[np.uint8],
    names: tuple[str, ...],
    cuts: Cuts | None = None,
) -> Sampled:
    """Chooses the rows of a chunk.

    Args:
      plan: of the sampling.
      chunk: before its rows are divided.
      assignment: split of each row.
      names: of the splits.
      cuts: after which rows of each class are left out, if there are limits; ``None``: no row is.
    """
    rows = chunk.batch.num_rows
    copies, weights = np.ones(rows, np.int64), np.ones(rows, np.float32)
    is_sampled = np.isin(assignment, plan.splits)
    counts: dict[str, int] = {}
    if plan.rates:
        coded = code_classes(chunk.batch, (plan.column,), SAMPLE)
        copies, weights = _by_rates(plan, chunk, coded, is_sampled)
        counts = _count_named(plan, coded, copies, is_sampled)
    elif cuts is not None and len(cuts.classes):
        chosen = np.flatnonzero(is_sampled)
        coded = code_classes(chunk.batch, (plan.column,), SAMPLE)
        own = classes_in(coded, assignment)[chosen]
        keys = plan.keys_of(chunk[:2], rows)[chosen]
        places = np.searchsorted(cuts.classes, own)
        is_first = cuts.pieces_of(chunk[:2], own, keys, chosen) == 0
        copies[chosen] = cuts.copies[places] + is_first
        found = cuts.rows.sum(axis=1)
        totals = found / np.maximum(cuts.rows[:, 0] + cuts.copies * found, 1)
        weights[chosen] = totals.astype(np.float32)[places]
    for number in plan.splits:
        own_copies = copies[assignment == number]
        counts[f"sampled_out/{names[number]}"] = int((own_copies == 0).sum())
        counts[f"repeated/{names[number]}"] = int(np.maximum(own_copies - 1, 0).sum())
    return Sampled(copies, weights, counts)


def _by_rates(
    plan: SamplePlan, chunk: Chunk, coded: Coded, is_sampled: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    known = dict(zip(plan.classes, plan.rates, strict=True))
    of_class = np.array([known.get(number, 1.0) for number in coded.classes.tolist()])
    rates = np.where(is_sampled, of_class[coded.codes], 1.0) if len(of_class) else np.empty(0)
    whole = np.floor(rates)
    # 53 bits, which a float64 holds exactly.
    places = (plan.keys_of(chunk[:2], len(rates)) >> np.uint64(11)) / float(1 << 53)
    copies = whole.astype(np.int64) + (places < rates - whole)
    return copies, (1 / rates).astype(np.float32)


def _count_named(
    plan: SamplePlan,
    coded: Coded,
    copies: npt.NDArray[np.int64],
    is_sampled: npt.NDArray[np.bool_],
) -> dict[str, int]:
    """Returns the rows of each named class before and after."""
    counts: dict[str, int] = {}
    found = np.bincount(coded.codes[is_sampled], minlength=len(coded.classes)).tolist()
    kept = np.zeros(len(coded.classes), np.int64)
    np.add.at(kept, coded.codes[is_sampled], copies[is_sampled])
    for number, before, after in zip(coded.classes.tolist(), found, kept.tolist(), strict=True):
        if number in plan.classes and before:
            index = plan.classes.index(number)
            counts[f"class_found/{index}"] = before
            counts[f"class_kept/{index}"] = after
    return counts


def with_weights(
    batch: pa.RecordBatch, sampled: Sampled, rows: npt.NDArray[Any], weight: str | None
) -> pa.RecordBatch:
    """Returns rows with the column of their weights.

    Args:
      batch: the chosen rows.
      sampled: of the chunk.
      rows: numbers of the rows in the chunk.
      weight: name of the column; ``None``: no column.
    """
    if weight is None:
        return batch
    weights = pa.array(sampled.weights[rows])
    return pa.RecordBatch.from_arrays([*batch.columns, weights], [*batch.schema.names, weight])
