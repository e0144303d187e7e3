"""The page: self-contained, escaped, deterministic, small."""

from __future__ import annotations

import base64
import datetime
import hashlib
import html.parser
import math
import re

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.anomalies import Row
from beam_pipelines.report import JoinSummary, Report, SourceSummary, SplitSummary, render_report, size_text
from beam_pipelines.report_charts import number_text, plain_number
from beam_pipelines.statistics import TableStatistics

EVIL = "</script><script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;"
VOID = {"meta", "input", "path", "br", "hr", "img", "link"}


class Page(html.parser.HTMLParser):
    """Collects tags and text, and insists that every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def batch_of_everything(rows: int = 50) -> pa.RecordBatch:
    generator = np.random.default_rng(1)
    return pa.record_batch(
        {
            EVIL: pa.array([EVIL, "", " "][i % 3] for i in range(rows)),
            "int": pa.array(generator.integers(-(2**60), 2**60, rows)),
            "skewed": pa.array((generator.lognormal(3, 3, rows)).astype(np.int64)),
            "label": pa.array(generator.integers(0, 2, rows)),
            "float": pa.array([math.nan, math.inf, 1.5, None, -1e308, 1e308] * (rows // 6) + [0.0] * (rows % 6)),
            "bool": pa.array([True] * rows),
            "date": pa.array([datetime.date(1, 1, 1), datetime.date(2020, 5, 17)] * (rows // 2)),
            "when": pa.array([2**62, 1_600_000_000_000_000] * (rows // 2)).view(pa.timestamp("us")),
            "time": pa.array([datetime.time(12, 30)] * rows),
            "list": pa.array([["a"] * (i % 3) for i in range(rows)]),
            "image": pa.array([bytes([255, i]) for i in range(rows)]),
            "nothing": pa.nulls(rows, pa.string()),
            "no numbers": pa.nulls(rows, pa.float64()),
        }
    )


def report(**changes) -> Report:
    batch = batch_of_everything()
    values = {
        "name": f"name {EVIL}",
        "splits": {"train": SplitSummary(50, 2, 12345), "eval": SplitSummary(0, 0, 0)},
        "sources": [SourceSummary(f"source {EVIL}", 3, 1 << 30, 1_234_567, 3)],
        "joins": [JoinSummary(f"join {EVIL}", "left", "broadcast", 3, 1)],
        "anomalies": [Row("train", f"feature {EVIL}", "Column dropped", f"expected {EVIL}", f"found {EVIL}")],
        "statistics": {"train": TableStatistics.of(batch), "eval": TableStatistics.empty(batch.schema)},
        "filtered": 17,
    }
    return Report(**(values | changes))


def test_every_value_is_escaped() -> None:
    """Names and values full of markup add no tag: they are shown as they are."""
    page = Page(render_report(report()))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not {"img", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    for place in ("name", "source", "join", "feature", "expected", "found"):
        assert f"{place} {EVIL}" in page.text
    assert {"data-name": EVIL}.items() <= next(a for t, a in page.tags if t == "tr" and "data-name" in a).items()


def test_nothing_is_loaded() -> None:
    """No address is mentioned, and the policy allows the page's own script alone."""
    text = render_report(report())
    assert not re.search(r"https?://|url\(|@import|\bsrc=|\bhref=", text.replace(html_escaped(EVIL), ""))
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def html_escaped(text: str) -> str:
    return html.escape(text, quote=True)


def test_what_is_shown() -> None:
    """Counts, sizes, shares and dates stand in the page as people read them."""
    text = Page(render_report(report())).text
    for shown in ("50 rows in 2 splits", "1,234,567", "1.0 GiB", "1 (25.0 %)", "12.1 KiB", "2020-05-17", "12:30:00"):
        assert shown in text
    assert "13 features" in text


def test_without_anomalies_or_shards() -> None:
    """A description without anything written has no table of splits, sources or joins, and says that all is well."""
    text = Page(render_report(report(anomalies=[], splits={}, sources=[], joins=[]))).text
    assert "None: the data fits the schema." in text
    assert "shards" not in text


def test_same_report_same_bytes() -> None:
    """Rendering is deterministic."""
    assert render_report(report()) == render_report(report())


def test_large_tables_stay_small() -> None:
    """100 features in three splits, long values included, take less than 3 MB."""
    generator = np.random.default_rng(0)
    columns = {f"number {i}": pa.array(generator.normal(size=500)) for i in range(50)}
    columns |= {f"text {i}": pa.array([f"{i}{'&' * 2000}{j % 7}" for j in range(500)]) for i in range(50)}
    table = TableStatistics.of(pa.record_batch(columns))
    text = render_report(report(statistics={"train": table, "eval": table, "test": table}))
    assert len(text.encode()) < 1_000_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-(2**63), "-9.2234e+18"),
        (0.123456, "0.1235"),
        (123456.7, "123,457"),
        (1e-9, "1e-09"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    """Numbers have four digits or so."""
    assert plain_number(value) == shown


def test_dates_beyond_pythons_are_numbers() -> None:
    """A timestamp that Python's datetime cannot hold is shown as its number."""
    assert number_text(2**62, pa.timestamp("us")) == "4.6117e+18"
    assert number_text(0, pa.timestamp("us")) == "1970-01-01 00:00"
    assert number_text(None, pa.date32()) == "–"


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 40, "5.0 TiB"), (5 << 50, "5120.0 TiB")]
)
def test_sizes(size: int, shown: str) -> None:
    """Sizes are in binary units."""
    assert size_text(size) == shown
