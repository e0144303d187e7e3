"""The counters of a job equal the counts of its dataset."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.pipeline import commit
from tests.support.counted import expected_counts, found_counts
from tests.support.runs import convert_in, short_ranges

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: rows
sources:
  rows: {path: rows.csv, types: {b: int64}}
  names: {path: names.csv, key: a}
from: rows
join: [{source: names, on: a, how: left, strategy: STRATEGY}]
filter: b >= 20
duplicates: {by: [a, b], action: drop}
split: {train: 0.7, eval: 0.3}
on_error: {reject: 0.1}
output: {num_shards: 3}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table with bad, equal and unmatched rows, in several ranges."""
    folder = tmp_path_factory.mktemp("counted")
    rows = [f"{n % 300},{n % 100 if n % 97 else 'x'}" for n in range(3_000)]
    (folder / "rows.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    (folder / "names.csv").write_text("a,name\n" + "".join(f"{n},n{n}\n" for n in range(200)))
    with pytest.MonkeyPatch.context() as patch:
        short_ranges(patch, 5_000)
        yield folder


def converted(folder: Path, out: Path, *options: str, strategy: str, **more: Any) -> Manifest:
    """Converts the table into a folder."""
    recipe = RECIPE.replace("STRATEGY", strategy)
    return convert_in(folder, recipe, str(out), *options, **more)


@pytest.mark.parametrize(
    ("mode", "strategy"),
    [("in_memory", "hash"), ("multi_threading", "broadcast"), ("multi_processing", "hash")],
)
def test_counters_are_those_of_the_dataset(folder, tmp_path, mode, strategy):
    """Rows and bytes are counted alike by threads and processes."""
    options = (f"--direct_running_mode={mode}", "--direct_num_workers=2")
    manifest = converted(folder, tmp_path, *options, strategy=strategy)
    expected = expected_counts(manifest)
    assert found_counts(manifest) == expected
    assert min(expected.values()) > 0
    assert len(expected) == 8


def test_distributions_and_stages(folder, tmp_path):
    """Chunks and shards have a distribution, and stages wall and CPU seconds."""
    manifest = converted(folder, tmp_path, strategy="broadcast")
    timings, shards = manifest.timings, [*manifest.shards]
    sizes = [shard.bytes for shard in shards]
    assert timings["counted"]["shard_bytes"] == {
        "count": len(sizes), "sum": sum(sizes), "min": min(sizes), "max": max(sizes),
    }  # fmt: skip
    assert timings["counted"]["chunk_rows"]["sum"] == manifest.counts.written
    stages = ["first_pass", "write", "commit"]
    assert all(timings[f"{stage}_secs"] > 0 for stage in stages)
    assert sum(timings["counted"][f"{stage}_cpu_msecs"] for stage in stages) > 0


def test_events_are_lines_of_json(folder, tmp_path, caplog):
    """Stages and chunks with rejected rows are lines of JSON."""
    with caplog.at_level(logging.INFO, "beam_pipelines.events"):
        manifest = converted(folder, tmp_path, strategy="broadcast")
    events = [json.loads(line.message) for line in caplog.records if "events" in line.name]
    stages = [event for event in events if event["event"] == "stage"]
    assert [event["stage"] for event in stages] == ["first_pass", "write", "commit"]
    assert {event["rows"] for event in stages} == {manifest.counts.written}
    rejected = [event for event in events if event["event"] == "rejected"]
    counts = manifest.counts
    left_out = counts.rejected + counts.left_out_by["duplicates"]
    assert sum(event["rows"] for event in rejected) == left_out > counts.rejected > 0
    assert {event["file"] for event in rejected} == {str(folder / "rows.csv")}
    assert len({event["range"] for event in rejected}) == len(rejected) > 1


def test_events_name_the_files_of_rejected_rows(tmp_path, caplog):
    """Also where a range has many small files."""
    for number in range(5):
        Image.new("L", (2, 2), number).save(tmp_path / f"{number}.png")
    for number in (2, 4):
        (tmp_path / f"{number}.png").write_bytes(b"broken")
    recipe = "name: images\nsources: {images: {path: '*.png'}}\non_error: {reject: 0.5}\n"
    with caplog.at_level(logging.INFO, "beam_pipelines.events"):
        convert_in(tmp_path, recipe)
    events = [json.loads(line.message) for line in caplog.records if "events" in line.name]
    rejected = {event["file"]: event["rows"] for event in events if event["event"] == "rejected"}
    assert rejected == {str(tmp_path / f"{number}.png"): 1 for number in (2, 4)}


@pytest.mark.parametrize("fails", ["to_text", "metrics.totals_of"])
def test_counters_that_cannot_be_had(folder, tmp_path, monkeypatch, capsys, fails):
    """A dataset is complete before its counters are in the manifest."""
    made = commit.seal

    def sealed(*arguments: Any) -> None:
        made(*arguments)
        monkeypatch.setattr(f"beam_pipelines.pipeline.observed.{fails}", _refuse)

    monkeypatch.setattr("beam_pipelines.pipeline.commit.seal", sealed)
    manifest = converted(folder, tmp_path, strategy="broadcast")
    assert "counted" not in manifest.timings
    assert "warning: dataset.json: refused (its 'timings' lack" in capsys.readouterr().err


def _refuse(*_: object) -> str:
    raise NotImplementedError("refused")
