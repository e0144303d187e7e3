"""transforms/shuffle.py and deal.py deal every row to one place, evenly."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import pathlib
import tempfile
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms import deal, exchange, merged_files, shuffle, write
from beam_pipelines.transforms.deal import DealtShard
from beam_pipelines.transforms.exchange import Sent
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    Offsets,
    ShardPlan,
    SplitShards,
    save_shard_plan,
)
from beam_pipelines.transforms.spill import SpilledChunk, spill_chunk

SCHEMA = pa.schema({"row": pa.binary()})
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=6)
By = Literal["files", "merges"]


def plan_of(sizes: list[int], num_shards: int, partitions: int) -> ShardPlan:
    """Plans the shards of one split."""
    ends, numbers = np.cumsum(sizes, dtype=np.int64), np.arange(len(sizes))
    offsets = Offsets(numbers, 0 * numbers, ends - np.array(sizes))
    return ShardPlan(
        {"train": SplitShards("train", sum(sizes), num_shards, partitions, 0, 4096, offsets)}
    )


def chunks_of(plan: ShardPlan, sizes: list[int], output: Output) -> list[Chunk]:
    """Makes shuffled chunks of numbered rows."""
    chunks = []
    for number, size in enumerate(sizes):
        start = plan.splits["train"].offsets[number, 0]
        batch = pa.RecordBatch.from_pydict(
            {"row": [str(row).encode() for row in range(start, start + size)]}, SCHEMA
        )
        chunks.append(shuffle.shuffle_chunk(Chunk(number, 0, batch, {}, split="train"), output))
    return chunks


def partitions_by_files(
    plan: ShardPlan, spilled: list[SpilledChunk], output: Output, shard: int, folder: str
) -> list[pa.RecordBatch | None]:
    """Returns the rows of a shard's partitions from spilled chunks."""
    loaded = loaded_plan(plan, folder)
    dealt = [item for chunk in spilled for item in deal.to_shards(chunk, output, loaded)]
    own = tuple(chunk for number, chunk in dealt if number == shard)
    schema, placed = deal.place_shard(DealtShard(shard, own), plan, output, folder)
    return [deal.load_rows(schema, rows)[0] if rows else None for rows in placed]


def merged_places(
    plan: ShardPlan, spilled: list[SpilledChunk], output: Output, folder: str
) -> dict[tuple[int, int], list[Sent]]:
    """Returns where the merged rows of each shard and partition are."""
    loaded, bins = loaded_plan(plan, folder), collections.defaultdict(list)
    for chunk in spilled:
        for bin_, dealt in deal.to_bins(chunk, output, loaded):
            bins[bin_].append(dealt)
    places = collections.defaultdict(list)
    for bin_, chunks in bins.items():
        for _, some in merged_files.cut(bin_, [chunks[::-1]]):
            message = deal.merge_rows(bin_, some, loaded, output, folder)
            for place, sent in exchange.store_message(message, merged_in(folder)):
                places[place].append(sent)
    return places


def partitions_by_merges(
    plan: ShardPlan, spilled: list[SpilledChunk], output: Output, shard: int, folder: str
) -> list[pa.RecordBatch | None]:
    """Returns the rows of a shard's partitions from merged files."""
    places = merged_places(plan, spilled, output, folder)
    return [
        deal.load_merged(sorted(places[shard, partition]), merged_in(folder))[0]
        if (shard, partition) in places
        else None
        for partition in range(plan.splits["train"].partitions_per_shard)
    ]


def loaded_plan(plan: ShardPlan, folder: str) -> LoadedShardPlan:
    """Returns a plan as workers load it."""
    return LoadedShardPlan(save_shard_plan(plan, os.path.join(folder, "plan")))


def merged_in(folder: str) -> str:
    """Returns the folder of merged files."""
    return os.path.join(folder, "merged")


BY: dict[By, Any] = {"files": partitions_by_files, "merges": partitions_by_merges}


def deal_rows(
    sizes: list[int], num_shards: int, partitions: int, output: Output, by: By = "files"
) -> list[list[bytes]]:
    """Deals chunks of given sizes, and returns the shards as positions."""
    plan = plan_of(sizes, num_shards, partitions)
    chunks = [chunk for chunk in chunks_of(plan, sizes, output) if chunk.batch.num_rows]
    shards = []
    with tempfile.TemporaryDirectory() as folder:
        spilled = [spill_chunk(chunk, folder) for chunk in chunks]
        for shard in range(num_shards):
            found = BY[by](plan, spilled, output, shard, folder)
            written: list[bytes] = []
            for partition, batch in enumerate(found):
                records = np.array(batch["row"] if batch else [], object)
                order = shuffle.written_order(output, shard, partition, len(records))
                written += list(records if order is None else records[order])
            shards.append(written)
    return shards


@given(SIZES, st.integers(1, 5), st.integers(1, 3), st.booleans(), st.integers(0, 9))
def test_every_row_once_and_evenly(
    sizes: list[int], num_shards: int, partitions: int, by_seed: bool, seed: int
) -> None:
    """Merged or not, each row is in the same shard.

    Shards differ by one row at most.
    """
    output = Output(shuffle=by_seed, shuffle_seed=seed)
    shards = deal_rows(sizes, num_shards, partitions, output)
    for bin_size, most_bytes in ((2, 1), (4, 300), (64, 1 << 20)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deal, "BIN", bin_size)
            patch.setattr(merged_files, "MERGED_BYTES", most_bytes)
            assert shards == deal_rows(sizes, num_shards, partitions, output, "merges")
    rows = [int(record) for shard in shards for record in shard]
    assert sorted(rows) == list(range(sum(sizes)))
    lengths = [len(shard) for shard in shards]
    assert max(lengths) - min(lengths) <= 1


@given(SIZES, st.integers(1, 9), st.integers(1, 4), st.booleans(), st.integers(1, 4))
def test_places_are_those_of_single_cards(
    sizes: list[int], num_shards: int, partitions: int, by_seed: bool, most: int
) -> None:
    """A chunk's rows get the places of their positions."""
    shards = plan_of(sizes, num_shards, partitions).splits["train"]
    output, count = Output(shuffle=by_seed), num_shards * partitions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "MOST_PLACES", most)
        pack = shuffle.pack_rows(shards.rows, count, len(shards.offsets))
        for number, rows in enumerate(sizes):
            first = shards.offsets[number, 0]
            places = [
                position // pack % count
                if by_seed
                else ((position + 1) * count - 1) // max(shards.rows, 1)
                for position in range(first, first + rows)
            ]
            found = collections.Counter(sorted(places))
            starts = itertools.accumulate(found.values(), initial=0)
            expected = [(*own, start) for own, start in zip(found.items(), starts, strict=False)]
            for among in (None, np.arange(count // 2, count)):
                dealt = shuffle.deal(shards, output, first, rows, among)
                assert [*zip(*(dealt[each].tolist() for each in (0, 2, 1)), strict=True)] == [
                    each for each in expected if among is None or each[0] in among
                ]


def test_many_shards_get_rows_of_few_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk goes to few of many places, and shards stay even.

    With more places than a limit, rows are dealt in packs.
    """
    monkeypatch.setattr(shuffle, "MOST_PLACES", 16)
    shards = deal_rows([640] * 100, 20, 2, Output())
    assert sorted(int(record) for shard in shards for record in shard) == list(range(64_000))
    assert [len(shard) for shard in shards] == pytest.approx([3200] * 20, rel=0.03)
    split = plan_of([640] * 100, 20, 2).splits["train"]
    assert 16 <= len(shuffle.deal(split, Output(), 7 * 640, 640)[0]) <= 17


@pytest.mark.parametrize(("rows", "num_shards"), [(1000, 600), (100, 1000), (0, 300)])
def test_very_many_small_shards_are_even(rows: int, num_shards: int) -> None:
    """A given number of shards differ by one row.

    This holds for any number of rows.
    """
    lengths = [len(shard) for shard in deal_rows([rows], num_shards, 1, Output())]
    assert max(lengths) - min(lengths) <= 1


@given(SIZES, st.integers(1, 5), st.integers(1, 3))
def test_without_shuffle_shards_follow_the_source(
    sizes: list[int], num_shards: int, partitions: int
) -> None:
    """Shard after shard, the rows are in source order."""
    shards = deal_rows(sizes, num_shards, partitions, Output(shuffle=False))
    assert [int(record) for shard in shards for record in shard] == list(range(sum(sizes)))


def test_seed_decides_the_order() -> None:
    """The same seed gives the same order, another seed another."""
    first = deal_rows([1000], 3, 2, Output(shuffle_seed=1))
    assert first == deal_rows([1000], 3, 2, Output(shuffle_seed=1))
    assert first != deal_rows([1000], 3, 2, Output(shuffle_seed=2))


def test_shuffle_is_global_and_looks_random() -> None:
    """A row's output place hardly depends on its source place."""
    shards = deal_rows([20_000, 20_000, 10_000], 4, 2, Output())
    places = np.array([int(record) for shard in shards for record in shard])
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.02
    neighbours = np.mean(np.abs(np.diff(places)) == 1)
    assert neighbours < 0.001
    for shard in shards:  # every shard has its share of every third of the source
        thirds = np.bincount(np.array(shard).astype(int) * 3 // 50_000, minlength=3) / len(shard)
        assert thirds == pytest.approx([1 / 3] * 3, abs=0.02)


@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
def test_a_damaged_file_is_an_error(tmp_path: pathlib.Path, keep: float) -> None:
    """A temporary file that was cut during the run is named."""
    output, sizes = Output(shuffle=False), [20_000]
    plan = plan_of(sizes, 2, 3)
    (chunk,) = chunks_of(plan, sizes, output)
    spilled = spill_chunk(chunk, str(tmp_path))
    file = pathlib.Path(spilled.file)
    data = file.read_bytes()
    file.write_bytes(data[: int(keep * len(data)) if 0 < keep < 1 else int(keep)])
    for partitions_by in BY.values():
        with pytest.raises(DataError, match=r"0_0_0_train: found .*run again"):
            partitions_by(plan, [spilled], output, 1, str(tmp_path))


@pytest.mark.parametrize("keep", [0, 200])
def test_a_damaged_merged_file_is_an_error(tmp_path: pathlib.Path, keep: int) -> None:
    """A merged file that was cut during the run is named."""
    output, sizes, folder = Output(), [20_000], str(tmp_path)
    plan = plan_of(sizes, 2, 3)
    spilled = [spill_chunk(chunk, folder) for chunk in chunks_of(plan, sizes, output)]
    places = merged_places(plan, spilled, output, folder)
    (file,) = pathlib.Path(merged_in(folder)).iterdir()
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"merged/0_0_0_\w+: found .*run again"):
        deal.load_merged(places[1, 2], merged_in(folder))


def test_finished_shards_get_no_rows(tmp_path: pathlib.Path) -> None:
    """Rows of shards that an earlier run finished are not merged."""
    output, sizes, folder = Output(), [400, 300], str(tmp_path)
    plan = dataclasses.replace(plan_of(sizes, 3, 2), finished=frozenset({0, 2}))
    spilled = [spill_chunk(chunk, folder) for chunk in chunks_of(plan, sizes, output)]
    assert {shard for shard, _ in merged_places(plan, spilled, output, folder)} == {1}
    loaded = loaded_plan(plan, folder)
    dealt = {number for chunk in spilled for number, _ in deal.to_shards(chunk, output, loaded)}
    assert dealt == {1}


def test_the_error_of_an_encoding_names_the_file_of_its_row(tmp_path: pathlib.Path) -> None:
    """A partition has rows of many files; the error names one."""
    from beam_pipelines.encodings.apply import BatchEncoder
    from beam_pipelines.encodings.planner import plan_encode
    from tests.encodings.test_apply import cast, recipe

    columns = pa.schema({"x": pa.string()})
    encode = plan_encode(recipe(encode={"x": cast("int64")}), columns)
    plan, output = plan_of([3, 3], 1, 1), Output(shuffle=False)
    spilled = [
        spill_chunk(
            Chunk(
                number,
                0,
                pa.RecordBatch.from_pydict({"x": cells}, columns),
                {},
                path=f"{number}.csv",
                split="train",
            ),
            str(tmp_path),
        )
        for number, cells in enumerate((["1", "2", "3"], ["4", "five", "6"]))
    ]
    folder = str(tmp_path)
    dealt = tuple(
        chunk for s in spilled for _, chunk in deal.to_shards(s, output, loaded_plan(plan, folder))
    )
    schema, (placed,) = deal.place_shard(DealtShard(0, dealt), plan, output, folder)
    places = merged_places(plan, spilled, output, folder)
    for rows in (deal.load_rows(schema, placed), deal.load_merged(places[0, 0], merged_in(folder))):
        with pytest.raises(DataError, match=r"^1\.csv, feature 'x': found 'five'"):
            write.encode_rows(BatchEncoder(encode), rows)
