"""Estimates: counts against those of real runs, limits against themselves."""

from __future__ import annotations

import dataclasses
import gzip
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.cli.main import run
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.previews.estimate import make_preview, make_scale
from beam_pipelines.sources.plan import FileInfo, cut_ranges
from tests.support.runs import convert_in

FILES, ROWS = 5, 4000
RECIPE = """
name: clicks
sources:
  clicks: {path: clicks-*.csv}
  users: {path: users.csv, key: user}
from: clicks
join: [{source: users, on: user, how: inner}]
filter: cost > 100
encode: {ad: vocabulary, cost: [{fill: 0}, z_score]}
split: {train: 0.75, eval: 0.25}
output: {shard_size: 16 KiB}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Clicks in five files, and users.

    Four of five clicks have a user, nine of ten pass the filter.
    """
    folder = tmp_path_factory.mktemp("clicks")
    for file in range(FILES):
        lines = [
            f"{n % 50},ad{n * 7919 % 1000},{n * 31 % 1009}"
            for n in range(file * ROWS, (file + 1) * ROWS)
        ]
        (folder / f"clicks-{file}.csv").write_text("\n".join(["user,ad,cost", *lines]) + "\n")
    lines = [f"{user},{user * 2654435761 % 97}" for user in range(40)]
    (folder / "users.csv").write_text("\n".join(["user,age", *lines]) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def planned(path: pathlib.Path) -> Plan:
    """The plan of a recipe or a data file."""
    return make_plan(load(str(path)))


@pytest.fixture(scope="module")
def plan(folder) -> Plan:
    """The plan of the recipe."""
    return planned(folder / "recipe.yaml")


def test_counts_are_those_of_a_real_run(plan, tmp_path):
    """Ranges and shards equal the run's; rows and bytes are near."""
    scale = make_scale(plan, make_preview(plan))
    manifest = convert_in(tmp_path, plan)
    assert scale.ranges == len(plan.base.ranges) == FILES
    found = {name: len(split.shards) for name, split in manifest.splits.items()}
    assert {name: split.shards for name, split in scale.splits.items()} == found
    assert min(found.values()) > 1
    for name, split in manifest.splits.items():
        assert scale.splits[name].rows == pytest.approx(split.rows, rel=0.1)
    assert scale.rows == pytest.approx(FILES * ROWS, rel=0.05)
    assert scale.shard_bytes == pytest.approx(
        sum(split.bytes for split in manifest.splits.values()), rel=0.1
    )


def test_a_size_that_is_assumed_and_true_changes_nothing(plan):
    """Assuming the real size changes only how files are cut."""
    preview = make_preview(plan)
    real, assumed = make_scale(plan, preview), make_scale(plan, preview, plan.base.size_bytes)
    same = {"ranges", "largest_range_bytes", "worker_bytes", "limits"}
    for field in dataclasses.fields(real):
        if field.name not in same:
            assert getattr(real, field.name) == getattr(assumed, field.name), field.name


@given(size=st.integers(1, 1 << 45))
def test_ranges_of_an_assumed_size_are_those_of_such_a_file(size):
    """The ranges are those that the planner cuts of such a file."""
    from beam_pipelines.pipeline.previews.estimate import _ranges

    size = min(size, 1 << 36)
    assert _ranges(CSV_PLAN, size)[0] == len(cut_ranges([FileInfo("a.csv", size)], lambda _: True))


@pytest.fixture(scope="module", autouse=True)
def _csv_plan(folder):
    """A plan for tests that hypothesis repeats."""
    global CSV_PLAN  # noqa: PLW0603
    CSV_PLAN = planned(folder / "clicks-0.csv")


def test_files_that_cannot_be_cut_are_counted(tmp_path):
    """A larger compressed source has more files, each a range."""
    for number in range(2):
        with gzip.open(tmp_path / f"c-{number}.csv.gz", "wt") as file:
            file.write("a,b\n" + "".join(f"{n},{n * 7919 % 10007}\n" for n in range(20_000)))
    plan = planned(tmp_path / "c-*.csv.gz")
    scale = make_scale(plan, make_preview(plan), plan.base.size_bytes * 1000)
    assert scale.ranges == 2000
    assert scale.rows == pytest.approx(40_000 * 1000, rel=0.01)
    assert scale.largest_range_bytes == max(file.size_bytes for file in plan.base.files)


def test_everything_grows_with_the_size(plan):
    """A thousand times the bytes give a thousand times the amounts.

    They are rows, CPU seconds and payloads.
    """
    preview = make_preview(plan)
    small, large = make_scale(plan, preview, 10**12), make_scale(plan, preview, 10**15)
    for name in ("rows", "kept_bytes", "shard_bytes"):
        assert getattr(large, name) == pytest.approx(1000 * getattr(small, name))
    assert large.cpu_secs["read and statistics"] == pytest.approx(
        1000 * small.cpu_secs["read and statistics"]
    )
    for name, split in large.splits.items():
        assert split.shards == min(50_000, 1000 * small.splits[name].shards)


def test_limits_are_met_where_they_say(plan):
    """A limit is at the same size for data of any size."""
    preview = make_preview(plan)
    found = make_scale(plan, preview, 10**14).limits
    assert [*found.values()] == sorted(found.values())
    for name, size in found.items():
        again = make_scale(plan, preview, round(size)).limits
        assert again[name] == pytest.approx(size, rel=0.05), name


def test_windows_count_what_their_features_keep(tmp_path):
    """An index of a million rows keeps 20 numbers a row."""
    rows = pa.table({"k": [1] * 40_000, "t": pa.array(range(40_000), pa.timestamp("us"))})
    for name in ("left", "right"):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    worker = {}
    for feature in ("count()", "max(t)", "count_distinct(t)"):
        (tmp_path / "recipe.yaml").write_text(
            "name: w\nsources: {left: left.parquet, right: right.parquet}\nfrom: left\n"
            "join: [{source: right, on: k, window: {left: t, right: t}, "
            f"features: {{n: {feature}}}}}]\n"
        )
        plan = planned(tmp_path / "recipe.yaml")
        step = dataclasses.replace(plan.joins.steps[0], size_bytes=16_000_000)
        plan = dataclasses.replace(plan, joins=dataclasses.replace(plan.joins, steps=(step,)))
        worker[feature] = make_scale(plan, make_preview(plan)).worker_bytes
    assert worker["max(t)"] - worker["count()"] == pytest.approx(16e6, rel=0.01)
    assert worker["count_distinct(t)"] - worker["count()"] == pytest.approx(80e6, rel=0.01)


@pytest.mark.parametrize(
    ("size", "shown"),
    [("100TB", "100.00 TB"), ("1.5 TiB", "1.65 TB"), ("500gb", "500 GB"), ("2000000", "2 MB")],
)
def test_the_command_prints_the_plan(folder, capsys, size, shown):
    """The command prints the recipe's plan, then the estimates and limits."""
    assert run(["plan", str(folder / "recipe.yaml"), "--assume_bytes", size]) == 0
    text = capsys.readouterr().out
    assert f"with {shown} of clicks (assumed; " in text
    for word in (
        "sources",
        "  read  ",
        "rows and files of splits: train ",
        ", eval ",
        "CPU",
        "memory",
        "limits, by the size of clicks",
    ):
        assert word in text
    assert ("met:" in text) == (size in ("100TB", "1.5 TiB"))
    figures = text[text.index(f"with {shown}") :].splitlines()
    assert len(figures) <= 15
    assert "iB" not in "".join(figures)


def test_the_command_plans_what_is_there(folder, capsys):
    """Without a size, the real input is planned."""
    assert run(["plan", str(folder / "recipe.yaml")]) == 0
    text = capsys.readouterr().out
    assert "assumed" not in text
    assert "limits" not in text
    assert f"  read       {FILES} ranges of " in text


@pytest.mark.parametrize("size", ["many", "10 XB", "0", "-1GB"])
def test_a_size_that_is_none_is_refused(folder, capsys, size):
    """A wrong size is an error with an example."""
    assert run(["plan", str(folder / "recipe.yaml"), f"--assume_bytes={size}"]) == 2
    assert "expected a number of bytes, such as 100TB" in capsys.readouterr().err


def test_a_filter_that_leaves_nothing_cannot_be_planned_by(folder, tmp_path, capsys):
    """The command reports a filter that leaves no row of the preview."""
    text = RECIPE.replace("cost > 100", "cost > 1e9").replace("path: ", f"path: {folder}/")
    (tmp_path / "recipe.yaml").write_text(text)
    assert run(["plan", str(tmp_path / "recipe.yaml")]) == 1
    assert "found no rows left of its beginning after 'filter'" in capsys.readouterr().err
