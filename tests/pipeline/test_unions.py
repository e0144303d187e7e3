"""Runs read several sources as one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.transform import plan_transform
from beam_pipelines.pipeline.previews.estimate import make_preview
from beam_pipelines.pipeline.previews.first_rows import first_rows
from tests.support.read_examples import read_examples
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three tables of other formats, those of text in several ranges."""
    short_ranges(monkeypatch, 1_000)
    lines = [f'{n},"a\n{n}",{n % 7}' for n in range(300)]
    (tmp_path / "web.csv").write_text("id,note,price\n" + "\n".join(lines) + "\n")
    rows = [{"id": n, "price": n / 2, "device": f"d{n % 3}"} for n in range(300, 400)]
    (tmp_path / "app.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    pq.write_table(pa.table({"id": range(400, 450), "note": ["x"] * 50}), tmp_path / "old.parquet")
    return tmp_path


def plan_of(folder: Path, union: str, more: str = "") -> Plan:
    text = (
        "name: t\nsources:\n  web: web.csv\n  app: app.jsonl\n  old: old.parquet\n"
        "  texts: texts.csv\n"
        f"  all: {union}\nfrom: all\n{more}"
    )
    return plan_in(folder, text)


UNION = "{union: [web, app, old], missing: fill, origin: origin, key: id}"


def test_rows_of_all_sources(folder: Path) -> None:
    """Rows come in order, with null for columns that their source lacks.

    One worker and four write the same bytes.
    """
    plan = plan_of(folder, UNION, "output: {shuffle: false}\nduplicates: {action: drop}\n")
    assert len(plan.base.ranges) > 5
    manifest = of_workers(folder, plan, lambda one: one.counts)
    assert manifest.counts.written == 450
    expected = [
        *({"id": n, "note": f"a\n{n}", "price": n % 7, "origin": "web"} for n in range(300)),
        *(
            {"id": n, "price": n / 2, "device": f"d{n % 3}", "origin": "app"}
            for n in range(300, 400)
        ),
        *({"id": n, "note": "x", "origin": "old"} for n in range(400, 450)),
    ]
    found = [
        {name: value for name, value in row.items() if value is not None}
        for row in read_examples(folder / "out1", "train")
    ]
    assert found == expected
    assert manifest.sources["all"].format == "union"
    assert len(manifest.sources["all"].files) == 3


def test_previews(folder: Path) -> None:
    """Previews read the first ranges of a union."""
    plan = plan_of(folder, UNION)
    assert first_rows(plan, 3).rows[0].raw["origin"] == "web"
    assert make_preview(plan).written == 1


def test_bad_rows_have_their_place(folder: Path) -> None:
    """A bad row is found in the file of its own source."""
    with open(folder / "app.jsonl", "a", encoding="utf-8") as file:
        file.write('{"id": 7\n')
    with pytest.raises(DataError, match=r"app\.jsonl, line 101"):
        convert_in(folder, plan_of(folder, UNION))
    (folder / "app.jsonl").write_text('{"id": 5, "price": 1.5, "device": "d"}\n')
    with pytest.raises(DataError, match="id"):
        convert_in(folder, plan_of(folder, UNION))


@pytest.mark.parametrize(
    ("union", "message"),
    [
        ("{union: [web, app]}", "column 'note' is not in the source app"),
        ("{union: [web, app], missing: fill, origin: id}", "the origin 'id', which is a column"),
        ("{union: [web, app], missing: fill, key: nr}", "no column 'nr' in the union"),
        ("{union: [web, texts], missing: fill}", "'id' is int64 in web, text in texts"),
    ],
)
def test_sources_that_do_not_fit(folder: Path, union: str, message: str) -> None:
    """Columns that differ are problems of the recipe."""
    (folder / "texts.csv").write_text("id\na\n")
    with pytest.raises(RecipeProblems) as caught:
        plan_of(folder, union)
    assert any(message in problem.message for problem in caught.value.problems)


def test_no_transform(folder: Path) -> None:
    """New data of a union would come from several sources."""
    convert_in(folder, plan_of(folder, UNION, "encode: {price: {cast: float32}}\n"))
    with pytest.raises(RecipeError, match="dataset of the union 'all'"):
        plan_transform(str(folder / "out"), [str(folder / "web.csv")], {}, "new")
