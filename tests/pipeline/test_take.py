"""Runs on a part of the rows: ``--limit`` and ``--sample``."""

from __future__ import annotations

import gzip
import itertools
import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.pipeline.planning import plan_recipe
from beam_pipelines.pipeline.planning.take import plan_take
from beam_pipelines.sources import plan as source_plan
from beam_pipelines.transforms.read import read_chunks
from beam_pipelines.transforms.take import Take, take_chunks


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    """A table of 5,000 rows with quoted line ends."""
    path = tmp_path / "d.csv"
    path.write_text("id,text\n" + "".join(f'{n},"a\n{n}"\n' for n in range(5000)))
    return path


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(0, 100),
    st.sampled_from([None, 0.3, 0.9]),
)
def test_taken_and_left_out_are_all(sizes: list[int], last_rows: int, share: float | None) -> None:
    """The first rows of a range are taken, others are counted."""
    rows = np.arange(sum(sizes))
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    chunks = [
        Chunk(3, number, pa.record_batch({"x": part}), {"read": len(part)})
        for number, part in enumerate(parts)
    ]
    found = list(take_chunks(Take(limit=1, share=share, last_range=3, last_rows=last_rows), chunks))
    values = [value for chunk in found for value in chunk.batch.column("x").to_pylist()]
    first = rows[:last_rows].tolist()
    assert values == first if share is None else set(values) <= set(first)
    read = sum(chunk.counts["read"] for chunk in found)
    assert sum(chunk.counts["left_out"] for chunk in found) == read - len(values)
    # No chunk is read after the one with the last row.
    ends = np.cumsum(sizes)
    assert [chunk.part for chunk in found] == [
        part for part in range(len(sizes)) if part == 0 or ends[part - 1] < last_rows
    ]


# Ranges of 300 bytes are read one by one, so they have small limits only.
@pytest.mark.parametrize(
    ("limit", "range_bytes"),
    [
        *itertools.product([1, 7], [300]),
        *itertools.product([1, 7, 2500, 4999, 5000, 6000], [10_000, 1 << 24]),
    ],
)
def test_the_first_rows(limit, range_bytes, data, monkeypatch):
    """A limit takes the first rows, and reads no later range."""
    monkeypatch.setattr(source_plan.cut_ranges, "__defaults__", (range_bytes,))
    plan = plan_take(plan_recipe.plan(str(data)), limit, None)
    take = plan.take
    assert take is not None
    ids = [
        value
        for chunk in read_chunks(plan.base, reject=False)
        for part in take_chunks(take, [chunk])
        for value in part.batch.column("id").to_pylist()
    ]
    whole = range_bytes == 1 << 24
    assert ids[:limit] == list(range(min(limit, 5000)))
    assert whole or take.unread_bytes > 0 or limit > 2500


@pytest.mark.end_to_end
def test_a_part_of_the_rows_is_accounted_for(data, tmp_path, capsys):
    """The manifest and the summary count the rows left out."""
    out = tmp_path / "out"
    options = ["--split", "train=0.8,eval=0.2", "--direct_num_workers", "2"]
    taken = ["--limit", "1000", "--sample", "10%"]
    assert main_module.run(["convert", str(data), "-o", str(out), *taken, *options]) == 0
    assert "left out by --limit or --sample" in capsys.readouterr().out
    manifest = json.loads((out / "dataset.json").read_text())
    counts = manifest["counts"]
    assert counts["read"] == counts["written"] + counts["left_out"]
    assert 60 < counts["written"] < 140
    assert manifest["taken"] == {"limit": 1000, "sample": 0.1, "unread_bytes": 0}
    assert main_module.run(["verify", str(out)]) == 0
    assert main_module.run(["describe", str(data), *taken]) == 0
    assert f"{counts['left_out']:,} left out by" in capsys.readouterr().out
    again = tmp_path / "again"
    one = ["--split", "train=0.8,eval=0.2", "--direct_num_workers", "1"]
    assert main_module.run(["convert", str(data), "-q", "-o", str(again), *taken, *one]) == 0
    shards = [path.relative_to(out) for path in sorted(out.rglob("*.gz"))]
    assert [(out / path).read_bytes() for path in shards] == [
        (again / path).read_bytes() for path in shards
    ]


@pytest.mark.end_to_end
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_limit_ends_the_read(suffix: str, tmp_path: pathlib.Path) -> None:
    """Nothing is read after the last row's chunk."""
    path = tmp_path / f"long.{suffix}"
    text = "id\n" + "".join(f"{n}\n" for n in range(400_000))
    path.write_bytes(gzip.compress(text.encode()) if suffix == "csv.gz" else text.encode())
    out = tmp_path / "out"
    for limit, read in ((1000, 131_072), (150_000, 262_144), (500_000, 400_000)):
        options = ["--limit", str(limit), "-q", "--overwrite"]
        assert main_module.run(["convert", str(path), "-o", str(out), *options]) == 0
        counts = json.loads((out / "dataset.json").read_text())["counts"]
        assert (counts["read"], counts["written"]) == (read, min(limit, 400_000))
        assert counts["left_out"] == counts["read"] - counts["written"]
    assert main_module.run(["verify", str(out), "-q"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "100%"], "found '100%', expected a share above 0 and below 1"),
        (["--sample", "x"], "found 'x', expected a share"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_wrong_parts(options, message, data, capsys):
    """A share or number that makes no part is an error."""
    assert main_module.run(["convert", str(data), "--dry_run", *options]) == 2
    assert message in capsys.readouterr().err
