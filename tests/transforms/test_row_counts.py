"""transforms/row_counts.py finds every lost or repeated row, chunk and range."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, ChunkCounts, MergedCounts, Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.commit import check_written
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.sections import OnError
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.transforms.row_counts import BASE, count_base, merge_block, merge_blocks
from beam_pipelines.transforms.select.rejected_files import store_rejected
from beam_pipelines.transforms.write import ShardInfo

FILE = FileInfo("rows.csv", 100)
SOURCE = Source("rows", ("rows.csv",))
PLAN = SourcePlan(
    SOURCE,
    "csv",
    (FILE,),
    pa.schema([]),
    pa.schema([]),
    (ByteRange(0, 0, FILE, 0, 50), ByteRange(1, 1, FILE, 50, 100)),
)
JOIN = Join("other", (("key", "key"),))
RECIPE = Recipe("test", {"rows": SOURCE}, "rows", join=(JOIN,))


def counted(number: int, part: int = 0, rows: int = 10, **counts: int) -> ChunkCounts:
    """Returns the counts of a chunk with ``rows`` rows in train."""
    return ChunkCounts(
        number, part, {"read": 10, "rejected": 0, **counts}, {"train": rows}, "", number, "rows.csv"
    )


GOOD = [
    counted(1, 0, 8, filtered=4, **{"added/0": 2}),
    counted(0, 1, 7, **{"dropped/0": 3}),
    counted(0, 0),
]


def test_every_row_is_accounted_for() -> None:
    """Read and added rows are written, filtered or dropped."""
    row_counts = count_base(PLAN, MergedCounts.of(GOOD), 1, ("train", "eval"))
    row_counts.check(RECIPE)
    assert row_counts.rows == {"train": 25, "eval": 0}
    assert (row_counts.filtered, row_counts.joins[0].dropped, row_counts.joins[0].added) == (
        4,
        3,
        2,
    )
    assert row_counts.sources["rows"].fingerprints["rows.csv"].startswith("crc32c:")


def test_a_lost_row_fails_the_run() -> None:
    """One row fewer in a split does not add up."""
    lost = [*GOOD[:2], counted(0, 0, 9)]
    with pytest.raises(DataError, match="32 rows came in and 31 went out"):
        count_base(PLAN, MergedCounts.of(lost), 1, ("train",)).check(RECIPE)


@pytest.mark.parametrize(
    "chunk_counts",
    [
        GOOD[1:],
        GOOD[:1],
        [*GOOD, GOOD[0]],
        GOOD[:2],
        [counted(0), counted(0, 2), counted(1)],
        [counted(0, 1), counted(1)],
        [],
    ],
)
def test_a_lost_or_repeated_chunk_fails_the_run(chunk_counts: list[ChunkCounts]) -> None:
    """Every range has parts 0, 1, …, each once."""
    with pytest.raises(DataError, match="chunks of 2 ranges arrived"):
        count_base(PLAN, MergedCounts.of(chunk_counts), 1, ("train",))


@given(st.lists(st.integers(1, 3), max_size=9), st.randoms())
def test_merged_in_blocks_counts_are_those_of_all_chunks(
    tmp_path_factory: pytest.TempPathFactory, parts: list[int], random: random.Random
) -> None:
    """Neither blocks nor the order of arrival change what is merged."""
    folder = str(tmp_path_factory.mktemp("counts"))
    chunks = [
        counted(number, part, number, **{f"added/{part}": 1})._replace(
            crc32c=number if part else None, rejected="f" * part, pieces=("p",) * (part % 2)
        )
        for number, count in enumerate(parts)
        for part in range(count)
    ]
    blocks: dict[int, list[ChunkCounts]] = {}
    for chunk in random.sample(chunks, len(chunks)):
        blocks.setdefault(chunk.range_number // 2, []).append(chunk)
    stored = [merge_block((BASE, block), own, folder) for block, own in blocks.items()]
    merged = merge_blocks(stored).get(BASE, MergedCounts.of([]))
    whole = MergedCounts.of(chunks)
    for name in ("ranges", "parts", "counts", "rows", "rejected", "pieces"):
        np.testing.assert_equal(getattr(merged, name), getattr(whole, name))
    checksums = [[crc for _, own in each.crc32c for crc in own] for each in (merged, whole)]
    assert checksums[0] == checksums[1]


def test_too_many_rejected_rows_fail_with_examples(tmp_path: pathlib.Path) -> None:
    """Too many rejected rows fail with the first bad rows.

    The share is of the whole source.
    """
    bad = Rejected("rows", "rows.csv", "line 7", "age", "found 'x', expected an integer", "x,1")
    stored = store_rejected(Chunk(0, 0, pa.record_batch([]), {}, (bad,)), str(tmp_path))
    chunk_counts = [
        counted(0)._replace(counts={"read": 10, "rejected": 1}, rejected=stored),
        counted(1),
    ]
    row_counts = count_base(PLAN, MergedCounts.of(chunk_counts), 0, ("train",))
    row_counts.check(Recipe("test", {}, "rows", on_error=OnError(0.048)))
    with pytest.raises(
        DataError, match=r"1 of 21 rows are bad[^\n]*\n  rows.csv, line 7, column 'age': found 'x'"
    ):
        row_counts.check(Recipe("test", {}, "rows", on_error=OnError(0.047)))


@pytest.mark.parametrize("rows", [(13, 11), (25,), (25, 0, 0)])
def test_lost_records_and_shards_fail_the_run(rows: tuple[int, ...]) -> None:
    """The shards' rows must equal the row counts."""
    row_counts = count_base(PLAN, MergedCounts.of(GOOD), 1, ("train",))
    good = [
        ShardInfo("train", f"shard-{number}", count, 1, 1, 0)
        for number, count in enumerate((13, 12))
    ]
    check_written(row_counts, 2, good)
    shards = [
        ShardInfo("train", f"shard-{number}", count, 1, 1, 0) for number, count in enumerate(rows)
    ]
    with pytest.raises(DataError, match="was not committed"):
        check_written(row_counts, 2, shards)
    with pytest.raises(DataError, match="was not committed"):
        check_written(row_counts, 2, [good[0], good[0]._replace(rows=12)])
