# pyright: reportMissingImports=false
"""A real browser: the system's Chromium, headless, driven by Playwright; skipped if there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium with software rendering."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs Chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--enable-unsafe-swiftshader"]
        )
        yield running
        running.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """An empty page, small enough for fast software rendering."""
    page = browser.new_page(viewport={"width": 960, "height": 540})
    page.set_default_timeout(30_000)
    yield page
    page.close()
