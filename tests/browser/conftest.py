# pyright: reportMissingImports=false
"""A real browser: Chromium from the system, without a screen, driven by Playwright; skipped where there is none."""

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
    """Chromium with software drawing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
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
    """An empty page, small, so that software draws it fast."""
    opened = browser.new_page(viewport={"width": 960, "height": 540})
    opened.set_default_timeout(30_000)
    yield opened
    opened.close()
