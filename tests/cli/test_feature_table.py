"""The table of features that ``describe`` prints."""

from __future__ import annotations

import datetime
import json
import pathlib

import pyarrow as pa
import pytest

from beam_pipelines.analysis.description import Figure
from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics
from beam_pipelines.analysis.statistics.datasets import split_to_files
from beam_pipelines.cli import main as main_module
from beam_pipelines.cli.feature_table import DescribedSplit, described, table_lines, to_json
from tests.support.manifests import small_manifest


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A dataset's statistics and the parts of its manifest that describe them."""
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 3, 1)]
    batch = pa.record_batch(
        {
            "on": pa.array(days),
            "animal": [0, 1],
            "price": [1.5, 2.5],
            "name": ["x", None],
            "at": pa.array([0, 3_600_000_000], pa.timestamp("us")),
        }
    )
    plan = StatisticsPlan()
    for path, content in split_to_files(TableStatistics.of(batch, plan), plan).named("train"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    manifest = small_manifest() | {"labels": {"animal": ["cat", "dog"]}}
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    return tmp_path


def test_types_are_shown_as_types(folder: pathlib.Path) -> None:
    """Dates are dates, and ids have their texts."""
    keys = ["name", "type", "missing", "distinct", "mean", "least", "most"]
    found = to_json(described(str(folder)))["train"]["features"]
    assert found == [
        dict(zip(keys, row, strict=True))
        for row in [
            ("on", "date", 0, 2, "2024-01-31", "2024-01-01", "2024-03-01"),
            ("animal", "int64", 0, 2, None, "0 (cat)", "1 (dog)"),
            ("price", "float64", 0, 2, 2.0, 1.5, 2.5),
            ("name", "text", 1, 1, None, None, "x"),
            ("at", "timestamp", 0, 2, "1970-01-01 00:30", "1970-01-01 00:00", "1970-01-01 01:00"),
        ]
    ]


def row_of(**texts: str) -> dict[str, Figure]:
    """A feature's figures, by their texts."""
    return {head: Figure(text, text) for head, text in texts.items()}


def test_stored_statistics_are_printed(folder, capsys):
    """A dataset is described without data; protos alone are refused."""
    assert main_module.run(["describe", str(folder)]) == 0
    assert "2024-03-01" in capsys.readouterr().out
    assert main_module.run(["describe", str(folder), "--format", "json"]) == 0
    features = json.loads(capsys.readouterr().out)["splits"]["train"]["features"]
    assert features[0]["most"] == "2024-03-01"
    for alone in ("statistics", "statistics/Split-train/FeatureStats.pb"):
        assert main_module.run(["describe", str(folder / alone)]) == 2
        assert f"{alone}: found no statistics, expected a dataset" in capsys.readouterr().err
    assert main_module.run(["describe", str(folder), "--limit", "3"]) == 2
    assert "found an option of recipes and data" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits(width: int) -> None:
    """No line is wider than the terminal, and every column has one."""
    rows = [
        row_of(
            feature="column " + "x" * number, type="float64", missing="1,000,000", mean="1.235",
            least="−1", most="1,000,000,000",
        )
        for number in range(60)
    ]  # fmt: skip
    lines = list(table_lines(DescribedSplit("train", 100, rows), width))
    assert max(map(len, lines)) <= width
    assert sum("1,000,000" in line for line in lines) == 60
    assert ("mean" in lines[1]) is (width >= 80)


@pytest.mark.parametrize(
    ("width", "most"), [(60, "a long, lon…"), (100, "a long, long, long text")]
)
def test_narrow_names_differ(width: int, most: str) -> None:
    """Names are cut in their middle, texts before types go."""
    rows = [
        row_of(
            feature=f"a_name_of_many_characters_{n}", type="text", missing="0",
            distinct="1,000,000", most=f"{'a ' + 'long, ' * 2}long text",
        )
        for n in range(20)
    ]  # fmt: skip
    rows.append(row_of(feature="on", type="date", least="2024-01-01", most="2024-03-01"))
    lines = list(table_lines(DescribedSplit("train", 9, rows), width))
    assert max(map(len, lines)) <= width
    names = {line.split()[0] for line in lines[3:] if line}
    assert len(names) == 21
    assert lines[3].endswith(most)
    assert "type" in lines[1]
    assert lines[-2].split()[-2:] == ["2024-01-01", "2024-03-01"]
