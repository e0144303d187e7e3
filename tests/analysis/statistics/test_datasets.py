"""Accumulators on disk, and the statistics of several datasets merged from them."""

from __future__ import annotations

import contextlib
import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics, storage, to_proto
from beam_pipelines.analysis.statistics.datasets import (
    merge_datasets,
    read_accumulators,
    statistics_to_files,
)
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


def write(
    folder: pathlib.Path, splits: dict[str, pa.RecordBatch], plan: StatisticsPlan = PLAN
) -> str:
    """Writes the statistics of splits as a dataset has them."""
    statistics = {split: TableStatistics.of(batch, plan) for split, batch in splits.items()}
    for path, content in statistics_to_files(statistics, plan):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return str(folder)


@given(arrays(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
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


def test_merged_equals_computed_at_once(tmp_path: pathlib.Path) -> None:
    """Merged statistics equal those of all rows.

    This includes slices and splits that some datasets lack.
    """
    batches = [batch_of(seed) for seed in range(3)]
    folders = [
        write(tmp_path / "a", {"train": batches[0], "eval": batches[1].slice(0, 50)}),
        write(tmp_path / "b", {"train": batches[1]}),
        write(tmp_path / "c", {"train": batches[2]}),
    ]
    merged = merge_datasets(folders, str(tmp_path / "out"))
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    expected = to_proto({"train": TableStatistics.of(whole, PLAN)})["train"]
    found = to_proto(merged)["train"]
    for proto in (expected, found):  # the mean of floats may differ by rounding
        for dataset in proto.datasets:
            numbers = dataset.features[1].num_stats
            numbers.mean, numbers.std_dev = round(numbers.mean, 12), round(numbers.std_dev, 12)
    assert found == expected
    assert list(merged) == ["train", "eval"]
    written = (tmp_path / "out" / "statistics" / "Split-train" / "FeatureStats.pb").read_bytes()
    assert written == to_proto(merged)["train"].SerializeToString(deterministic=True)
    again = read_accumulators(str(tmp_path / "out"))
    assert again.splits["train"].rows == 600
    assert again.plan == PLAN


def test_weights_merge(tmp_path: pathlib.Path) -> None:
    """Weights of datasets add up; whole ones without any rounding."""
    plan = StatisticsPlan(weight="w")
    batches = [batch_of(seed) for seed in (1, 2)]
    folders = [write(tmp_path / str(i), {"train": batch}, plan) for i, batch in enumerate(batches)]
    merged = merge_datasets(folders, str(tmp_path / "out"))["train"]
    whole = TableStatistics.of(
        pa.Table.from_batches(batches).combine_chunks().to_batches()[0], plan
    )
    assert merged.weight == whole.weight
    assert merged.columns["l"].weighted == whole.columns["l"].weighted
    assert merged.columns["t"].values.weighted.top(3) == whole.columns["t"].values.weighted.top(3)
    assert merged.columns["n"].values.weighted.mean == pytest.approx(
        whole.columns["n"].values.weighted.mean
    )


@pytest.mark.parametrize(
    ("changed", "plan", "message"),
    [
        (batch_of(2).rename_columns(list("nxtblwy")), PLAN, "column 'big': found no such column, expected type text as in"),
        (batch_of(2).set_column(1, "x", pa.array(["a"] * 200)), PLAN, "column 'x': found type text, expected type float64 as in"),
        (batch_of(2), StatisticsPlan("w"),
         "found weight w; no slices; no categorical integers, expected no weight; slices by t; categorical n as in"),
    ],
    ids=["columns", "types", "plan"],
)  # fmt: skip
def test_what_does_not_go_together(changed, plan, message, tmp_path):
    """Different columns, types or plans are an error with both names."""
    first = write(tmp_path / "a", {"train": batch_of(1)})
    other = write(tmp_path / "b", {"train": changed}, plan)
    with pytest.raises(DataError, match=message) as error:
        merge_datasets([first, other], str(tmp_path / "out"))
    assert first in str(error.value)
    assert other in str(error.value)
    assert not (tmp_path / "out").exists()


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


def test_the_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``statistics merge`` writes proto and accumulators.

    It explains missing or taken folders.
    """
    first = write(tmp_path / "a", {"train": batch_of(1)})
    other = write(tmp_path / "b", {"train": batch_of(2)})
    out = str(tmp_path / "out")
    assert main_module.run(["statistics", "merge", first, other, "--output", out]) == 0
    assert "train: 400 rows, 7 columns" in capsys.readouterr().out
    assert main_module.run(["statistics", "merge", first, other, "--output", out]) == 2
    assert "there are statistics already" in capsys.readouterr().err
    assert (
        main_module.run(
            ["statistics", "merge", first, str(tmp_path), "--output", str(tmp_path / "new")]
        )
        == 2
    )
    assert f"{tmp_path}: found no statistics" in capsys.readouterr().err
    assert main_module.run(["statistics", "merge", first, "--output", str(tmp_path / "new")]) == 2
    assert "expected at least two" in capsys.readouterr().err


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
    merged = merge_datasets(
        [str(tmp_path / "first"), str(tmp_path / "second")], str(tmp_path / "merged")
    )["train"]
    whole = read_accumulators(str(tmp_path / "whole")).splits["train"]
    assert (merged.rows, merged.weight) == (whole.rows, whole.weight) == (60, 174.0)
    assert merged.slices.keys() == whole.slices.keys()
    for name, column in whole.columns.items():
        assert merged.columns[name].values.top(9) == column.values.top(9) if name == "t" else True
        assert merged.columns[name].weighted == column.weighted
