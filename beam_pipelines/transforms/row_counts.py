"""Counts of a run, in which no row is lost.

The rejected rows of a chunk are in a file, which keeps their number out of memory; its row counts
name the file. The commit concatenates the files by range; within a range it sorts by file and line,
because the reader and the expressions reject separately.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

import google_crc32c

from beam_pipelines.core.chunks import LEFT_OUT, Chunk, ChunkCounts, Rejected, add_counts
from beam_pipelines.core.errors import DataError, FindingsError, mask
from beam_pipelines.core.events import log_event
from beam_pipelines.core.limits import allowed_rows, show_budget
from beam_pipelines.joins.timed import quantiles_of_ages
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.storage import files

# Rejected rows of a source in its row counts, and in an error.
_KEPT_ROWS = 10
_SHOWN_ROWS = 5
_NUMBER = re.compile(r"[0-9]+$")
# Files of stored rows, range by range, in order of the ranges.
StoredRows = Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class SourceCounts:
    """Row counts of one source.

    Attributes:
      read: good rows.
      rejected: bad rows.
      fingerprints: file path -> fingerprint of its content.
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
      ages: ``median`` and ``p99`` of the seconds from the newest match to its left row, of a join
        with times that has matches.
    """

    matched: int
    unmatched: int
    dropped: int
    added: int
    null_keys: int
    ages: Mapping[str, float]


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
    chunk_counts: Sequence[ChunkCounts],
    joins: int,
    names: Sequence[str],
    partitions: int = 0,
) -> RowCounts:
    """Sums the row counts of the base source's chunks.

    Args:
      plan: the base source.
      chunk_counts: one for each chunk, in any order.
      joins: number of joins in the recipe.
      names: split names.
      partitions: of the grouping, whose ranges follow those of the source.

    Raises:
      DataError: a range, or a part of one, has no row counts, or has them twice.
    """
    ordered = sorted(chunk_counts, key=lambda counted: (counted.range_number, counted.part))
    _check_complete(plan, ordered, len(plan.ranges) + partitions)
    counts: dict[str, int] = {}
    rows = dict.fromkeys(names, 0)
    for counted in ordered:
        counts = add_counts(counts, counted.counts)
        rows = add_counts(rows, counted.rows)
    join_counts = tuple(
        JoinCounts(
            **{
                what: counts.get(f"{what}/{number}", 0)
                for what in ("matched", "unmatched", "dropped", "added", "null_keys")
            },
            ages=quantiles_of_ages(_counts_under(f"age/{number}/", counts)),
        )
        for number in range(joins)
    )
    filtered, merged = counts.get("filtered", 0), counts.get("merged", 0)
    return RowCounts(
        {plan.source.name: count_source(plan, ordered)},
        join_counts,
        filtered,
        rows,
        merged,
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


def count_source(plan: SourcePlan, chunk_counts: Sequence[ChunkCounts]) -> SourceCounts:
    """Sums the row counts of one source's chunks, in any order."""
    ordered = sorted(chunk_counts, key=lambda counted: (counted.range_number, counted.part))
    read = sum(counted.counts.get("read", 0) for counted in ordered)
    rejected = sum(counted.counts.get("rejected", 0) for counted in ordered)
    stored = tuple(
        tuple(counted.rejected for counted in of_range if counted.rejected)
        for _, of_range in itertools.groupby(ordered, lambda counted: counted.range_number)
    )
    stored = tuple(filter(None, stored))
    rows = itertools.chain.from_iterable(read_stored(stored, plan.places)) if stored else ()
    shown = tuple(itertools.islice(rows, _KEPT_ROWS))
    return SourceCounts(read, rejected, fingerprints(ordered), stored, shown)


def fingerprints(chunk_counts: Sequence[ChunkCounts]) -> dict[str, str]:
    """Returns file -> CRC-32C of the CRC-32Cs of its ranges.

    It depends on the file's content, not on its date.
    """
    found: dict[str, int] = {}
    for counted in chunk_counts:
        if counted.crc32c is not None:
            crc = found.get(counted.path, 0)
            found[counted.path] = google_crc32c.extend(crc, struct.pack("<I", counted.crc32c))
    return {path: f"crc32c:{crc:08x}" for path, crc in found.items()}


def _check_complete(plan: SourcePlan, ordered: Sequence[ChunkCounts], num_ranges: int) -> None:
    number, part = -1, 0
    for counted in ordered:
        address = (counted.range_number, counted.part)
        if address != (number + 1, 0) and (number < 0 or address != (number, part + 1)):
            break
        number, part = address
    else:
        if number == num_ranges - 1:
            return
    raise DataError(
        f"source '{plan.source.name}': {len(ordered)} chunks of {num_ranges} ranges arrived, and "
        "they are not all of "
        "them, each once. The runner lost or repeated some; nothing was written. Run again, and "
        "report it."
    )


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


def store_rejected(chunk: Chunk, folder: str) -> str:
    """Writes a chunk's rejected rows to a file named by its address.

    So a retry replaces the file.

    Returns:
      The file's path; ``""`` if there are none.
    """
    if not chunk.rejected:
        return ""
    path = files.join(folder, f"{chunk.range_number}_{chunk.part}")
    with files.replace(path) as file:
        file.write(to_json_lines(chunk.rejected))
    rows = len(chunk.rejected)
    log_event("rejected", file=chunk.path, range=chunk.range_number, rows=rows)
    return path


def to_json_lines(rows: Iterable[Rejected]) -> bytes:
    """Returns one JSON object a line."""
    # A file name that is not UTF-8 becomes an escape of JSON.
    lines = (
        json.dumps(row._asdict(), ensure_ascii=False).encode("utf-8", "backslashreplace")
        for row in rows
    )
    return b"".join(line + b"\n" for line in lines)


def read_stored(stored: StoredRows, places: Mapping[str, int]) -> Iterator[Sequence[Rejected]]:
    """Yields the rejected rows of each range that has any.

    They are sorted by file and position; rows of one position keep their order.

    Args:
      stored: files of the ranges.
      places: file -> its number in the source; a missing file has number 0.

    Raises:
      DataError: a file cannot be read.
    """
    for paths in stored:
        rows = [_row(path, line) for path in paths for line in files.read_bytes(path).splitlines()]
        if rows:
            yield sorted(rows, key=lambda row: (places.get(row.file, 0), _number(row.position)))


def write_rejected(path: str, stored: StoredRows, places: Mapping[str, int]) -> None:
    """Writes all rows to one file, one range in memory.

    Args:
      path: the file. If it exists and the stored files do not, an earlier attempt wrote it.
      stored, places: as in ``read_stored``.
    """
    if files.exists(path) and not files.exists(stored[0][0]):
        return
    with files.replace(path) as file:
        for rows in read_stored(stored, places):
            file.write(to_json_lines(row._replace(file=mask(row.file)) for row in rows))


def _row(path: str, line: bytes) -> Rejected:
    try:
        return Rejected(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: found {error}. A temporary file was changed during the run: run again."
        ) from error


def _number(position: str) -> int:
    """Returns 1002 of ``line 1002``; 0 if the file is the row."""
    found = _NUMBER.search(position)
    return int(found[0]) if found else 0
