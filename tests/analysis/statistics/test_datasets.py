"""Accumulators on disk."""

from __future__ import annotations

import contextlib
import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics, storage, to_proto
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError
from tests.analysis.statistics.support import arrays

PLAN = StatisticsPlan(slice_by=("t",), categorical=("n",))


def batch_of(seed: int, rows: int = 200) -> pa.RecordBatch:
    """A batch with a column of each kind."""
    generator = np.random.default_rng(seed)
    lists = [generator.integers(0, 9, generator.integers(0, 4)).tolist() for _ in range(rows)]
    return pa.record_batch(
        {
            "n": pa.array(generator.integers(0, 5, rows), mask=generator.random(rows) < 0.1),
            "x": generator.normal(size=rows),
            "t": generator.choice(["a", "b", "c"], rows),
            "b": pa.array([bytes(items) for items in lists]),
            "l": pa.array(lists, pa.list_(pa.int64())),
            "w": generator.integers(0, 4, rows),
            "big": pa.array([f"{generator.integers(0, 2**40)}" for _ in range(rows)]),
        }
    )


@given(arrays(), st.booleans(), st.booleans())
def test_what_was_written_is_read(array: pa.Array, is_weighted: bool, is_sliced: bool) -> None:
    """Statistics of any column survive a file.

    The proto is the same, and so are the bytes of a rewritten file.
    """
    batch = pa.record_batch(
        {"x": array, "w": np.arange(len(array)) / 3, "s": np.arange(len(array)) % 2}
    )
    plan = StatisticsPlan("w" if is_weighted else None, ("s",) if is_sliced else (), ("s",))
    table = TableStatistics.of(batch, plan)
    data = to_bytes(table, plan)
    found, found_plan = from_bytes(data, "there")
    assert found_plan == plan
    assert to_bytes(found, plan) == data
    pair = to_proto({"a": table, "b": found})
    assert pair["a"].SerializeToString(deterministic=True) == pair["b"].SerializeToString(
        deterministic=True
    )


def test_sketched_statistics_come_back() -> None:
    """Sketches are stored too, and can be merged further."""
    generator = np.random.default_rng(1)
    columns = {
        "x": generator.normal(size=70_000),
        "t": generator.integers(0, 2**60, 300_000)[:300_000],
    }
    batch = pa.record_batch({"x": np.resize(columns["x"], 300_000), "t": columns["t"].astype(str)})
    table = TableStatistics.of(batch)
    found, _ = from_bytes(to_bytes(table, StatisticsPlan()), "there")
    assert not found.columns["x"].values.exact
    assert not found.columns["t"].values.exact
    assert (
        TableStatistics.merged([found, table]).columns["t"].values.distinct
        == table.columns["t"].values.distinct
    )
    assert (
        found.columns["x"].values.distribution.error == table.columns["x"].values.distribution.error
    )


def test_damaged_accumulators() -> None:
    """A truncated, damaged or foreign file is an error that names it.

    A change in padding goes unseen.
    """
    good = to_bytes(TableStatistics.of(batch_of(1), PLAN), PLAN)
    expected = to_proto({"a": from_bytes(good, "x")[0]})
    places = np.random.default_rng(3).integers(0, len(good), 200)
    flipped = [good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :] for place in places]
    found = 0
    for data in [good[: len(good) // 2], b"", b"no arrow file at all", *flipped]:
        with contextlib.suppress(DataError):
            assert to_proto({"a": from_bytes(data, "acc.arrow")[0]}) == expected
            continue
        found += 1
        with pytest.raises(DataError, match=r"^acc\.arrow: found "):
            from_bytes(data, "acc.arrow")
    assert found > 100


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later format is an error with the expected version."""
    with monkeypatch.context() as later:
        later.setattr(storage, "FORMAT_VERSION", 2)
        data = to_bytes(TableStatistics.of(batch_of(1), PLAN), PLAN)
    with pytest.raises(DataError, match=r"acc\.arrow: found format version 2, expected 1"):
        from_bytes(data, "acc.arrow")


def test_plans_of_older_versions() -> None:
    """Counts of sparse features are left out, a sample is refused."""
    reader = pa.ipc.open_file(to_bytes(TableStatistics.of(batch_of(1), PLAN), PLAN))
    metadata, rows = reader.schema.metadata, reader.read_all()

    def with_plan(**more: object) -> bytes:
        sink = pa.BufferOutputStream()
        changed = {**metadata, b"plan": json.dumps(json.loads(metadata[b"plan"]) | more)}
        with pa.ipc.new_file(sink, reader.schema.with_metadata(changed)) as writer:
            writer.write_table(rows)
        return bytes(sink.getvalue())

    assert from_bytes(with_plan(composites=[["s", "v", ["i"], False]]), "old.arrow")[1] == PLAN
    with pytest.raises(DataError, match=r"old\.arrow: found .* a sample of the rows.* again"):
        from_bytes(with_plan(sample=0.1), "old.arrow")


def test_a_run_stores_what_merges(tmp_path: pathlib.Path) -> None:
    """``describe`` on two halves, merged, equals the whole, with weights and slices."""
    rows = [f"{i},{i % 7},{'abc'[i % 3]}" for i in range(60)]
    parts = {"whole": rows, "first": rows[:25], "second": rows[25:]}
    for name, lines in parts.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,w,t", *lines]) + "\n")
        recipe = {
            "name": "d",
            "sources": {"d": f"{name}.csv"},
            "statistics": {"weight": "w", "slice_by": "t"},
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(recipe))
        assert (
            main_module.run(
                [
                    "describe",
                    str(tmp_path / f"{name}.yaml"),
                    "--output",
                    str(tmp_path / name),
                    "--quiet",
                ]
            )
            == 0
        )
    first, second, whole = (
        read_statistics(str(tmp_path / name))["train"] for name in ("first", "second", "whole")
    )
    merged = TableStatistics.merged([first, second])
    assert (merged.rows, merged.weight) == (whole.rows, whole.weight) == (60, 174.0)
    assert merged.slices.keys() == whole.slices.keys()
    for name, column in whole.columns.items():
        assert merged.columns[name].values.top(9) == column.values.top(9) if name == "t" else True
        assert merged.columns[name].weighted == column.weighted
