"""Dates and times that Python has not, in all commands."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.cli import main as main_module

pytestmark = pytest.mark.end_to_end

ROWS = 40
DAY = 86_400_000_000


def far_table(folder: pathlib.Path) -> str:
    """The path of a Parquet file with far dates."""
    days = pa.array([-719_200 - n for n in range(ROWS // 2)] * 2, pa.int32()).cast(pa.date32())
    times = pa.array([(2_932_897 + n) * DAY for n in range(ROWS)], pa.int64())
    table = pa.table(
        {
            "id": range(ROWS),
            "day": days,
            "moment": times.cast(pa.timestamp("us")),
            "clock": pa.array([DAY] * ROWS, pa.int64()).cast(pa.time64("us")),
            "seen": pa.ListArray.from_arrays(range(ROWS + 1), times).cast(
                pa.list_(pa.timestamp("us"))
            ),
        }
    )
    path = str(folder / "far.parquet")
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["convert", "-o", "out"], ""),
        (["describe", "-o", "out"], "10000-01-01"),
        (["preview"], '"10000-01-01 00:00:00.000000"'),
        (["init", "-o", "made.yaml"], ""),
        (["plan"], ""),
    ],
)
def test_commands(tmp_path, monkeypatch, capsys, command, shown):
    """No command fails, and dates are shown as they are."""
    monkeypatch.chdir(tmp_path)
    assert main_module.run([command[0], far_table(tmp_path), *command[1:]]) == 0
    said = capsys.readouterr()
    assert shown in said.out
    assert "value out of range" not in said.out + said.err
    made = tmp_path / "made.yaml"
    if made.exists():
        assert "10000-01-01 00:00:00 to 10000-02-09" in made.read_text()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("derive: {x: CAST(CAST(clock AS VARCHAR) AS BIGINT)}", "row 1 ({'id': 0"),
        ("split: {stratify: day, train: 0.5, eval: 0.5}", ""),
        ("expect: [{name: late, column: \"max(day) > DATE '2020-01-01'\"}]", "0001-11-24 (BC)"),
        ("split: {column: moment, train: {before: 2020-01-01}}", "found '10000-01-01 00:00:00.000000' in 40 of 40 rows"),
    ],
)  # fmt: skip
def test_recipes(tmp_path, capsys, keys, said):
    """Errors about such rows show them."""
    far_table(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"name: far\nsources: {{far: far.parquet}}\n{keys}\n")
    status = main_module.run(["convert", str(recipe), "-q", "-o", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert (status == 0) == (not said), error
    assert said in error
    assert "OverflowError" not in error
