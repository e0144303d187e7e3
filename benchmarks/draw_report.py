"""Draws the pictures of the report in README and docs, by Chromium.

beam-pipelines convert examples/flights/encoded.yaml --output out/flights-encoded
python -m benchmarks.draw_report out/flights-encoded/report.html
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from playwright import sync_api

from tests.support.chromium import CHROMIUM, OPTIONS

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"


def main(report: str) -> None:
    """Writes three pictures.

    Args:
      report: path of the page.
    """
    address = pathlib.Path(report).resolve().as_uri()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = _open(browser, address, "light", 800)
        page.screenshot(path=IMAGES / "report.png")
        page.locator("#encodings").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('encodings').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-encodings.png")
        page = _open(browser, address, "dark", 900)
        page.get_by_label("Sort").select_option("label")
        page.locator("#table > tbody button").first.click()
        page.evaluate("document.getElementById('features').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-features.png")
        browser.close()


def _open(browser: Any, address: str, scheme: Any, height: int) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme=scheme)
    page.goto(address)
    return page


if __name__ == "__main__":
    main(sys.argv[1])
