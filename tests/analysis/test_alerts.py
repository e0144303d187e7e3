"""Alerts of columns that have, and that nearly have, what they name."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.analysis.alerts import Alert, by_kind, find_alerts, find_repeats, lines_of
from beam_pipelines.analysis.report import render_report
from beam_pipelines.analysis.statistics import TableStatistics
from tests.support.report_examples import report

NUMBERS = [str(number % 40) for number in range(200)]


def days(after: range, sentinel: str) -> pa.Array:
    """Returns dates after 2026-01-01, and a third as many of a sentinel."""
    start = datetime.date(2026, 1, 1)
    found = [start + datetime.timedelta(number) for number in after]
    return pa.array([*found, *[datetime.date.fromisoformat(sentinel)] * (len(found) // 3)])


def alerts(label: str | None = None, **columns: Any) -> list[tuple[str, str, str]]:
    """Returns the alerts of a table in two splits."""
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    half = batch.num_rows // 2
    splits = {"train": batch.slice(0, half), "eval": batch.slice(half)}
    tables = {split: TableStatistics.of(rows) for split, rows in splits.items()}
    return [tuple(alert) for alert in find_alerts(tables, label)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.nulls(200, pa.string()), ("empty", "no row has a value")),
        (pa.array([[]] * 200, pa.list_(pa.int64())), ("empty", "no row has a value")),
        ([7] * 200, ("constant", "every value is 7")),
        (["a", None] * 100, ("constant", "every value is 'a'; 50.0% lack it")),
        ([datetime.date(2026, 1, 1)] * 200, ("constant", "every value is 2026-01-01")),
        ([f"u{number}" for number in range(200)], ("id", "nearly every row has a value")),
        (list(range(200)), ("id", "nearly every row has a value")),
        ([f"a text of {number} words" for number in range(2000)], None),
        ([f"item {number}" for number in range(200)], ("id", "nearly every row has a value")),
        ([*map(str, range(3000)), "n.a."], ("id", "nearly every row has a value")),
        ([*map(str, range(2000)), *map(str, range(2000)), "?"], ("nearly numeric", "'\\?'$")),
        ([*NUMBERS[:-3], "n.a.", "n.a.", "?"], ("nearly numeric", "98.5% .* 'n.a.', '\\?'$")),
        (NUMBERS, None),
        ([0.5, math.inf, -math.inf, 2.0] * 50, ("not finite", "^100 of 200 are NaN or infinite$")),
        ([0.5, math.nan, 1.5, 2.0] * 50, ("not finite", "^50 of 200 ")),
        ([*NUMBERS[:100], *["x"] * 100], None),
        ([f"t{number // 3}" for number in range(6000)], ("high cardinality", "2,000 .* 3.0 rows")),
        ([f"t{number % 600}" for number in range(6000)], None),
        ([*range(150), *[-999] * 50], ("sentinel", "25.0% are \N{MINUS SIGN}999, the others 0 to 149")),
        ([*np.arange(150) / 3, *[9999.0] * 50], ("sentinel", "9,999, the others 0 to 49.67")),
        ([*range(-500, -350), *[-999] * 50], ("sentinel", "the others")),
        ([*np.arange(150) / 3, *[-999.9] * 50], ("sentinel", "25.0% are \N{MINUS SIGN}999.9")),
        ([*np.arange(150) / 3, *[99.99] * 50], ("sentinel", "25.0% are 99.99")),
        ([*range(150), *[2**31 - 1] * 50], ("sentinel", "2,147,483,647, the others 0 to 149")),
        (pa.array([*np.arange(150) / 3, *[-999.9] * 50], pa.float32()), ("sentinel", "999.9")),
        ([*range(150), *[998] * 50], None),
        ([*range(0, 3000, 20), *[999] * 50], None),
        ([*range(150), *[-1] * 50], ("sentinel", "25.0% are \N{MINUS SIGN}1, the others 0 to 149")),
        ([0, 1, 2] * 50 + [-1] * 50, None),
        ([*range(100, 250), *[-1] * 50], ("sentinel", "the others 100 to 249")),
        ([*range(-150, 0, 3), *[-1] * 50], None),
        (days(range(150), "1900-01-01"), ("sentinel", "25.0% are 1900-01-01, the others 2026-01-01")),
        (days(range(150), "1970-01-01"), ("sentinel", "does it mean null")),
        (days(range(150), "1970-01-02"), None),
        (days(range(0, 150_000, 1000), "1900-01-01"), None),
        (days(range(150), "1970-01-01").cast(pa.timestamp("us")), ("sentinel", "1970-01-01 00:00")),
        ([*range(-3000, 0, 20), *[-999] * 50], None),
        ([1, 2] * 100, None),
    ],
)  # fmt: skip
def test_an_alert_of_a_column(values: Any, expected: tuple[str, str] | None) -> None:
    """It is one alert, with what was found; nearly is none."""
    found = alerts(x=values)
    if expected is None:
        assert found == []
        return
    [(feature, what, text)] = found
    assert (feature, what) == ("x", expected[0])
    assert re.search(expected[1], text)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1] * 5 + [0] * 195, "97.5% are 0"),
        (["no"] * 198 + ["yes"] * 2, "99.0% are 'no'"),
        ([1] * 20 + [0] * 180, None),
        ([0] * 49 + [1], None),
    ],
)
def test_an_imbalanced_label(labels: list[Any], expected: str | None) -> None:
    """Only a label is imbalanced; of few rows nothing is said."""
    wanted = [] if expected is None else [("y", "imbalanced label", expected)]
    assert alerts(label="y", y=labels) == wanted
    assert alerts(y=labels) == []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((100, 0, 100), []),
        ((100, 1, 100), ["1 of 100 rows equals an earlier one"]),
        ((20_000, 12, 1_000_000), ["12 of 20,000 sampled rows equal an earlier one"]),
    ],
)
def test_equal_rows(numbers: tuple[int, int, int], expected: list[str]) -> None:
    """Rows that were compared are all rows, or a sample."""
    found = [alert.found.partition(";")[0] for alert in find_repeats(*numbers)]
    assert found == expected


def test_what_readers_of_images_add() -> None:
    """Sizes and names of image files have no alerts."""
    names = {"image/width": [64] * 200, "image/filename": [f"{n}.png" for n in range(200)]}
    assert alerts(**names) == []
    assert len(alerts(**{f"an {name}": values for name, values in names.items()})) == 2


def test_the_lines_of_the_summary() -> None:
    """Each kind has a line, which names a few columns."""
    found = [Alert("rows", "duplicates", "…"), *(Alert(f"c{n}", "empty", "…") for n in range(7))]
    lines = list(lines_of(by_kind(found)))
    assert lines == ["duplicates: rows", "empty: c0, c1, c2, c3, c4 and 2 more"]
    assert list(lines_of({})) == []


def test_the_page_shows_alerts() -> None:
    """No green line stands over an empty column, or an inferred schema."""
    batch = pa.record_batch({"x": pa.nulls(3, pa.string()), "y": pa.array([1, 2, 3])})
    statistics = {"train": TableStatistics.of(batch)}
    found = list(find_alerts(statistics, None))

    def page(**changes: Any) -> str:
        return render_report(report(statistics=statistics, anomalies=(), **changes))

    assert 'good none">None: the data fits the schema <bdi>that was given</bdi>.' in page(
        contract="1"
    )
    both = page(contract="1", alerts=found)
    assert (
        '"none">None: the data fits the schema <bdi>that was given</bdi>, but see the alerts.'
        in both
    )
    assert '<a href="#feature-x"><bdi>x</bdi></a>' in both
    assert "no row has a value" in both
    assert '"none">None, as the schema was inferred from the data.' in page(alerts=found)
    assert "Alerts" not in page()
