"""The page in Chromium: search, sort, details, accessibility, print."""

from __future__ import annotations

import functools
import http.server
import pathlib
import threading
from collections.abc import Iterator

import pytest

from beam_pipelines.analysis.report import render_report
from tests.support.chromium import MARKS
from tests.support.report_examples import EVIL, report, wide_report

pytestmark = MARKS


class Site:
    """Serves reports on this machine and records requests."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        site = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                site.asked.append(self.path)

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    for name, value in {
        "hostile": report(),
        "wide": wide_report(100),
        "widest": wide_report(1000),
    }.items():
        (folder / f"{name}.html").write_text(render_report(value))
    site = Site(folder)
    yield site
    site.server.shutdown()
    site.server.server_close()


@pytest.fixture
def visit(browser, site):
    """Opens a report; fails on errors and on requests for anything else."""
    contexts, troubles = [], []

    def opened(name: str, **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                _is_own(request.url, site.address(name)) or troubles.append(request.url)
            ),
        )
        page.goto(site.address(name))
        return page

    site.asked.clear()
    yield opened
    for context in contexts:
        context.close()
    assert troubles == []
    assert len(site.asked) == len(contexts)


def _is_own(url: str, address: str) -> bool:
    return url.partition("#")[0] == address or url.startswith("data:")


def shown_names(page) -> list[str]:
    return page.evaluate(
        "[...table.tBodies].filter(b => !b.hidden).map(b => b.querySelector('bdi').textContent)"
    )


def test_hostile_names_do_nothing(visit) -> None:
    """Markup in names and values is text and runs nothing."""
    page = visit("hostile")
    assert page.title() == f"name {EVIL}: report"
    assert page.locator("h1").inner_text() == f"name {EVIL}"
    assert page.locator("script").count() == 1
    page.get_by_role("button", name="Open all").click()
    assert page.locator("img").count() == 1
    assert page.evaluate(
        "[...document.images].every(image => image.complete && image.naturalWidth === 2)"
    )


def test_search(visit) -> None:
    """The search finds names and types, and shows the number of matches."""
    page = visit("wide")
    search = page.get_by_role("searchbox", name="Search features")
    page.keyboard.press("/")
    assert search.evaluate("element => element === document.activeElement")
    page.keyboard.type("_001")
    assert shown_names(page) == [f"feature_001{i}" for i in range(10)]
    assert page.get_by_role("status").inner_text() == "10 of 100"
    search.fill("TEXT")
    assert len(shown_names(page)) == 25
    search.fill("nowhere")
    assert page.get_by_text("No feature fits the search.").is_visible()
    search.fill("")
    assert page.get_by_role("status").inner_text() == "100"
    assert len(shown_names(page)) == 100


@pytest.mark.parametrize("key", ["missing", "distinct", "drift", "label"])
def test_sort_by_numbers(visit, key: str) -> None:
    """A column's button sorts descending, then ascending, then as in the data."""
    page = visit("wide")
    header = page.locator(f"th[data-sort={key}]")
    values = f"[...table.tBodies].map(body => Number(body.dataset.{key}))"
    names = shown_names(page)
    header.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert page.get_by_label("Sort").input_value() == key
    found = page.evaluate(values)
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]
    page.keyboard.press("Space")
    assert header.get_attribute("aria-sort") == "ascending"
    assert page.evaluate(values) == sorted(found)
    page.keyboard.press("Enter")
    assert page.locator("[aria-sort]").count() == 0
    assert shown_names(page) == names


def test_sort_by_name(visit) -> None:
    """The list of orders sorts by name; details stay with their feature."""
    page = visit("hostile")
    page.get_by_label("Sort").select_option("name")
    names = shown_names(page)
    plain = [name for name in names if name != EVIL]
    assert plain == sorted(plain)
    assert page.locator("th[data-sort=name]").get_attribute("aria-sort") == "ascending"
    assert page.evaluate(
        "[...table.tBodies].every(body => body.rows.length === 2 && body.rows[1].matches('.more'))"
    )


def test_details(visit) -> None:
    """A feature opens by mouse and keyboard and shows its details."""
    page = visit("wide")
    button = page.get_by_role("button", name="feature_0000")
    details = page.locator("#feature-feature_0000 .more")
    assert not details.is_visible()
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    for text in ("Median", "Std. deviation", "99%", "Zeros"):
        assert details.get_by_role("rowheader", name=text).is_visible()
    page.locator("#feature-feature_0000 .feature td").nth(3).click()
    assert not details.is_visible()
    page.get_by_role("button", name="Open all").click()
    assert (
        page.locator("#feature-feature_0002 .more").get_by_text("Most frequent values").is_visible()
    )
    assert page.locator(".more:visible").count() == 100
    page.get_by_role("button", name="Close all").click()
    assert page.locator(".more:visible").count() == 0


def test_anomalies_open_their_feature(visit) -> None:
    """The link of an anomaly leads to its feature and opens it."""
    page = visit("hostile")
    page.get_by_role("table", name="Anomalies").get_by_role("link").click()
    assert page.locator("#table > tbody").first.locator(".more").is_visible()
    assert page.locator("#table > tbody").first.bounding_box()["y"] < 900


@pytest.mark.parametrize("feature", ["year", "no numbers", EVIL])
def test_links_to_a_feature(visit, site, feature: str) -> None:
    """Each feature has an address; it opens the feature, whatever its name."""
    page = visit("hostile")
    number = shown_names(page).index(feature)
    body = page.locator("#table > tbody").nth(number)
    body.locator(".feature").hover()
    body.get_by_role("link", name="Link to this feature").click()
    body.locator(".more").wait_for()
    address = page.url
    assert address.startswith(f"{site.address('hostile')}#feature-")
    page.reload()
    body.locator(".more").wait_for()
    assert 0 <= body.bounding_box()["y"] < 900
    assert page.locator(".more:visible").count() == 1
    site.asked.pop()


def test_what_a_screen_reader_finds(visit) -> None:
    """Tables, headers, charts and controls have names; no identifier is there twice."""
    page = visit("hostile")
    for name in ("Splits", "Sources", "Joins", "Rejected rows", "Features"):
        assert page.get_by_role("table", name=name).count() == 1
    features = page.get_by_role("table", name="Features")
    assert features.get_by_role("columnheader", name="Missing").count() == 1
    assert features.get_by_role("rowheader", name="skewed").count() == 1
    assert page.get_by_role("img", name="3 rejected").count() == 1
    assert page.evaluate(
        "[...document.querySelectorAll('svg')].every(svg => svg.ariaLabel || svg.closest('.wide'))"
    )
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    controls = (
        "[...document.querySelectorAll('button, input, select')].filter(c => !(c.labels && "
        "c.labels.length) && !c.ariaLabel && !c.textContent.trim())"
    )
    assert page.evaluate(f"{controls}.length") == 0
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the features"


# Compares each text with its nearest opaque background: WCAG 2, contrast (minimum).
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
  };
  const poor = new Set();
  for (const element of document.body.querySelectorAll("*:not(script)")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const color = rgb(element.matches("svg *:not(foreignObject *)") ? style.fill : style.color);
    const [low, high] = [light(color), light(behind(element))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName}.${element.className.baseVal ?? element.className} ${ratio.toFixed(2)}`);
  }
  return [...poor];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visit, scheme: str) -> None:
    """Every text has a contrast of 4.5 to 1, light and dark."""
    page = visit("hostile", color_scheme=scheme)
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate(CONTRAST) == []


def test_dark_and_light(visit) -> None:
    """The page follows the system, and the button overrides it."""
    page = visit("hostile", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Light").click()
    light = page.evaluate(background)
    assert sum(map(int, light[4:-1].split(","))) > 600
    assert sum(map(int, dark[4:-1].split(","))) < 200
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(background) == dark


@pytest.mark.parametrize("name", ["hostile", "wide"])
def test_narrow_screens(visit, name: str) -> None:
    """Screens of 400 and 320 pixels do not scroll sideways."""
    page = visit(name, viewport={"width": 400, "height": 800})
    for width in (400, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_print(visit) -> None:
    """The printed page is light, without controls, and has few pages."""
    page = visit("wide", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.locator(".tools button:visible, input:visible, select:visible, #theme:visible").count()
        == 0
    )
    pages = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 5 < pages < 30


def test_without_scripts_everything_is_open(visit) -> None:
    """Without scripts, details are open and there is no dead button."""
    page = visit("hostile", java_script_enabled=False)
    assert page.locator(".more:visible").count() == 15
    assert not page.get_by_role("button", name="Open all").is_visible()


def test_features_beyond_200_come_on_demand(visit) -> None:
    """A button adds further features, a link to a later one all."""
    page = visit("widest")
    features, button = page.locator("#table > tbody"), page.get_by_role("button", name="200 more")
    assert features.count() == 200
    # A page that grows where it is scrolled to moves the button from under the pointer.
    height = page.evaluate("document.body.scrollHeight")
    button.hover()
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.evaluate("document.body.scrollHeight") == height
    button.click()
    assert features.count() == 400
    page.evaluate("location.hash = 'feature-feature_0999'")
    page.locator("#feature-feature_0999 .more").wait_for(state="visible")
    assert features.count() == 1000
    assert page.locator("#feature-feature_0999 .wide svg").is_visible()
    assert not button.is_visible()


@pytest.mark.parametrize(("name", "features", "secs"), [("wide", 100, 3), ("widest", 1000, 15)])
def test_it_opens_at_once(visit, name: str, features: int, secs: float) -> None:
    """The page loads and sorts within a bound for busy machines."""
    page = visit(name)
    ready = page.evaluate(
        "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000"
    )
    sorting = page.evaluate(
        "() => { const t = performance.now(); order('drift', 'descending'); "
        "document.body.offsetHeight; return (performance.now() - t) / 1000 }"
    )
    assert ready < secs
    assert sorting < secs
    assert len(shown_names(page)) == features
