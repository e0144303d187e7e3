"""Assigns each row to a split: by hash, column or file.

The same row, or the same value of the ``by`` columns, always gets the same split, whatever its
batch, the number of workers, or other rows. A column that decides the split may be dropped; it is
removed after the split.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import fractions
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core import chunks as chunk_types
from beam_pipelines.core.arrow import columns, hashing
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, missing_column
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.output import Output
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources.plan import SourcePlan, gather_ranges
from beam_pipelines.transforms import metrics
from beam_pipelines.transforms.select.rejected_files import store_rejected
from beam_pipelines.transforms.select.select import schema_after_split
from beam_pipelines.transforms.shuffle import chunk_order
from beam_pipelines.transforms.split import sample as split_sample
from beam_pipelines.transforms.split.bounds import Bounds, assign_times, plan_bounds
from beam_pipelines.transforms.split.key import SPLIT_SEED

Assignment = npt.NDArray[np.uint8]

CHUNK_COUNTS = "chunk_counts"
MAX_SPLITS = 255
_SHOWN_FILES = 10  # files in no split; a source of images may have a million of them


@dataclasses.dataclass(frozen=True)
class SplitPlan(PickledOnce):
    """Splits that are ready to be assigned: by hash, column or file.

    A single split has none of the three.

    Attributes:
      names: split names in the recipe's order; an assignment is an index into them.
      schema: the columns after the split.
      by: columns to hash; or ``SPLIT_KEY`` alone, which has the hashes.
      seed: changes the hashes; 0: as they are.
      stratify: columns of the classes that ``AssignSplits`` divides; or none.
      shares: of the splits, if they are divided by shares.
      sample: leaves out and repeats rows once they are divided, or ``None``.
      thresholds: ascending; split i has the hashes below threshold i, the last split has the rest.
      time_column, bounds: for each split its first value and the first value after it, or its
        values, of the column's type.
      patterns: for each split the pattern of its files' paths.
    """

    names: tuple[str, ...]
    schema: pa.Schema
    by: tuple[str, ...] = ()
    thresholds: tuple[int, ...] = ()
    time_column: str | None = None
    bounds: tuple[Bounds, ...] = ()
    patterns: tuple[str, ...] = ()
    seed: int = 0
    stratify: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    sample: split_sample.SamplePlan | None = None

    def hashes_of(self, batch: pa.RecordBatch) -> hashing.Hashes:
        """Returns uint64[rows], what decides the split of each row by its share."""
        if self.by == (chunk_types.SPLIT_KEY,):
            hashes: hashing.Hashes = batch.column(chunk_types.SPLIT_KEY).to_numpy()
        else:
            hashes = _native.hash_rows([batch.column(name) for name in self.by], SPLIT_SEED)
        return hashing.mix(hashes + np.uint64(hashing.mix_int(self.seed))) if self.seed else hashes


def plan_split(recipe: Recipe, schema: pa.Schema) -> SplitPlan:
    """Plans the split of rows with the columns of ``select.SelectPlan.schema``.

    Args:
      recipe: of the conversion.
      schema: the columns of rows.

    Raises:
      RecipeProblems: unknown columns, a column that cannot be split by, unreadable bounds,
        overlapping splits.
    """
    split = recipe.split
    problems: list[Problem] = []
    if len(split.names) > MAX_SPLITS:
        problems.append(
            Problem(("split",), f"found {len(split.names)} splits, expected at most {MAX_SPLITS}")
        )
    plan = SplitPlan(split.names, schema_after_split(recipe, schema))
    if split.time_column is not None:
        bounds = plan_bounds(split, schema, problems)
        plan = dataclasses.replace(plan, time_column=split.time_column, bounds=bounds)
    elif split.files:
        plan = dataclasses.replace(plan, patterns=tuple(split.files.values()))
    else:
        plan = _plan_fractions(split, schema, plan, problems)
    sample = split_sample.plan_sample(recipe.sample, recipe.label, split.names, schema, problems)
    if problems:
        raise RecipeProblems(problems)
    if sample is not None and sample.weight is not None:
        weight = pa.field(sample.weight, pa.float32())
        plan = dataclasses.replace(plan, schema=plan.schema.append(weight))
    return dataclasses.replace(plan, sample=sample)


def _plan_fractions(
    split: Split, schema: pa.Schema, plan: SplitPlan, problems: list[Problem]
) -> SplitPlan:
    known = set(schema.names)
    for index, name in enumerate(split.by):
        if name not in known:
            problems.append(Problem(("split", "by", index), missing_column(name, schema.names)))
    problems += _problems_of_classes(split, schema)
    if len(split.names) == 1:
        return plan
    thresholds = fraction_thresholds(tuple(split.fractions.values()))
    by = (
        (chunk_types.SPLIT_KEY,)
        if chunk_types.SPLIT_KEY in known
        else split.by or tuple(plan.schema.names)
    )
    return dataclasses.replace(
        plan,
        by=by,
        thresholds=thresholds,
        seed=split.seed,
        stratify=split.stratify,
        shares=tuple(split.fractions.values()),
    )


def _problems_of_classes(split: Split, schema: pa.Schema) -> Iterator[Problem]:
    """Yields why columns have no classes to divide."""
    if split.stratify and len(split.names) == 1:
        yield Problem(("split", "stratify"), "found it with one split, expected several.")
    if split.stratify and split.by:
        message = (
            "found it with 'by', expected one of them: rows that stay together are not divided by "
            "class. Leave 'stratify' out: with many groups each class comes near its shares. Or "
            "write one file for each split, as in 'split: {train: {files: train.csv}, eval: "
            "{files: eval.csv}}'."
        )
        yield Problem(("split", "stratify"), message)
    for index, name in enumerate(split.stratify):
        place = ("split", "stratify", index)
        if name not in schema.names:
            yield Problem(place, missing_column(name, schema.names))
        elif pa.types.is_list(schema.field(name).type):
            kind = columns.type_name(schema.field(name).type)
            yield Problem(place, f"column '{name}' is {kind}, expected one value in a row.")


def fraction_thresholds(shares: Sequence[float]) -> tuple[int, ...]:
    """Returns the hash, 0 to 2**64, at which each split ends.

    The last split is left out. It is computed exactly from the decimals of the shares.
    """
    decimals = [fractions.Fraction(repr(share)) for share in shares]
    whole = sum(decimals, fractions.Fraction())
    return tuple(int(end * 2**64 / whole) for end in itertools.accumulate(decimals[:-1]))


def assign_split(plan: SplitPlan, chunk: chunk_types.Chunk) -> Assignment:
    """Assigns each row of a chunk to a split.

    Returns:
      uint8[rows], indexes into ``plan.names``.

    Raises:
      DataError: a value is null or in no split; or the file matches no pattern, or several.
    """
    if plan.patterns:
        return np.full(chunk.batch.num_rows, _split_of_file(plan, chunk.path), np.uint8)
    if plan.time_column is not None:
        return assign_times(
            chunk, plan.time_column, dict(zip(plan.names, plan.bounds, strict=True))
        )
    if not plan.thresholds:
        return np.zeros(chunk.batch.num_rows, np.uint8)
    if chunk_types.ASSIGNED in chunk.batch.schema.names:
        assigned: Assignment = chunk.batch.column(chunk_types.ASSIGNED).to_numpy()
        return assigned
    hashes = plan.hashes_of(chunk.batch)
    # A threshold is the first hash of the next split; 2**64 itself, of empty splits at the end,
    # does not fit in uint64.
    starts = np.array(
        [threshold for threshold in plan.thresholds if threshold < 1 << 64], np.uint64
    )
    return np.searchsorted(starts, hashes, side="right").astype(np.uint8)


def check_files(plan: SplitPlan, paths: Sequence[str]) -> None:
    """Checks a split by files against the base source's files.

    Raises:
      RecipeProblems: a file matches no pattern, or several; or a pattern matches no file.
    """
    if not plan.patterns:
        return
    problems: list[Problem] = []
    used = set()
    for path in paths:
        try:
            used.add(_split_of_file(plan, path))
        except DataError as error:
            problems.append(Problem(("split",), str(error)))
            if len(problems) == _SHOWN_FILES:
                break
    for index, name in enumerate(plan.names):
        if index not in used and not problems:
            pattern = plan.patterns[index]
            problems.append(
                Problem(("split", name), f"found no file of the source that matches '{pattern}'.")
            )
    if problems:
        raise RecipeProblems(problems)


def by_file(plan: SplitPlan, source: SourcePlan) -> SourcePlan:
    """Returns a source whose ranges each have files of one split only.

    A chunk's split by files is that of its first file. Small files that are read together are
    ordered by split.
    """
    if not plan.patterns or source.ranges[0].members == (0, 0):
        return source
    splits = [_split_of_file(plan, file.path) for file in source.files]
    order = sorted(range(len(splits)), key=splits.__getitem__)
    ordered = tuple(source.files[position] for position in order)
    return dataclasses.replace(source, files=ordered, ranges=gather_ranges(ordered, sorted(splits)))


def _split_of_file(plan: SplitPlan, path: str) -> int:
    """Returns the split whose pattern matches a file's path.

    The pattern may match the last component only.
    """
    names = (path, path.replace("\\", "/").rsplit("/", 1)[-1])
    found = [
        index
        for index, pattern in enumerate(plan.patterns)
        if any(fnmatch.fnmatchcase(name, pattern) for name in names)
    ]
    if len(found) == 1:
        return found[0]
    patterns = ", ".join(
        f"'{name}' ({pattern})" for name, pattern in zip(plan.names, plan.patterns, strict=True)
    )
    if not found:
        raise DataError(
            f"{path}: the file matches no split, expected one of {patterns}. Add a split for it, "
            "or leave the file out of the source's 'path'."
        )
    matched = " and ".join(f"'{plan.names[index]}'" for index in found)
    raise DataError(
        f"{path}: the file matches splits {matched}, expected only one of {patterns}. Narrow the "
        "patterns."
    )


def split_chunk(
    plan: SplitPlan, chunk: chunk_types.Chunk, rejected: str = "", output: Output | None = None
) -> Iterator[chunk_types.Chunk | chunk_types.ChunkCounts]:
    """Yields a chunk's row counts, then its rows by split.

    Args:
      plan: from ``plan_split``.
      chunk: with its counts; the yielded chunks have none.
      rejected: file of its rejected rows, for the row counts.
      output: the recipe's, to shuffle the rows; ``None`` keeps their order.

    Yields:
      One ``ChunkCounts``; then a ``Chunk`` for each split with rows.
    """
    assignment = assign_split(plan, chunk)
    sampled = None
    if plan.sample is not None:
        sampled = split_sample.sample_rows(plan.sample, chunk, assignment, plan.names)
    counts = (
        chunk.counts if sampled is None else chunk_types.add_counts(chunk.counts, sampled.counts)
    )
    chosen = [_rows_of(index, assignment, sampled) for index in range(len(plan.names))]
    rows = [len(own) for own in chosen]
    yield chunk_types.ChunkCounts(
        chunk.range_number,
        chunk.part,
        counts,
        {name: count for name, count in zip(plan.names, rows, strict=True) if count},
        rejected,
        chunk.crc32c,
        chunk.path,
        chunk.pieces,
    )
    weight = None if plan.sample is None else plan.sample.weight
    batch = chunk.batch.select([name for name in plan.schema.names if name != weight])
    for name, picked in zip(plan.names, chosen, strict=True):
        if len(picked):
            order = None if output is None else chunk_order(output, name, chunk[:2], len(picked))
            is_whole = sampled is None and len(picked) == batch.num_rows and order is None
            taken = picked if order is None else picked[order]
            part = batch if is_whole else columns.take_rows(batch, taken)
            if sampled is not None:
                part = split_sample.with_weights(part, sampled, taken, weight)
            yield chunk_types.Chunk(
                chunk.range_number, chunk.part, part, {}, path=chunk.path, split=name
            )


def _rows_of(
    index: int, assignment: Assignment, sampled: split_sample.Sampled | None
) -> npt.NDArray[np.int64]:
    """Returns the rows of a split, as often as they are written."""
    rows = np.flatnonzero(assignment == index)
    return rows if sampled is None else np.repeat(rows, sampled.copies[rows])


def _tag_counts(
    chunk: chunk_types.Chunk, plan: SplitPlan, folder: str, output: Output | None
) -> Iterator[Any]:
    for result in split_chunk(plan, chunk, store_rejected(chunk, folder), output):
        if isinstance(result, chunk_types.ChunkCounts):
            metrics.count_chunk(result)
            yield beam.pvalue.TaggedOutput(CHUNK_COUNTS, result)
        else:
            yield result


@dataclasses.dataclass
class SplitChunks(beam.PTransform):
    """Divides chunks into their splits.

    Input: ``Chunk`` elements. Output: ``chunks``, the main output: a ``Chunk`` for each split with
    rows of an input chunk, with the split's name and without counts; and ``chunk_counts``: a
    ``ChunkCounts`` for each input chunk. Deterministic: a retry repeats the same elements.

    Attributes:
      plan: from ``plan_split``.
      rejected: folder for rejected rows, for this step only; empty if chunks have none.
      output: the recipe's, to shuffle the rows; ``None`` keeps their order.
    """

    plan: SplitPlan
    rejected: str = ""
    output: Output | None = None

    def expand(self, chunks: beam.PCollection[chunk_types.Chunk]) -> beam.pvalue.DoOutputsTuple:
        assign = beam.FlatMap(_tag_counts, self.plan, self.rejected, self.output)
        return chunks | "Assign" >> assign.with_outputs(CHUNK_COUNTS, main="chunks")
