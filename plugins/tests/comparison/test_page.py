"""The page of two datasets compared."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines_plugins.comparison import DataComparison
from beam_pipelines_plugins.comparison.datasets import SplitComparison, compare_split
from tests.support.report_examples import EVIL


def table(shift: int, *more: str) -> TableStatistics:
    """Returns statistics of a number that may drift, and of texts."""
    columns = {
        "x": [float(n % 97 + shift) for n in range(2000)],
        EVIL: [["a", "b", EVIL][n % (2 + bool(shift))] for n in range(2000)],
    }
    return TableStatistics.of(pa.record_batch(columns | {name: [1] * 2000 for name in more}))


def page(split: SplitComparison, **changes: Any) -> str:
    values: dict[str, Any] = {
        "base": f"base {EVIL}",
        "test": "test",
        "splits": {f"train {EVIL}": split},
        "findings": tuple(split.all_findings()),
    }
    return DataComparison(**(values | changes)).to_html()


def test_differences_are_named_and_escaped() -> None:
    """Findings, types, drift and new texts are shown as text."""
    split = compare_split(table(0, "gone"), table(500, "came"))
    text = page(split)
    assert EVIL not in text
    assert "<script" not in text
    assert "x: its values drifted by" in text
    plain = " ".join(re.sub(r"<[^>]*>", " ", text[text.index("<main>") :]).split())
    assert "gone: the column vanished" in plain
    assert "int64 → none" in plain
    assert "0 – 96 → 500 – 596" in plain
    assert "int64 → none 0% 1 → none" in plain
    assert "none → int64 0% none → 1" in plain
    assert "2,000 2,000 –" in plain
    assert not re.search(r"https?:|url\(|@import", text)
    assert page(split) == page(split)


def test_datasets_that_are_alike() -> None:
    """Without differences, the page says so."""
    text = page(compare_split(table(0), table(0)))
    assert "They are alike." in text
    assert "Differences" not in text


def test_empty_cells_are_empty() -> None:
    """A narrow screen leaves cells without a value out."""
    text = page(compare_split(table(0), table(0)), findings=())
    assert '<td data-head="New"><td data-head="Vanished"></td>' in text
    text = page(compare_split(table(0, "gone"), table(0)))
    assert '<td data-head="Drift"><td data-head="p"><td data-head="New">' in text
    assert '<td data-head="Range"><td data-head="Drift">' in text
