"""A format registered from outside the package works as ours do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import FORMATS, inference, register_format
from beam_pipelines.sources.csv.format import Csv
from beam_pipelines.sources.plan import FileInfo, SourcePlan, cut_ranges
from beam_pipelines.sources.source_format import Contents
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.format import TextFormat
from tests.support.runs import plan_in, touched

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: visits
sources: {visits: {path: visits.kv, types: {number: int64}}}
split: {train: 0.75, eval: 0.25}
output: {num_shards: 4, shuffle_seed: 1}
"""


class KeyValue(TextFormat):
    """Lines such as ``number=1 place=p1``; columns are those of the first line."""

    suffixes = (".kv",)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Names columns after the first line's keys; types are declared, or text."""
        sampled = inference.sample_files(files)
        _, body = next(blocks.sample_bodies(source, sampled, blocks.LINES))
        names = tuple(pair.split("=")[0] for pair in body.data.splitlines()[0].decode().split())
        schema = pa.schema([(name, parse_type(source.types.get(name, "text"))) for name in names])
        return Contents(names, schema, schema)

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads lines one by one."""
        lines, starts = blocks.LineNumbers(plan.source, file, body), blocks.filled_lines(body.data)
        good, bad = [], []
        for start, end in zip(*starts, strict=True):
            line = body.data[start:end].decode().rstrip()
            cells = dict(pair.split("=") for pair in line.split())
            if cells["number"].isdigit():
                good.append({**cells, "number": int(cells["number"])})
                continue
            reason = f"found '{cells['number']}', expected digits."
            place = f"line {lines.line(int(start))}"
            bad.append(Rejected(plan.source.name, file.path, place, "number", reason, line))
            if not reject:
                raise DataError(bad[-1].describe())
        return pa.RecordBatch.from_pylist(good, plan.schema), tuple(bad)


@pytest.fixture(autouse=True)
def key_value(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers the format for one test, and makes ranges of 10 KB."""
    monkeypatch.setattr(cut_ranges, "__defaults__", (10_000,))
    register_format("key_value", KeyValue())
    yield
    del FORMATS["key_value"]


def write(folder: Path, bad: tuple[int, ...] = ()) -> None:
    """Writes 2,000 rows to ``visits.kv``, some of them bad."""
    lines = [f"number={'x' if row in bad else row} place=p{row % 13}\n" for row in range(1, 2_001)]
    (folder / "visits.kv").write_text("".join(lines))


def converted(
    folder: Path, more: str = "", resume: bool = False, in_worker: bool = False
) -> Manifest:
    """Converts the table, here or in a worker that imports the format."""
    recipe = parse_recipe(RECIPE + more, "recipe.yaml", str(folder))
    options = ["--direct_num_workers=1"]
    options += ["--direct_running_mode=multi_processing"] * in_worker
    plan = make_plan(recipe)
    return convert(plan, str(folder / "out"), beam_options=options, quiet=True, resume=resume)


def test_a_name_is_taken_once() -> None:
    """A registered name cannot be registered again, nor can one of ours."""
    for name in ("key_value", "csv"):
        with pytest.raises(ValueError, match=f"found a format '{name}' already"):
            register_format(name, Csv((), ","))


def test_rows_are_converted_and_bad_ones_rejected(tmp_path: Path) -> None:
    """Bad rows are in ``rejected/`` with their lines.

    The format finds some, a derived column another.
    """
    write(tmp_path, bad=(3, 1_234))
    more = "derive: {odd: \"CAST(CASE WHEN number = 1700 THEN 'y' ELSE '1' END AS BIGINT)\"}\non_error: {reject: 5}\n"
    manifest = converted(tmp_path, more, in_worker=True)
    assert manifest.sources["visits"].format == "key_value"
    assert len(plan_in(tmp_path, RECIPE).base.ranges) > 2
    rows = (tmp_path / "out/rejected/visits.jsonl").read_text().splitlines()
    assert [(row["position"], row["text"]) for row in map(json.loads, rows)] == [
        ("line 3", "number=x place=p3"),
        ("line 1234", "number=x place=p12"),
        ("line 1700", "number=1700 place=p10"),
    ]
    assert verify_dataset(str(tmp_path / "out")).rows == 1_997


def test_an_error_has_its_place(tmp_path: Path) -> None:
    """The first bad row ends the run, with file and line."""
    write(tmp_path, bad=(1_234,))
    with pytest.raises(DataError, match=r"visits\.kv, line 1234, column 'number': found 'x'"):
        converted(tmp_path)


def test_an_interrupted_conversion_resumes(tmp_path: Path) -> None:
    """A run that failed late is resumed, and keeps all finished shards."""
    write(tmp_path)
    output = tmp_path / "out"
    with (
        touched(tmp_path / "visits.kv", output),
        pytest.raises(DataError, match="8 shards are finished: run again with --resume"),
    ):
        converted(tmp_path)
    assert converted(tmp_path, resume=True).timings["resumed_shards"] == 8
    assert verify_dataset(str(output)).rows == 2_000
