"""transforms/shards.py plans shards of the asked size, and their rows."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import ChunkCounts, MergedCounts
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms import shards


@given(st.floats(1, 1e15), st.integers(1024, 1 << 40))
def test_shards_are_near_the_target_size(split_bytes: float, shard_size: int) -> None:
    """Shards are within 20 % of the target size; 50,000 are larger."""
    count = shards.count_shards(Output(shard_size=shard_size), split_bytes)
    size = split_bytes / count
    if count == 50_000:
        assert size > 0.99 * shard_size
    elif count > 1:
        assert 0.8 - 1e-9 <= size / shard_size <= 1.2 + 1e-9
    else:
        assert size < 1.6 * shard_size


@given(st.floats(1, 1e15), st.integers(1024, 1 << 24))
def test_parts_grow_with_a_split(framed_bytes: float, part_size: int) -> None:
    """A split has at most 2**24 parts, which are not too large."""
    found = shards.fit_part_size(Output(part_size=part_size), framed_bytes)
    assert found == part_size or framed_bytes / found > 1 << 23
    assert framed_bytes / found <= 1 << 24


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (Output(num_shards=7), 7),
        (Output(num_shards=7, shards_multiple_of=4), 8),
        (Output(shard_size=10 * MIB), 10),
        (Output(shard_size=10 * MIB, shards_multiple_of=8), 16),
        (Output(shard_size=1000 * MIB, shards_multiple_of=8), 8),
    ],
)
def test_number_and_multiple(output: Output, expected: int) -> None:
    """A number is kept, and a multiple rounds up."""
    assert shards.count_shards(output, 100 * MIB) == expected


def test_offsets_follow_addresses_not_arrival() -> None:
    """A chunk's offset is the number of rows before it.

    These are the rows of its split in all chunks with a smaller address.
    """
    chunk_counts = [
        ChunkCounts(1, 0, {}, {"train": 5}),
        ChunkCounts(0, 1, {}, {"eval": 2}),
        ChunkCounts(0, 0, {}, {"train": 3, "eval": 1}),
    ]
    sizes = {"train": 100.0, "eval": 100.0}
    merged = MergedCounts.of(chunk_counts)
    plan = shards.plan_shards(Output(num_shards=2), ("train", "eval"), merged, sizes, sizes)
    assert plan.splits["train"].offsets == {(0, 0): 0, (0, 1): 3, (1, 0): 3}
    assert plan.splits["eval"].offsets == {(0, 0): 0, (0, 1): 1, (1, 0): 3}
    assert (plan.splits["train"].rows, plan.splits["eval"].rows) == (8, 3)
    assert [plan.locate(number)[0].name for number in range(plan.num_shards)] == [
        "train",
        "train",
        "eval",
        "eval",
    ]
    assert plan.locate(3)[1] == 1


def test_large_shards_are_cut_into_partitions() -> None:
    """Memory of a writer is bounded by partitions of some 64 MiB."""
    framed, nothing = {"train": 10.0 * shards.PARTITION_BYTES}, MergedCounts.of([])
    plan = shards.plan_shards(Output(num_shards=1), ("train",), nothing, {"train": 1.0}, framed)
    assert plan.splits["train"].partitions_per_shard == 10


def test_path() -> None:
    """Shards are named as TensorFlow names them."""
    assert (
        shards.shard_path("flights", "eval", 3, 12, "gzip")
        == "examples/Split-eval/flights-00003-of-00012.tfrecord.gz"
    )


LARGE = st.integers(0, 2**50)


@given(
    st.sets(st.text(min_size=1, max_size=5), min_size=1, max_size=4),
    st.dictionaries(st.tuples(LARGE, LARGE), LARGE, max_size=6),
    st.sets(st.integers(0, 9), max_size=4),
)
def test_a_stored_plan_is_the_plan(tmp_path_factory, names, rows, finished):
    """The file keeps plans without chunks, large addresses and finished shards."""
    addresses = sorted(rows)
    ranges, parts = np.array(addresses, np.int64).reshape(-1, 2).T.copy()
    offsets = {
        name: shards.Offsets(
            ranges, parts, number + np.array([rows[each] for each in addresses], np.int64)
        )
        for number, name in enumerate(sorted(names))
    }
    splits = {
        name: shards.SplitShards(name, number, number + 1, 2, 3 * number, 4096, own)
        for number, (name, own) in enumerate(offsets.items())
    }
    plan = shards.ShardPlan(splits, frozenset(finished))
    path = shards.save_shard_plan(plan, str(tmp_path_factory.mktemp("plan") / "shard_plan"))
    assert shards.load_shard_plan(path) == plan
    assert shards.LoadedShardPlan(path).get() == plan
    for number, split in enumerate(plan.splits.values()):
        assert {**split.offsets} == {address: number + own for address, own in rows.items()}
        assert (0, 2**51) not in split.offsets


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, "ctr-00000-of-00001.tfrecord.gz"),
        ("{split}_ctr_{date}", "train_ctr_2026-11-21-00000-of-00001.tfrecord.gz"),
        ("{date:%Y%m%d}.{split}", "20261121.train-00000-of-00001.tfrecord.gz"),
    ],
)
def test_shards_are_named_by_a_template(template: str | None, expected: str) -> None:
    """Split and date stand for themselves; number and suffix follow."""
    name = shards.shard_name(template or "ctr", datetime.date(2026, 11, 21))
    path = shards.shard_path(name, "train", 0, 1, "gzip")
    assert path == f"examples/Split-train/{expected}"
    assert shards.shard_number(path) == 0


def test_a_name_with_a_date_needs_one() -> None:
    """A template with a date is an error without ``--date``."""
    with pytest.raises(RecipeProblems, match=r"found a date in 'x_\{date\}'"):
        shards.shard_name("x_{date}", None)
