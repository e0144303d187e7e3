"""The command ``preview``: the first rows, raw and encoded."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.pipeline import api
from beam_pipelines.pipeline.planning import plan_recipe
from beam_pipelines.pipeline.previews.first_rows import FirstRows, first_rows

RECIPE = """\
name: a
sources: {d: d.csv, p: {path: p.csv, key: id}}
from: d
join: [{source: p, on: id, prefix: p_}]
filter: id <> 2
derive: {twice: id * 2}
drop: [note]
encode:
  color: {vocabulary: {reserved: [red]}}
  score: z_score
split: {train: 0.5, eval: 0.5, by: id}
"""


@pytest.fixture
def recipe(tmp_path: pathlib.Path) -> str:
    """A recipe of two tables, one in order of ``id``."""
    rows = [
        f"{n},{'red' if n % 2 else 'blue'},{n / 4},2024-01-{n % 28 + 1:02},x" for n in range(40)
    ]
    (tmp_path / "d.csv").write_text("\n".join(["id,color,score,on,note", *rows]) + "\n")
    (tmp_path / "p.csv").write_text("id,name\n1,one\n3,three\n")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return str(tmp_path / "recipe.yaml")


def previewed(recipe: str, number: int = 5) -> FirstRows:
    return first_rows(plan_recipe.plan(recipe), number)


def test_rows_are_in_the_order_of_the_source(recipe: str) -> None:
    """The first rows that pass the filter are shown, whatever their split."""
    found = previewed(recipe)
    assert [row.raw["id"] for row in found.rows] == [0, 1, 3, 4, 5]
    assert len({row.split for row in previewed(recipe, 39).rows}) == 2
    assert [row.raw["p_name"] for row in found.rows] == [None, "one", "three", None, None]
    assert all("note" not in row.raw for row in found.rows)


def test_values_are_encoded(recipe: str) -> None:
    """Encodings are fitted on all rows of a small source."""
    found = previewed(recipe, 39)
    assert found.labels["color"] == ("red", "blue")
    for row in found.rows:
        assert row.encoded["color"] == ("red", "blue").index(row.raw["color"])
        assert row.encoded["twice"] == row.raw["id"] * 2
    trained = [row.encoded["score"] for row in found.rows if row.split == "train"]
    assert abs(sum(trained)) < 1e-3
    assert found.notes == ()


def test_encodings_of_a_part_of_the_source(recipe: str, tmp_path: pathlib.Path) -> None:
    """A note says that not all rows were read."""
    text = pathlib.Path(recipe).read_text()
    assert "d.csv" in text
    pathlib.Path(recipe).write_text(text.replace("d.csv", "d*.csv"))
    (tmp_path / "d2.csv").write_text((tmp_path / "d.csv").read_text())
    (note,) = previewed(recipe, 1).notes
    assert re.fullmatch(r"encodings are fitted on \d\d rows only, so that values differ", note)


@pytest.mark.end_to_end
def test_a_preview_has_the_rows_of_a_conversion(recipe: str, tmp_path: pathlib.Path) -> None:
    """With all rows in the sample, a conversion writes them."""
    found = previewed(recipe, 1000)
    dataset = api.convert(recipe, tmp_path / "out")
    for split in ("train", "eval"):
        (batch,) = dataset.batches(split, batch_size=1000, columns=["id"])
        written = sorted(batch["id"].tolist())
        assert written == sorted(row.raw["id"] for row in found.rows if row.split == split)


def test_text_and_json(recipe, tmp_path, capsys):
    """The command prints rows as text or JSON, and writes nothing."""
    before = sorted(tmp_path.iterdir())
    assert main_module.run(["preview", recipe, "-n", "2"]) == 0
    text = capsys.readouterr().out
    assert "row 1, " in text
    assert any(
        line.split() == ["color", '"blue"', "→", "color", "1", "(blue)"]
        for line in text.splitlines()
    )
    assert main_module.run(["preview", recipe, "-n", "2", "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["raw"]["id"] for row in document["rows"]] == [0, 1]
    assert document["inputs"]["color"] == ["color"]
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("cell", ["x" * 100, "\n" + 100 * ",\n"], ids=["plain", "quoted"])
def test_the_head_of_a_large_file(tmp_path: pathlib.Path, cell: str) -> None:
    """Only the head of a large file is read, to whole rows."""
    line = f'1,"{cell}"\n'
    number = 40_000_000 // len(line)
    (tmp_path / "d.csv").write_text("a,b\n" + line * number)
    plan = plan_recipe.plan(str(tmp_path / "d.csv"))
    assert len(plan.base.ranges) > 1
    found = first_rows(plan, 10_000)
    assert len(found.rows) == found.read
    assert (1 << 20) - len(line) <= found.read * len(line) < 1 << 21
    assert all(row.raw == {"a": 1, "b": cell} for row in found.rows)


def test_no_row_is_left(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter that leaves no row is an error."""
    assert main_module.run(["preview", recipe, "--set", "filter=id > 1000"]) == 1
    assert "found no row after 'filter' and joins in the first 40" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252"])
def test_text_of_other_encodings(tmp_path: pathlib.Path, encoding: str) -> None:
    """Text that is not UTF-8 is shown as a conversion reads it."""
    path = tmp_path / "names.csv"
    path.write_bytes("name;age\nZoë;20\nJürgen;30\n".encode(encoding))
    assert [row.raw for row in previewed(str(path)).rows] == [
        {"name": "Zoë", "age": 20},
        {"name": "Jürgen", "age": 30},
    ]
