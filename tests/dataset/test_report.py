"""The report is made again of what is on disk."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import REPORT, REPORT_DATA
from beam_pipelines.dataset.report import make_report

RECIPE = """
name: demo
sources:
  a: {path: a.csv, types: {amount: float64}}
  b: {path: b.csv}
from: a
join: [{source: b, on: {city: town}, how: left}]
filter: amount > 3 AND size IS DISTINCT FROM 9
label: late
on_error: {reject: 5}
split: {train: 0.8, eval: 0.2, by: key}
encode: {key: drop, city: {vocabulary: 10}, amount: z_score}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, and descriptions of its recipe's data."""
    folder = tmp_path_factory.mktemp("report")
    cities = ("Oslo", "Rome", "Paris")
    rows = [f"k{n:05},{cities[n % 3]},{n % 17 + 0.5},{'yes' * (n % 2)}no" for n in range(900)]
    (folder / "a.csv").write_text(
        "\n".join(["key,city,amount,late", *rows, "x,Oslo,abc,no"]) + "\n"
    )
    (folder / "b.csv").write_text("town,size\nOslo,3\nRome,4\n")
    (folder / "r.yaml").write_text(RECIPE)
    recipe = str(folder / "r.yaml")
    assert run(["convert", recipe, "-o", str(folder / "out"), "-q"]) == 0
    against = ["--baseline", str(folder / "out"), "-q"]
    assert run(["describe", recipe, "-o", str(folder / "described"), *against]) == 0
    return folder


@pytest.mark.parametrize("name", ["out", "described"])
def test_the_same_report_again(folder: Path, name: str) -> None:
    """Statistics, manifest and ``report.json`` have all that the page shows."""
    page = folder / "again.html"
    assert run(["inspect", str(folder / name), "--report", str(page)]) == 0
    assert page.read_bytes() == (folder / name / REPORT).read_bytes()
    for text in ("line 902", "on city = town", "amount &gt; 3 AND size", "(Paris)"):
        assert (text in page.read_text()) == (name == "out" or text != "(Paris)")


def test_what_the_recipe_has_answered_is_no_finding(folder: Path) -> None:
    """A dropped key of the splits drifts by will."""
    text = (folder / "out" / REPORT).read_text()
    row = text[text.index("id=feature-key") : text.index("id=feature-city")]
    assert "data-drift" not in row
    assert re.search("id=feature-amount data-missing=0 data-distinct=[0-9]+ data-drift", text)
    assert "Alerts" not in text


def test_without_a_dataset_or_its_data(folder: Path, tmp_path: Path) -> None:
    """The error says what is missing."""
    with pytest.raises(DataError, match=r"found no dataset\.json"):
        make_report(str(tmp_path))
    copy = tmp_path / "old"
    copy.mkdir()
    (copy / "dataset.json").write_bytes((folder / "out" / "dataset.json").read_bytes())
    with pytest.raises(DataError, match=rf"found no {REPORT_DATA}.*before 0\.2"):
        make_report(str(copy))


@pytest.mark.parametrize("content", ["", "{}", "[]", "[" * 100_000, "null"])
def test_damaged_data_of_a_report(folder: Path, tmp_path: Path, content: str) -> None:
    """The error names the file."""
    shutil.copytree(folder / "out", tmp_path / "out")
    path = next((tmp_path / "out").rglob("report.json"))
    path.write_text(content)
    with pytest.raises(DataError, match=r"report\.json: found .*, expected what the report shows"):
        make_report(str(tmp_path / "out"))
