"""The report of a conversion, and of a description."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.layout.dataset_layout import REPORT

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
def test_what_the_page_shows(folder: Path, name: str) -> None:
    """Rejected rows, joins and filters; of a dataset the texts of ids."""
    page = (folder / name / REPORT).read_text()
    for text in ("line 902", "on city = town", "amount &gt; 3 AND size", "(Paris)"):
        assert (text in page) == (name == "out" or text != "(Paris)")


def test_what_the_recipe_has_answered_is_no_finding(folder: Path) -> None:
    """A dropped key of the splits drifts by will."""
    text = (folder / "out" / REPORT).read_text()
    row = text[text.index("id=feature-key") : text.index("id=feature-city")]
    assert "data-drift" not in row
    assert re.search("id=feature-amount data-missing=0 data-distinct=[0-9]+ data-drift", text)
    assert "Alerts" not in text
