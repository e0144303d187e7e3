"""The browser of the tests that look at pages."""

from __future__ import annotations

import pytest

from tests.support.chromium import CHROMIUM, OPTIONS


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()
