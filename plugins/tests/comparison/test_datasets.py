"""The command compares datasets, descriptions and files, and is a gate."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import RecipeError
from beam_pipelines_plugins.comparison import compare_data

pytestmark = pytest.mark.end_to_end


def write(path: Path, seed: int, shift: float = 0.0, users: int = 40) -> None:
    chance = random.Random(seed)
    rows = [f"{chance.randrange(40)},{chance.gauss(shift, 1):.3f}\n" for _ in range(2000)]
    path.write_text("user,x\n" + "".join(rows))
    (path.parent / f"users{users}.csv").write_text(
        "id,city\n" + "".join(f"{number},{'ab'[number % 2]}\n" for number in range(users))
    )


RECIPE = """
name: d
sources: {{events: {events}, users: users{users}.csv}}
from: events
join: [{{source: users, on: {{user: id}}, require_match: 0}}]
drop: [user]
split: {split}
output: {{num_shards: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has a.csv and b.csv, which are alike, and c.csv, which is not."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.csv", 1)
    write(tmp_path / "b.csv", 2)
    write(tmp_path / "c.csv", 3, shift=2, users=10)
    for name, users in (("a", 40), ("b", 40), ("c", 10)):
        text = RECIPE.format(events=f"{name}.csv", users=users, split="{train: 0.7, eval: 0.3}")
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_files_datasets_and_recipes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alike is status 0; a difference is status 1, and named."""
    assert run(["convert", "a.yaml", "-q", "-o", "out/a"]) == 0
    capsys.readouterr()
    assert run(["compare", "out/a", "b.yaml"]) == 0
    assert "b.yaml is like out/a." in capsys.readouterr().out
    assert run(["compare", "out/a", "c.yaml", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found["splits"]) == ["train", "eval"]
    words = ("train, x: its values drifted", "train, city: 0% of the rows lacked it, now 7")
    for word in (*words, "eval, x: its values drifted"):
        assert sum(finding.startswith(word) for finding in found["findings"]) == 1, word
    assert run(["compare", "out/a", "c.yaml"]) == 1
    shown = capsys.readouterr().out
    assert "differs: train, x: its values drifted by" in shown
    assert run(["compare", "a.csv", "c.csv", "--max_drift", "1"]) == 0


def test_what_encodings_made_is_compared_by_the_shards(folder, capsys):
    """The note is of datasets with encodings, and its pattern works."""
    for name in ("a", "b"):
        options = ["--set", "encode={x: z_score}", "-q", "-o", f"out/{name}"]
        assert run(["convert", f"{name}.yaml", *options]) == 0
    assert run(["compare", "out/a", "out/b"]) == 0
    pattern = capsys.readouterr().out.rpartition("'DATASET")[2].partition("'")[0]
    assert run(["compare", f"out/a{pattern}", f"out/b{pattern}"]) == 0
    assert "float32" in capsys.readouterr().out


def test_the_table_shows_dates_and_what_is_not_judged(folder, capsys):
    """Dates have a drift and ranges; empty columns are left out."""
    for name, day, rows in (("d", "2026-01-01", 60), ("e", "2026-01-02", 900)):
        lines = (f"{n},{day}\n" for n in range(rows))
        (folder / f"{name}.csv").write_text("id,day\n" + "".join(lines))
    assert run(["compare", "d.csv", "e.csv"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in shown] == [
        "train: 60 → 900 (×15) rows",
        "feature type missing drift p",
        shown[2],
        "day date 0% 0.999 <0.001",
        "id int64 0% id",
        "",
        "e.csv is like d.csv.",
        "not judged: id (id)",
        "not judged: day (date): 2026-01-01 → 2026-01-02",
    ]


def test_splits_that_cannot_be_compared(folder: Path) -> None:
    """Splits are compared by name, single ones in any case."""
    assert run(["describe", "a.yaml", "-q", "-o", "a"]) == 0
    assert run(["describe", "b.csv", "-q", "-o", "b"]) == 0
    found = compare_data("a", "b")
    assert list(found.splits) == ["train"]
    assert found.findings[0] == "split 'eval' vanished"
    with pytest.raises(RecipeError, match=r"b: found no split 'eval', expected one of train"):
        compare_data("a", "b", split="eval")


def test_a_limit_of_drift_is_a_share(folder: Path) -> None:
    """More than 1 is refused before anything is read."""
    assert run(["compare", "a.csv", "b.csv", "--max_drift", "2"]) == 2
