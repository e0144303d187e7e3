"""Tests of splits by the row as it was read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.row_chain import split_rows
from beam_pipelines.transforms.join.join import load_index
from beam_pipelines.transforms.read import read_range
from tests.sources.support import write

LINES = ["id,price,city,none", "1,0.1,Köln,", '-7,,"a, ""b""",']
LINES += [f"{number},{number / 3},city {number % 5}," for number in range(60)]


def plan_in(folder: Path, recipe: str) -> Plan:
    """Plans a recipe whose paths begin in a folder."""
    parsed = parse_recipe(f"name: t\n{recipe}", "r.yaml")
    return make_plan(dataclasses.replace(parsed, directory=str(folder)))


def rows_of(folder: Path, recipe: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns each row of a recipe with its split, without Beam."""
    plan = plan_in(folder, recipe)
    rows = []
    for byte_range in plan.base.ranges:
        chunks = read_range(plan.base, byte_range, {}, reject=False)
        for chunk in split_rows(plan, chunks, lambda step, _: load_index(step, reject=False)):
            rows += [(chunk.split, row) for row in chunk.batch.to_pylist()]
    return rows


@pytest.mark.parametrize(
    "change",
    [
        "drop: [price]",
        "keep: [id, city]",
        "derive: {twice: id / 2}",
        "derive: {twice: id / 2}\ndrop: [price, city, none]\nfilter: id > 3",
    ],
)
def test_shares_are_those_of_the_row_as_read(tmp_path: Path, change: str) -> None:
    """Without 'by', transforms of a row do not change its split."""
    write(tmp_path / "t.csv", "\n".join(LINES) + "\n")
    source, split = "sources: {t: t.csv}", "split: {train: 0.5, eval: 0.5}"
    raw = {
        row["id"]: name for name, row in rows_of(tmp_path, f"{source}\n{split}") if row["id"] != 1
    }
    found = [(row["id"], name) for name, row in rows_of(tmp_path, f"{source}\n{split}\n{change}")]
    assert len(found) > 50
    assert set(raw.values()) == {"train", "eval"}
    for number, name in found:
        assert number == 1 or raw[number] == name
