"""Counts of a run, in which no row is lost.

They are merged in files of many chunks each, as 100 TB have those of millions of chunks.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import apache_beam as beam
import google_crc32c
import numpy as np

from beam_pipelines.core.chunks import LEFT_OUT, ChunkCounts, MergedCounts, Rejected
from beam_pipelines.core.errors import DataError, FindingsError
from beam_pipelines.core.limits import allowed_rows, show_budget
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.select.rejected_files import StoredRows, read_stored

# Rejected rows of a source in its row counts, and in an error.
_KEPT_ROWS = 10
_SHOWN_ROWS = 5
# Ranges whose row counts one worker merges; requests to an object store at once.
BLOCK = 4096
# Stands for the base source, which may be a right source, too.
BASE = ""
_THREADS = 16


@dataclasses.dataclass(frozen=True)
class SourceCounts:
    """Row counts of one source.

    Attributes:
      read: good rows.
      rejected: bad rows.
      fingerprints: file path -> CRC-32C of the CRC-32Cs of its ranges. It depends on the file's
        content, not on its date.
      stored: files of the rejected rows.
      rejected_rows: the first rejected rows, in order of the source.
    """

    read: int
    rejected: int
    fingerprints: Mapping[str, str]
    stored: StoredRows = ()
    rejected_rows: tuple[Rejected, ...] = ()


@dataclasses.dataclass(frozen=True)
class JoinCounts:
    """Row counts of one join.

    Attributes:
      matched, unmatched: left rows with and without a match, which are kept.
      dropped: left rows that are not kept: without a match, or of an anti join with one.
      added: rows that second and further matches add.
      null_keys: left rows without a match because a key or the time is null.
    """

    matched: int
    unmatched: int
    dropped: int
    added: int
    null_keys: int


@dataclasses.dataclass(frozen=True)
class RowCounts:
    """Row counts of one read.

    Attributes:
      sources: by name.
      joins: in the recipe's order.
      filtered: rows that the filter left out.
      filtered_first: those that it left out before the joins.
      rows: split -> its rows.
      merged: rows that became steps of another row's sequence.
      undone: rows that joins added to rejected rows.
      left_out: rows of the base source that ``Take`` left out.
      left_out_by: check -> rows that it left out.
      sampled_out, repeated: split -> rows that sampling left out, and that it added.
      classes: number of a class of the recipe's sample -> its rows before and after.
    """

    sources: Mapping[str, SourceCounts]
    joins: tuple[JoinCounts, ...]
    filtered: int
    rows: Mapping[str, int]
    merged: int = 0
    undone: int = 0
    left_out: int = 0
    left_out_by: Mapping[str, int] = dataclasses.field(default_factory=dict)
    sampled_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    repeated: Mapping[str, int] = dataclasses.field(default_factory=dict)
    classes: Mapping[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    filtered_first: int = 0

    @property
    def divided(self) -> dict[str, int]:
        """Split -> its rows before they were sampled."""
        return {
            name: count + self.sampled_out.get(name, 0) - self.repeated.get(name, 0)
            for name, count in self.rows.items()
        }

    @property
    def added(self) -> int:
        """Rows that joins added to rows that were kept."""
        return sum(join.added for join in self.joins) - self.undone

    def check(self, recipe: Recipe) -> None:
        """Checks that no row was lost or added, and few are bad.

        Raises:
          DataError: the sums differ, or a source has more rejected rows than the recipe allows.
        """
        for name, source in self.sources.items():
            _check_rejected(name, source, recipe.on_error.reject)
        gained = self.sources[recipe.base].read + self.added
        spent = (
            sum(self.divided.values())
            + self.filtered
            + self.merged
            + self.left_out
            + sum(self.left_out_by.values())
            + sum(join.dropped for join in self.joins)
        )
        if gained != spent:
            raise DataError(
                f"source '{recipe.base}': {gained:,} rows came in and {spent:,} went out (splits "
                f"{dict(self.rows)}, filtered "
                f"{self.filtered}, left out {self.left_out}, merged {self.merged}, by checks "
                f"{dict(self.left_out_by)}, sampled out {dict(self.sampled_out)}, repeated "
                f"{dict(self.repeated)}, joins "
                f"{self.joins}). Rows were lost or duplicated on the way, which the runner must "
                "never do; nothing was written. Run again, with --direct_num_workers=1 if it was a "
                "local run, and report it."
            )


def check_snapshots(plans: Mapping[str, SourcePlan], row_counts: RowCounts) -> None:
    """Checks that tables gave the rows that they count.

    Args:
      plans: of all sources, each read whole.
      row_counts: of the run.

    Raises:
      DataError: names the first source that did not.
    """
    for name, plan in plans.items():
        expected = None if plan.snapshot is None else plan.snapshot.rows
        source = row_counts.sources[name]
        found = source.read + source.rejected
        if plan.snapshot is not None and expected is not None and found != expected:
            raise DataError(
                f"source '{name}': found {found:,} rows, expected {expected:,} as the table counts "
                f"at snapshot {plan.snapshot.id}; nothing was written. Run again, and report it."
            )


def count_base(
    plan: SourcePlan,
    merged: MergedCounts,
    joins: int,
    names: Sequence[str],
    partitions: int = 0,
) -> RowCounts:
    """Returns the row counts of the base source.

    Args:
      plan: the base source.
      merged: counts of all its chunks.
      joins: number of joins in the recipe.
      names: split names.
      partitions: of the grouping, whose ranges follow those of the source.

    Raises:
      DataError: a range, or a part of one, has no row counts, or has them twice.
    """
    _check_complete(plan, merged, len(plan.ranges) + partitions)
    counts = merged.counts
    join_counts = tuple(
        JoinCounts(
            **{
                what: counts.get(f"{what}/{number}", 0)
                for what in ("matched", "unmatched", "dropped", "added", "null_keys")
            }
        )
        for number in range(joins)
    )
    return RowCounts(
        {plan.source.name: count_source(plan, merged)},
        join_counts,
        counts.get("filtered", 0),
        {name: int(merged.rows_of(name).sum()) for name in names},
        counts.get("merged", 0),
        counts.get("undone", 0),
        counts.get(LEFT_OUT, 0),
        _counts_under(f"{LEFT_OUT}/", counts),
        _counts_under("sampled_out/", counts),
        _counts_under("repeated/", counts),
        {
            int(number): (found, counts.get(f"class_kept/{number}", 0))
            for number, found in _counts_under("class_found/", counts).items()
        },
        counts.get("filtered_first", 0),
    )


def _counts_under(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {name[len(prefix) :]: count for name, count in counts.items() if name.startswith(prefix)}


def count_source(plan: SourcePlan, merged: MergedCounts) -> SourceCounts:
    """Returns the row counts of one source."""
    stored = tuple(
        tuple(path for _, path in of_range)
        for _, of_range in itertools.groupby(merged.rejected, operator.itemgetter(0))
    )
    rows = itertools.chain.from_iterable(read_stored(stored, plan.places)) if stored else ()
    shown = tuple(itertools.islice(rows, _KEPT_ROWS))
    read, rejected = merged.counts.get("read", 0), merged.counts.get("rejected", 0)
    found: dict[str, int] = {}
    for path, own in merged.crc32c:
        found[path] = google_crc32c.extend(found.get(path, 0), own.astype("<u4").tobytes())
    fingerprints = {path: f"crc32c:{crc:08x}" for path, crc in found.items()}
    return SourceCounts(read, rejected, fingerprints, stored, shown)


def _check_complete(plan: SourcePlan, merged: MergedCounts, num_ranges: int) -> None:
    ranges = np.diff(merged.ranges, prepend=-1, append=num_ranges)
    parts = np.concatenate([[0], merged.parts, [0]])
    if np.all(np.where(ranges == 0, np.diff(parts) == 1, (ranges == 1) & (parts[1:] == 0))):
        return
    raise DataError(
        f"source '{plan.source.name}': {len(merged.ranges)} chunks of {num_ranges} ranges "
        "arrived, and they are not all of them, each once. The runner lost or repeated some; "
        "nothing was written. Run again, and report it."
    )


# A source, and the number of some of its ranges.
Block = tuple[str, int]


@dataclasses.dataclass
class MergeCounts(beam.PTransform):
    """Merges the row counts of chunks in files, which ``merge_blocks`` merges.

    Input: ``(source, ChunkCounts)``. Output: ``(Block, RunFile)``.

    Attributes:
      folder: for the files, used by this step only.
    """

    folder: str

    def expand(
        self, counted: beam.PCollection[tuple[str, ChunkCounts]]
    ) -> beam.PCollection[tuple[Block, RunFile]]:
        return (
            counted
            | "ToBlocks" >> beam.MapTuple(lambda source, own: ((source, own[0] // BLOCK), own))
            | "Group" >> beam.GroupByKey()
            | "MergeBlock" >> beam.MapTuple(partial(merge_block, folder=self.folder))
        )


def merge_block(block: Block, counted: Iterable[ChunkCounts], folder: str) -> tuple[Block, RunFile]:
    """Stores the row counts of some ranges, and returns their address."""
    # A new file, as another attempt may read an earlier one.
    return block, RunFile.keep(MergedCounts.of(counted), files.join(folder, uuid.uuid4().hex))


def merge_blocks(blocks: Iterable[tuple[Block, RunFile]]) -> Mapping[str, MergedCounts]:
    """Returns the row counts of each source that has ranges.

    Args:
      blocks: from ``merge_block``, in any order.
    """
    with ThreadPoolExecutor(_THREADS) as executor:
        loaded = [*executor.map(lambda one: (one[0][0], one[1].load()), sorted(blocks))]
    groups = itertools.groupby(loaded, operator.itemgetter(0))
    return {source: MergedCounts.merged([own for _, own in group]) for source, group in groups}


def _check_rejected(name: str, source: SourceCounts, budget: float) -> None:
    total = source.read + source.rejected
    if source.rejected <= allowed_rows(budget, total):
        return
    shown = "".join(f"\n  {rejected.describe()}" for rejected in source.rejected_rows[:_SHOWN_ROWS])
    raise FindingsError(
        f"source '{name}': {source.rejected:,} of {total:,} rows are bad "
        f"({source.rejected / total:.2%}), more than "
        f"'on_error: {{reject: {show_budget(budget)}}}' allows. The first ones:{shown}"
    )
