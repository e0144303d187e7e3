"""Tests of what is said of key columns whose types differ."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beam_pipelines.core.arrow.columns import column_type
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.joins.index import build_index, find_matches
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join.plan import plan_join

DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
MIDNIGHTS = [datetime.datetime(2024, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001
TEN = [datetime.datetime(2024, 1, day, 10) for day in (1, 2, 3)]  # noqa: DTZ001
# Keys of both sides, and matches after the remedy; ``None``: there is none.
PAIRS: list[tuple[pa.Array, pa.Array, int | None]] = [
    (pa.array(["7", "8x"]), pa.array([7, 8]), 1),
    (pa.array(["1", "2.0"]), pa.array([1.0, 2.0]), 2),
    (pa.array([1, 0]), pa.array([True, False]), 2),
    (pa.array(["true", "x"]), pa.array([True, False]), 1),
    (pa.array(["a", "b"]), pa.array([b"a", b"b"]), 2),
    (pa.array(DAYS), pa.array(MIDNIGHTS, pa.timestamp("us")), 3),
    (pa.array(DAYS), pa.array(TEN, pa.timestamp("us")), 3),
    (pa.array(DAYS), pa.array(TEN, pa.timestamp("us", "UTC")), 3),
    (pa.array(DAYS), pa.array(["2024-01-01", "x"]), 1),
    (pa.array(["2024-01-01", "x"]), pa.array(MIDNIGHTS, pa.timestamp("us")), 1),
    (pa.array([1.5, 2.0], pa.float32()), pa.array([1.5, 2.0]), 2),
    (pa.array([1, 2]), pa.array([2.0, 2.5]), 1),
    (pa.array(MIDNIGHTS, pa.timestamp("us")), pa.array(MIDNIGHTS, pa.timestamp("us", "UTC")), 3),
    (pa.array([1, 2], pa.time64("us")), pa.array(["x", "y"]), None),
]


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(("left", "right", "matches"), PAIRS)
def test_a_remedy_joins_as_it_is_written(
    tmp_path: Path, left: pa.Array, right: pa.Array, matches: int | None, is_turned: bool
) -> None:
    """The line of the message makes types and values equal."""
    plans = {}
    for name, keys in zip("ab", (right, left) if is_turned else (left, right), strict=True):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"k": keys, name: range(len(keys))}), path)
        plans[name] = plan_source(Source(name, (str(path),)), "")
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    [problem] = caught.value.problems
    found = re.search(
        r"'derive: (\{k_key: .*\})' to (source 'b'|the source on the left)", problem.message
    )
    assert (found is None) is (matches is None)
    if found is None:
        assert "by 'derive' of source 'b', and join on it." in problem.message
        return
    derived: dict[str, Any] = yaml.safe_load(found[1])
    side = "b" if found[2] == "source 'b'" else "a"
    plans[side] = with_derived(plans[side], derived)
    on = ("k", "k_key") if side == "b" else ("k_key", "k")
    [step] = plan_join((Join("b", (on,), prefix="b_"),), plans["a"], plans).steps
    tables = [read.read_table(plans[each], reject=False)[0] for each in "ab"]
    index = build_index(tables[1], step.join, step.added)
    [batch] = tables[0].combine_chunks().to_batches()
    lows, highs = find_matches(batch, index, step.join)
    assert np.count_nonzero(highs > lows) == matches


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_zone_is_a_part_of_a_type(zone: str | None) -> None:
    """Any zone becomes UTC, and none stays none."""
    assert column_type(pa.timestamp("ms", zone)) == pa.timestamp("us", zone and "UTC")
