"""The page's layout in Chromium: texts are whole, heads over columns."""

from __future__ import annotations

import html
import io

import pytest
from PIL import Image

from beam_pipelines.analysis.report import render_report
from tests.support.chromium import CUT_OFF, MARKS, MISPLACED_HEADS
from tests.support.report_examples import report, report_of_splits

pytestmark = MARKS
WIDTHS = [390, 768, 1280, 1920]
# Numbers of splits, and widths of screens.
SCREENS = [
    (1, 390),
    (2, 390),
    (2, 1280),
    *((number, width) for number in (3, 6) for width in WIDTHS),
]


@pytest.fixture
def look(browser):
    """Opens a page of a text with all its features opened."""
    contexts = []

    def opened(text: str, width: int):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_content(text)
        if page.locator("#all").count():
            page.get_by_role("button", name="Open all").click()
        page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("number", "width"), SCREENS)
def test_nothing_is_cut_off(look, number: int, width: int) -> None:
    """Opened features show every split, on a phone and on a desk.

    Heads of tables start or end where the values below them do.
    """
    page = look(render_report(report_of_splits(number)), width)
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(MISPLACED_HEADS) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_texts_are_not_cut_off(look, width: int) -> None:
    """Anomalies, findings and rejected rows are whole."""
    line = f"moved, km > 0: 9 rows; the first is {'-'.join(['part'] * 20)}.csv, line 2"
    moved = {"check": "expect", "severity": "warn", "line": line}
    page = look(render_report(report(findings=(moved,))), width)
    for title in ("Anomalies", "Checks", "Rejected rows"):
        box = page.locator(f"section:has(> h2:text('{title}')) > .box")
        assert box.count() == 1
        assert box.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_the_features_of_one_split_fill_the_table(look) -> None:
    """The hidden column of drift leaves no gap at the right."""
    page = look(render_report(report_of_splits(1)), 1280)
    gaps = page.evaluate(
        "[...table.querySelectorAll('tr')].filter(row => row.closest('table') === table).map(row => "
        "table.getBoundingClientRect().right - row.lastElementChild.getBoundingClientRect().right)"
    )
    assert gaps
    assert max(gaps) <= 2


@pytest.mark.parametrize("width", [390, 768])
def test_names_above_values(look, width: int) -> None:
    """The name above a value has its own place."""
    page = look(render_report(report_of_splits(6, "validation_out_of_distribution_2")), width)
    assert page.locator(".stacked .more td").count()
    too_wide = """[...document.querySelectorAll('.stacked .part:not(.plain) td')]
        .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"""
    assert page.evaluate(too_wide) == []


def test_the_page_in_a_notebook(browser) -> None:
    """In a notebook's frame, scripts run, and links open their feature."""
    troubles: list[str] = []
    text = html.escape(render_report(report_of_splits(2)))
    page = browser.new_page()
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.set_content(f"<p>A cell</p><iframe sandbox='allow-scripts' srcdoc=\"{text}\">")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="amount").last.click()
    assert frame.locator("#feature-amount .more").is_visible()
    assert frame.get_by_role("button", name="Open all").is_visible()
    page.close()
    assert troubles == []


def test_split_names_stand_at_their_values_on_a_phone(look) -> None:
    """Without room for columns, each value has the name of its split."""
    page = look(render_report(report_of_splits(6)), 390)
    names = page.evaluate(
        "[...document.querySelector('.part tbody tr').cells].slice(1)"
        ".map(cell => getComputedStyle(cell, '::before').content)"
    )
    assert [name.strip('"') for name in names] == [
        "train", "eval", "test", "holdout", "recent", "other city"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["holdout_2024_summer", "HOLDOUT_2024_NY", "im_wwwwwwwwwwwwww", "Prüfung_für_später"]
)
@pytest.mark.parametrize("width", [390, 1280])
def test_long_names_of_splits(look, width: int, name: str) -> None:
    """Texts stay in their boxes, and names of splits at their marks."""
    page = look(render_report(report_of_splits(6, name)), width)
    assert (
        page.evaluate(
            "[...document.querySelectorAll('.diagram g')].filter(one => [...one.querySelectorAll("
            "'p')].some(text => text.getBoundingClientRect().right > one.querySelector('rect')"
            ".getBoundingClientRect().right - 4 || !text.clientHeight)).map(one => one.textContent)"
        )
        == []
    )
    lines = page.evaluate(
        "[...document.querySelectorAll('tbody th > .key')].map(one => {"
        "const range = document.createRange(); range.selectNodeContents(one);"
        "return [one.textContent, range.getClientRects().length,"
        "range.getBoundingClientRect().top - one.getBoundingClientRect().top]})"
    )
    assert name in [text for text, _, _ in lines]
    for text, number, below in lines:
        assert below < 4  # no line has the mark alone
        assert number == 1 or len(text) > 11


def test_a_wide_diagram_has_a_shadow_where_it_goes_on(look) -> None:
    """A shadow at a side says that the diagram goes on there."""
    page = look(render_report(report_of_splits(3)), 390)
    scroll = page.locator(".scroll")
    scroll.screenshot()  # the features above get their heights when they are passed

    def shadows() -> list[bool]:
        """Returns whether the left and the right side have a shadow."""
        picture = Image.open(io.BytesIO(scroll.screenshot())).convert("RGB")
        middle, *sides = (picture.getpixel((x, 8)) for x in (195, 3, picture.width - 4))
        return [side != middle for side in sides]

    assert shadows() == [False, True]
    scroll.evaluate("one => (one.scrollLeft = 99999)")
    assert shadows() == [True, False]
