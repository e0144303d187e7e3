"""Names and patterns of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.transforms.read import read_table
from tests.support.runs import plan_in


def test_sources_that_are_not_joined(tmp_path: Path) -> None:
    """They are not looked for."""
    (tmp_path / "a.csv").write_text("n\n1\n")
    plan = plan_in(tmp_path, "name: t\nsources: {t: a.csv, other: missing.csv}\nfrom: t")
    assert [file.path for file in plan.base.files] == [str(tmp_path / "a.csv")]


def test_files_without_rows_among_many(tmp_path: Path) -> None:
    """If no sampled file has rows, other files are sampled for types."""
    for number in range(20):
        (tmp_path / f"a{number:02}.csv").write_text("n\n" + ("5\n" if number == 10 else ""))
    plan = plan_in(tmp_path, 'name: t\nsources: {t: "a*.csv"}')
    assert read_table(plan.base, reject=False)[0].to_pylist() == [{"n": 5}]


@pytest.mark.parametrize("pattern", ["a*.csv", "a?.csv", "a[12].csv", "./a*.csv", "**.csv"])
def test_patterns_in_the_current_folder(pattern, tmp_path, monkeypatch):
    """A bare pattern and file names are relative to the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a1.csv", "a2.csv"):
        (tmp_path / name).write_text("n\n1\n")
    plan = make_plan(load(pattern))
    assert [os.path.normpath(file.path) for file in plan.base.files] == ["a1.csv", "a2.csv"]


@pytest.mark.end_to_end
def test_strange_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names may have spaces, any letters, and pattern signs.

    They are the names of folders and files.
    """
    monkeypatch.chdir(tmp_path)
    data, output, neighbour = (
        tmp_path / "data [1]" / "ä b*[x].csv",
        "öut [1]*",
        tmp_path / "öut 1" / "_temporary",
    )
    data.parent.mkdir()
    neighbour.mkdir(parents=True)
    data.write_text("n\n1\n")
    plan = make_plan(load(os.path.relpath(data)))
    convert.convert(plan, output, quiet=True)
    convert.convert(plan, output, overwrite=True, quiet=True)
    assert verify_dataset(output).rows == 1
    assert neighbour.exists()
