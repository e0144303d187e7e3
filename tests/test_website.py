"""The pages, the navigation and the links of the site."""

from __future__ import annotations

import functools
import http.server
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe.reader import parse_recipe
from beam_pipelines.sources import FORMATS
from tests.support.chromium import MARKS
from website import build

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITE = ROOT / "out" / "docs"
# Pages with wide tables, long lines of code, diagrams, a picture, and a generated one.
WIDE_PAGES = (
    "index", "ARCHITECTURE", "docs/api", "docs/cli", "docs/performance", "docs/recipe",
    "docs/report", "docs/serving",
)  # fmt: skip
# What users look for, and the page that answers.
PAGE_OF_WORDS = {
    "oversampling": "cookbook", "normalize": "cookbook", "currency": "cookbook",
    "kubernetes": "daily", "mixed dates": "cookbook", "upgrade": "install",
    "class imbalance": "cookbook", "padded ids": "cookbook",
}  # fmt: skip


def site_in_chromium(test):
    """Marks a test of the built site."""
    no_site = pytest.mark.skipif(not SITE.exists(), reason="found no site; `make docs` builds it")
    for mark in (*MARKS, no_site):
        test = mark(test)
    return test


class NamesOnly(yaml.SafeLoader):
    """A loader that takes the names of Python objects as nothing."""


NamesOnly.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def entries(nav: Any) -> list[str]:
    """Returns the pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in entries(part)]


def test_every_page_is_in_the_navigation():
    """The navigation names each page of the repository once, and no other."""
    config = yaml.load((ROOT / "website" / "mkdocs.yml").read_text(), NamesOnly)  # noqa: S506
    pages = [
        path.relative_to(ROOT).as_posix() for pattern in build.PAGES for path in ROOT.glob(pattern)
    ]
    assert sorted(entries(config["nav"])) == sorted(pages)


@pytest.fixture
def repository(tmp_path):
    """A page with links of every kind."""
    for name, text in {
        "README.md": (
            "# Top\n\n<!-- run: flights -->\n```console\n$ ls [a](recipe.yaml)\n```\n\n"
            "[a](docs/a.md#one) [`b`](recipe.yaml#L1) ![c](c.png) [d](docs/) [e](https://e.e/f.py) "
            "`[g](recipe.yaml)` [h](first.ipynb)\n"
            '<picture><source srcset="dark.svg"><img src="light.svg"></picture>\n'
        ),
        "docs/a.md": "# A\n\n## One\n",
        "CHANGELOG.md": "# Changes\n",
        "recipe.yaml": "name: r  # ```\n",
        "c.png": "",
        "dark.svg": "",
        "light.svg": "",
        "first.ipynb": (
            '{"cells": [{"cell_type": "markdown", "source": ["# Note\\n", "text"]}, '
            '{"cell_type": "code", "source": ["1 + 1"]}]}'
        ),
        "website/extra.css": "",
        "unlinked.yaml": "",
    }.items():
        build.write(tmp_path / "root" / name, text)
    return tmp_path / "root"


def test_pages_are_copied_with_the_files_that_they_link_to(repository, tmp_path):
    """A linked file becomes a page.

    Blocks, code and other links stay as they are.
    """
    build.write_pages(repository, tmp_path / "pages")
    found = {
        path.relative_to(tmp_path / "pages").as_posix(): path.read_text()
        for path in (tmp_path / "pages").rglob("*.*")
    }
    assert found == {
        "README.md": (
            "# Top\n\n```console\n$ ls [a](recipe.yaml)\n```\n\n"
            "[a](docs/a.md#one) [`b`](recipe.yaml.md#L1) ![c](c.png) [d](docs/) "
            "[e](https://e.e/f.py) `[g](recipe.yaml)` [h](first.ipynb.md)\n"
            '<picture><source srcset="dark.svg"><img src="light.svg"></picture>\n'
        ),
        "docs/a.md": "# A\n\n## One\n",
        "CHANGELOG.md": "---\nsearch:\n  exclude: true\n---\n\n# Changes\n",
        "recipe.yaml.md": (
            "---\nsearch:\n  exclude: true\n---\n\n# recipe.yaml\n\n"
            "````yaml\nname: r  # ```\n````\n"
        ),
        "c.png": "",
        "dark.svg": "",
        "light.svg": "",
        "first.ipynb.md": "# Note\ntext\n\n```python\n1 + 1\n```\n",
        "website/extra.css": "",
    }


def test_programs_get_pages_their_list_and_a_skill(tmp_path):
    """Each page is there as Markdown.

    ``llms.txt`` names all, and the skill has its pages.
    """
    build.write_for_programs(ROOT, tmp_path)
    listed = (tmp_path / "llms.txt").read_text()
    for pattern in build.PAGES:
        for page in ROOT.glob(pattern):
            name = page.relative_to(ROOT).as_posix()
            assert f"]({name}): " in listed
            assert (tmp_path / name).read_text().startswith(page.read_text()[:20])
    assert "- [Encodings](docs/encodings.md): An encoding makes a feature from a column" in listed
    skill = (tmp_path / "skill" / "SKILL.md").read_text()
    assert set(yaml.safe_load(skill.split("---")[1])) == {"name", "description"}
    for name in build.SKILL_PAGES.findall(skill):
        assert "<!-- run" not in (tmp_path / "skill" / "pages" / name).read_text()
    (recipe,) = re.findall(r"(?s)```yaml\n(.*?)```", skill)
    parse_recipe(recipe, "skill.yaml", formats=FORMATS, encodings=ENCODING_FOR_KIND)


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("b.html", False),
        ("b.html#one", False),
        ("#top", False),
        ("folder/", False),
        ("../site/b.html", False),
        ("https://e.e/none.html", False),
        ("b%2Ehtml", False),
        ("none.html", True),
        ("b.html#two", True),
        ("#two", True),
        ("empty/", True),
    ],
)
def test_broken_links_are_found(tmp_path, link, is_broken):
    """A link to no file, or to no anchor, is broken."""
    site = tmp_path / "site"
    build.write(site / "a.html", f'<h1 id="top">A</h1><a href="{link}">b</a>')
    build.write(site / "b.html", '<h1 id="one">B</h1>')
    build.write(site / "folder" / "index.html", "")
    (site / "empty").mkdir()
    assert list(build.broken_links(site)) == ([f"a.html: {link}"] if is_broken else [])


@site_in_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_window(browser, width):
    """Wide tables and code scroll in frames of their own."""
    wider = {}
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name in WIDE_PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        wider[name] = page.evaluate(
            "(root => root.scrollWidth - root.clientWidth)(document.documentElement)"
        )
    page.close()
    assert max(wider.values()) <= 0, wider


@site_in_chromium
def test_no_page_is_taller_than_fourteen_screens_of_a_phone(browser):
    """A topic that needs more is two pages."""
    heights = {}
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for path in SITE.rglob("*.html"):
        page.goto(path.as_uri())
        heights[path.name] = page.evaluate("document.documentElement.scrollHeight")
    page.close()
    assert {name: height for name, height in heights.items() if height > 12_000} == {}


@pytest.fixture
def served_site() -> Iterator[str]:
    """The address of the site; the search needs a server."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@site_in_chromium
def test_words_of_users_find_the_right_page_first(browser, served_site):
    """The search knows what users call a thing."""
    from playwright.sync_api import expect

    page = browser.new_page()
    page.goto(f"{served_site}/index.html")
    query = page.get_by_role("combobox")
    # The page listens to keys once its scripts have run.
    while not query.is_visible():
        page.keyboard.press("/")
        page.wait_for_timeout(100)
    for words, name in PAGE_OF_WORDS.items():
        query.fill(words)
        # Addresses of results hold the words, so that those of the last ones do not count.
        first = page.locator(f"a[href*='?h={words.replace(' ', '+')}']").first
        expect(first).to_have_attribute("href", re.compile(f"docs/{name}.html"), timeout=60_000)
    page.close()


@site_in_chromium
def test_pages_need_no_network(browser):
    """Pages load files of the site only."""
    page, asked = browser.new_page(), set()
    page.on("request", lambda request: asked.add(request.url))
    for name in WIDE_PAGES:
        page.goto((SITE / f"{name}.html").as_uri(), wait_until="networkidle")
    page.close()
    assert asked
    assert {url for url in asked if not url.startswith(("file:", "data:", "blob:"))} == set()
