"""The page: self-contained, escaped, deterministic, small."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import re
from typing import Any

import pyarrow as pa
import pytest

from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.compare import measure_drift
from beam_pipelines.analysis.report import SampledRows, render_report
from beam_pipelines.analysis.report.markup import anchor
from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics
from tests.support.report_examples import (
    EVIL,
    counts_of,
    join_of,
    report,
    report_of_splits,
    source_of,
    split_of,
    wide_report,
)

VOID = {"meta", "input", "path", "rect", "br", "hr", "img", "link"}
# A start tag -> the open elements that it ends: HTML's rules for optional end tags.
CELLS = {"th", "td"}
ENDED_BY = {
    "th": CELLS,
    "td": CELLS,
    "tr": CELLS | {"tr"},
    "tbody": CELLS | {"tr", "thead", "tbody"},
}


class Page(html.parser.HTMLParser):
    """Parser that collects tags and text and checks that tags are closed.

    Parts of tables may stay open, as HTML allows.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        while self.open and self.open[-1] in ENDED_BY.get(tag, ()):
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag) -> None:
        while self.open[-1] != tag:
            assert self.open.pop() in ENDED_BY
        self.open.pop()

    def handle_data(self, data) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_every_value_is_escaped() -> None:
    """Markup in names and values is shown as text."""
    page = Page(render_report(report()))
    assert len(page.all("script")) == 1
    assert not {"iframe", "object", "form", "base", "embed"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    for place in (
        "name",
        "source",
        "feature",
        "expected",
        "found",
        "file",
        "column",
        "reason",
        "eval",
    ):
        assert f"{place} {EVIL}" in page.text
    for place in ("filter", "on", "image"):
        assert f"{place} {EVIL}"[:20] in page.text
    assert f"image {EVIL}"[:20] in (page.all("img")[0]["alt"] or "")


def test_nothing_is_loaded() -> None:
    """The page has no external addresses and runs only its script."""
    text = render_report(report())
    page = Page(text)
    addresses = [
        a[name]
        for _, a in page.tags
        for name in ("href", "src", "srcset", "action", "xlink:href")
        if name in a
    ]
    assert all(
        address.startswith(("#", "data:image/png;base64,", "data:,")) for address in addresses
    )
    assert not re.search(r"https?:|url\(|@import", text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(
        meta["content"]
        for meta in page.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src "
        f"'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize(
    "shown",
    [
        "rows50", "in all shards24.3 kB", "12 kB – 12.3 kB", "1,234,567", "1.07 GB", "1 25.0%",
        "rows filtered out17", "rows rejected3", "1 of 3; all are in rejected/",
        "15 features in 2 splits · label label", "2020-05-17", "12:30:00", "−∞", "true",
    ],
)  # fmt: skip
def test_what_is_shown(shown: str) -> None:
    """Counts, sizes, shares and dates are formatted for people."""
    text = Page(render_report(report(statistics=fifty_rows()))).text
    assert shown in text


def test_names_of_classes() -> None:
    """Ids of classes have their names next to them."""
    text = Page(render_report(report(class_names={"label": ["cat", "<dog>"]}))).text
    assert "0 (cat)" in text
    assert "1 (<dog>)" in text


def test_what_features_say_about_the_label() -> None:
    """With a label, features have its information."""
    text = " ".join(Page(render_report(report_of_splits(2))).text.split())
    assert "0.377" in text
    assert "Label is a number of bits." in text
    without = Page(render_report(report())).text
    assert "number of bits" not in without


def test_rows_and_recipe_are_shown() -> None:
    """Rows, the recipe and the time of the run are shown, escaped."""
    text = Page(render_report(report_of_splits(3))).text
    assert f"new {EVIL}" in text
    assert "→ -0.25" in text
    assert "And 3 more." in text
    assert "The run took 6.9 s. beam-pipelines 0.1.0, python 3.11.7." in text
    assert "label: long long" in text
    without = Page(render_report(report())).text
    assert "Example rows" not in without


def test_slices_and_weights() -> None:
    """Slices have rows, shares and the label; weights change means."""
    batch = pa.record_batch(
        {
            "city": ["Oslo", "Oslo", "Rome", None],
            "late": [True, False, False, True],
            "delay": [10, 20, 30, 40],
            "weight": [1.0, 3.0, 0.0, 4.0],
        }
    )
    plan = StatisticsPlan(weight="weight", slice_by=("city",))
    tables = {
        "train": TableStatistics.of(batch, plan),
        "eval": TableStatistics.of(batch.slice(2), plan),
    }
    text = Page(render_report(report(statistics=tables, label="late"))).text
    lines = " ".join(text.split())
    assert "Slicetraineval" in lines
    assert "with the label late" in lines
    assert "city = Oslo2 50.0%50.0% true0 0%" in lines
    assert "city = Rome1 25.0%0% true1 50.0%0% true" in lines
    assert "sum of weights" in text
    assert "Mean, by weight28.75" in lines
    assert "Mean25" in lines
    without = Page(render_report(report())).text
    assert "by weight" not in without
    assert "Slices" not in without


def test_years_and_lengths() -> None:
    """Years have no separators; lengths of texts are in characters."""
    text = Page(render_report(report_of_splits(2))).text
    assert "2013" in text
    assert "2,013" not in text
    assert "7 – 20 characters" in " ".join(text.split())


def fifty_rows() -> dict[str, TableStatistics]:
    """Returns statistics of 50 rows, with an infinity on the left."""
    statistics = dict(report().statistics)
    batch = pa.record_batch({"float": pa.array([float("-inf"), 1.0])})
    train = statistics["train"]
    columns = dict(train.columns) | {"float": TableStatistics.of(batch).columns["float"]}
    return statistics | {"train": TableStatistics(50, columns)}


def test_without_anomalies_or_shards() -> None:
    """Without a written dataset, the page has no shards, sources or joins."""
    text = Page(
        render_report(
            report(
                anomalies=[], splits={}, sources={}, joins=(), rejected=(), sampled=SampledRows()
            )
        )
    ).text
    assert "None, as the schema was inferred from the data." in text
    for absent in ("in all shards", "Pipeline", "Joins", "Rejected rows", "Some images"):
        assert absent not in text


def test_anomalies_lead_to_their_features() -> None:
    """An anomaly links to its feature, which shows the number of anomalies."""
    text = render_report(report())
    page = Page(text)
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [a["href"] for a in page.all("a") if a.get("class") not in ("skip", "link")]
    parts = ["#features", "#pipeline", "#splits", "#sources", "#joins", "#rejected-rows", "#images"]
    assert links == [*parts, "#run", f"#{anchor(EVIL)}"]
    assert {link[1:] for link in links} <= ids
    own = [a["href"] for a in page.all("a") if a.get("class") == "link"]
    assert len(own) == len(set(own)) == 15
    assert {link[1:] for link in own} <= ids
    assert page.text.count("1 anomaly") == 1


def test_an_anomaly_of_several_splits_stands_once() -> None:
    """Equal anomalies of two splits share a line."""
    rows = [
        Row("train", "int", "Type", "a", "b"),
        Row("train", "label", "Type", "a", "b"),
        Row("eval", "int", "Type", "a", "b"),
        Row("eval", "int", "Other", "c", "d", "WARNING", is_accepted=True),
    ]
    text = render_report(report(anomalies=rows))
    lines = re.findall(r"<tr><th><a.*", text)
    shown = [" | ".join(re.findall(r"<bdi>(.*?)</bdi>", line)) for line in lines]
    assert shown == [
        "int | Type | train, eval | a | b",
        "int | Other | eval | c | d",
        "label | Type | train | a | b",
    ]
    badges = [re.findall(r'class="badge">(.*?)<', line) for line in lines]
    assert badges == [[], ["accepted"], []]


def test_many_anomalies_are_cut() -> None:
    """The page shows 200 anomalies and says how many more there are."""
    rows = [Row("train", f"f{i}", "Type", "a", "b") for i in range(250)]
    text = render_report(report(anomalies=rows))
    assert "And 50 more." in text
    assert "f199" in text
    assert "f200" not in text


def test_charts_name_their_axes() -> None:
    """A chart names its axis; a blank value is marked."""
    text = render_report(report())
    assert re.search(
        r'<svg [^>]*role=img aria-label="Distribution from 0 to [^"]*, logarithmic">', text
    )
    assert "<b>log</b>" in text
    assert "<i class=soft>blank</i><p><b style=width:" in text


def test_same_report_same_bytes() -> None:
    """Rendering is deterministic."""
    assert render_report(report()) == render_report(report())


def test_a_hundred_features_stay_small() -> None:
    """100 features in three splits take at most 4 KB each."""
    assert len(render_report(wide_report(100)).encode()) < 430_000


def test_rows_that_a_limit_left_out_are_shown() -> None:
    """Figures and diagram have the rows that ``--limit`` left out."""
    base: dict[str, Any] = {"base": "base", "sources": {"base": source_of(1000, 1)}, "joins": ()}
    text = render_report(
        report(
            **base,
            splits={"train": split_of(90, 1)},
            filter="x",
            counts=counts_of(filtered=10, left_out=900),
        )
    )
    assert "rows left out by --limit or --sample</dt><dd>900" in text
    diagram = re.search(r'<svg class="diagram".*?</svg>', text, re.DOTALL).group(0)
    assert re.findall(r'class="rows[^"]*"[^>]*>([\d,]+)<', diagram) == ["100", "90", "90"]
    assert "base: 900 left out." in text
    assert "rows left out by" not in render_report(report(**base))


def test_the_picture_counts_rows() -> None:
    """The edges show the row counts after joins and filter."""
    sources = {
        "base": source_of(1000, 1),
        "a": source_of(77, 1),
        "b": source_of(88, 1, 2, rejected=9),
    }
    joins = (
        join_of("a", "inner", "x", matched=900, dropped=100),
        join_of("b", "left", "y", matched=900, added=50),
        join_of("a", "left", "z", matched=950),
    )
    splits = {"train": split_of(700, 1, 1), "eval": split_of(200, 1)}
    text = render_report(
        report(
            base="base",
            sources=sources,
            joins=joins,
            splits=splits,
            filter="z > 2",
            counts=counts_of(filtered=50),
            rejected=(),
        )
    )
    diagram = re.search(r'<svg class="diagram".*?</svg>', text, re.DOTALL).group(0)
    rows = re.findall(r'class="rows[^"]*"[^>]*>([\d,]+)<', diagram)
    assert sorted(rows) == sorted(
        ["77", "1,000", "88", "900", "77", "950", "950", "700", "700", "200", "200"]
    )
    titles = re.findall(r'class="title"[^>]*>([^<]*)<', diagram)
    assert titles == [
        "base",
        "a",
        "b",
        "inner join",
        "left join",
        "left join",
        "filter",
        "train",
        "2 shards",
        "eval",
        "1 shard",
    ]
    notes = re.findall(r'class="note"[^>]*>([^<]*)<', diagram)
    assert {
        "100 rows dropped",
        "on y",
        "z &gt; 2",
        "77.8% of the rows",
        "1 bytes, 9 rejected",
    } <= set(notes)


def test_duplicates_are_among_the_rejected_rows() -> None:
    """Their file is in ``rejected/``, so they count."""
    text = render_report(report(counts=counts_of(left_out_by={"duplicates": 2})))
    assert "1 of 5; all are in rejected/" in text


def test_one_split_has_no_drift() -> None:
    """With nothing to compare, the column of drift is hidden."""
    statistics = {"train": report().statistics["train"]}
    assert 'class="features only-one"' in render_report(report(statistics=statistics))
    assert 'class="features only-one"' not in render_report(
        report(statistics=statistics, drifts=measure_drift(statistics, statistics))
    )


def test_the_picture_has_both_parts_of_the_filter() -> None:
    """Rows are filtered before the joins and after them."""
    text = render_report(
        report(
            base="base",
            sources={"base": source_of(1000, 1), "a": source_of(77, 1)},
            joins=(join_of("a", "left", "x", matched=500, unmatched=100, added=50),),
            splits={"train": split_of(620, 1)},
            filter="x > 1 AND y > 2",
            counts=counts_of(filtered_first=400, filtered=430),
            rejected=(),
        )
    )
    diagram = re.search(r'<svg class="diagram".*?</svg>', text, re.DOTALL).group(0)
    rows = re.findall(r'class="rows[^"]*"[^>]*>([\d,]+)<', diagram)
    assert sorted(rows) == sorted(["1,000", "77", "600", "650", "620", "620"])
    first, second = (found.start() for found in re.finditer("filter</p>", diagram))
    assert first < diagram.index("left join<") < second


def test_dates_have_no_zeros() -> None:
    """The day 1970-01-01 is no zero; a number of 0 is one."""
    batch = pa.record_batch({"day": pa.array([0, 9], pa.date32()), "x": pa.array([0, 9])})
    statistics = {"train": TableStatistics.of(batch)}
    page = render_report(report(statistics=statistics))
    assert page.count("Zeros") == 1
