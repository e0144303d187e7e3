"""Two splits compared by their statistics."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines_plugins.comparison.datasets import (
    SplitComparison,
    TextsOfOneSide,
    as_json,
    compare_split,
)


def table(rows: int, seed: int, **changes: Any) -> pa.RecordBatch:
    """Returns a table of some kinds of columns; ``changes`` replace some."""
    random = np.random.default_rng(seed)
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(seed)] * rows
    columns = {
        "id": pa.array(np.arange(rows) + 1000 * seed),
        "city": pa.array(random.choice(["a", "b", "c"], rows)),
        "x": pa.array(random.normal(size=rows)),
        "day": pa.array(days),
        "maybe": pa.array([1.0 if one else None for one in random.random(rows) < 0.5]),
    }
    return pa.record_batch({**columns, **{name: pa.array(c) for name, c in changes.items()}})


def compared(base: pa.RecordBatch, test: pa.RecordBatch) -> SplitComparison:
    return compare_split(*map(TableStatistics.of, (base, test)))


@pytest.mark.parametrize("rows", [60, 3000])
def test_other_rows_of_the_same_kind_are_alike(rows: int) -> None:
    """Ids, dates and chance are no finding."""
    found = compared(table(2000, 1), table(rows, 2))
    assert list(found.all_findings()) == []
    assert found.rows == (2000, rows)
    notes = {column.name: column.note for column in found.columns}
    assert notes == {"id": "id", "city": "", "x": "", "maybe": "", "day": "date"}
    json.dumps(as_json(found))


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"city": ["a", "b", "d"] * 500}, "city: its values drifted by"),
        ({"x": np.arange(1500) / 500 + 1}, "x: its values drifted by"),
        ({"maybe": [None] * 1400 + [1.0] * 100}, r"maybe: 50.* of the rows lacked it, now 93"),
        ({"maybe": [math.nan] * 1050 + [1.0] * 450}, r"maybe: 50.7% of the rows lacked it, now 70"),
        ({"x": ["text"] * 1500}, "x: the type was float64 and is text"),
        ({"more": [1] * 1500}, "more: a new column"),
    ],
)
def test_a_change_is_a_finding(changes: dict[str, Any], finding: str) -> None:
    """Each change is one finding, of its column."""
    found = list(compared(table(2000, 1), table(1500, 2, **changes)).all_findings())
    assert len(found) == 1
    assert re.match(finding, found[0])


INFINITE = [
    ((0, 0), (0, 0.3), ["x: 0% of the values were inf, now 30.0%"]),
    ((0.15, 0), (0, 0), ["x: 15.0% of the values were -inf, now 0%"]),
    ((0.2, 0), (0, 0.2), ["x: 20.0% of the values were -inf, now 0%", "x: 0% of the values were inf, now 20.0%"]),
    ((0, 0.3), (0, 0.3), []),
    ((0, 0.01), (0, 0.05), []),
    ((0, 0), (0, 1), ["x: 0% of the values were inf, now 100%"]),
    ((1, 0), (0, 1), ["x: 100% of the values were -inf, now 0%", "x: 0% of the values were inf, now 100%"]),
]  # fmt: skip


def test_a_lost_column_and_lost_rows() -> None:
    """Both are findings; a split without rows has no columns."""
    base = table(200, 1)
    assert list(compared(base, base.drop_columns(["x"])).all_findings()) == [
        "x: the column vanished"
    ]
    half = base.append_column("half", pa.array([1, None] * 100))
    for sides, missing, shown in (
        ((base, half), (None, 0.5), ("", "1")),
        ((half, base), (0.5, None), ("1", "")),
    ):
        column = compared(*sides).columns[-1]
        assert (column.missing, column.ranges, column.shown_missing) == (missing, shown, "50.0%")
    found = compared(base, base.slice(0, 0))
    assert (found.columns, list(found.all_findings())) == ((), ["no rows, and 200 before"])
    assert list(compared(base.slice(0, 0), base).all_findings()) == []


def test_new_and_vanished_values() -> None:
    """All are counted, the most frequent ones named."""
    base = table(6, 1, city=["a", "b", "b", "c", "c", "c"])
    test = table(6, 2, city=["c", "e", "e", "f", "g", "h"])
    [city] = [one for one in compared(base, test).columns if one.name == "city"]
    assert city.vanished == TextsOfOneSide(2, 3, (("b", 2), ("a", 1)))
    assert city.new is not None
    assert (city.new.number, city.new.occurrences, city.new.most[0]) == (4, 5, ("e", 2))


def test_dates_are_compared_and_not_judged() -> None:
    """Their drift is shown, and is no finding."""
    [day] = [one for one in compared(table(200, 1), table(200, 2)).columns if one.name == "day"]
    assert (day.note, day.findings) == ("date", ())
    assert day.drift == pytest.approx(1, abs=0.01)
    assert day.ranges == ("2026-01-02", "2026-01-03")


def test_values_that_occur_once_are_not_judged() -> None:
    """Their values are counted, and not called alike."""
    sides = [table(30, n, city=[f"{n}-{row}" for row in range(30)]) for n in (1, 2)]
    found = compared(*sides)
    [city] = [one for one in found.columns if one.name == "city"]
    assert (city.note, city.drift, city.findings) == ("few", None, ())
    assert city.new is not None
    assert city.new.number == 30
    assert "city (few)" in found.not_judged


def test_large_and_insignificant_is_no_finding() -> None:
    """Five rows tell nothing, whatever their divergence is."""
    found = compared(table(5, 1, city=["a"] * 5), table(5, 2, city=["a", "a", "a", "b", "b"]))
    assert list(found.all_findings()) == []
