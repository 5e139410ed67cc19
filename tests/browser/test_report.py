# pyright: reportMissingImports=false
"""A report in a real browser, from file://: it shows tables and figures, and uses no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ahac.experiments.report.page import write_report
from support.run_folders import MANIFEST, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

FIGURES = 4
"""Curves of two tasks, aggregates, profiles."""
NAME = "<b onclick=x>&"
"""Part of a run's name."""
PLATFORM = "Linux-6.1.0-44-cloud-amd64-x86_64-with-glibc2.36"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two tasks and two algorithms."""
    folder = tmp_path_factory.mktemp("report")
    for task in ("ant", "hopper"):
        for algo in ("ahac", "ppo"):
            for seed in range(3):
                score = 100.0 * (seed + len(algo))
                run = folder / "runs" / f"{NAME}{task}-{algo}-s{seed}"
                write_run(run, seed, task=task, algo=algo, score=score, manifest={**MANIFEST, "platform": PLATFORM})
    write_report([folder / "runs"], folder / "report.html", reference="paper", title=NAME)
    return folder / "report.html"


@pytest.fixture
def shown(tab: Page, report: Path) -> Page:
    """An open report; messages in the console and requests are failures."""
    requests: list[str] = []
    messages: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.goto(report.as_uri())
    tab.wait_for_load_state("load")
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []
    assert len([url for url in requests if url.startswith("file://")]) == 1, "the page itself"
    assert not messages
    return tab


def test_all_figures_are_drawn(shown: Page) -> None:
    images = shown.locator("figure img")
    assert images.count() == FIGURES
    for k in range(FIGURES):
        image = images.nth(k)
        assert image.evaluate("image => image.complete && image.naturalWidth > 100 && image.naturalHeight > 50")
        assert image.get_attribute("alt")


def test_tables_are_shown_with_numbers_on_the_right(shown: Page) -> None:
    assert shown.locator("table").count() == 7
    summary = shown.locator("table").first
    assert summary.locator("tbody tr").count() == 4
    assert summary.locator("td", has_text="hopper").evaluate("cell => getComputedStyle(cell).textAlign") == "left"
    assert summary.locator("td").nth(2).evaluate("cell => getComputedStyle(cell).textAlign") == "right"


def test_a_machine_takes_one_line(shown: Page) -> None:
    row = shown.locator("table.lines tbody tr").first
    assert row.locator("td").last.inner_text() == PLATFORM
    assert row.evaluate("row => row.getBoundingClientRect().height") < 40


def test_names_are_text(shown: Page) -> None:
    assert shown.locator("h1").inner_text() == NAME
    assert shown.locator("b").count() == 0
    assert shown.get_by_text(f"{NAME}ant-ahac-s0").count() == 1


def test_contents_lead_to_sections(shown: Page) -> None:
    links = shown.locator("nav a")
    assert links.count() == 8 + 2 + 2
    shown.locator("nav a", has_text="Machines and versions").click()
    assert shown.evaluate("window.scrollY") > 100


def test_the_page_fits_its_window_and_wide_tables_scroll(shown: Page) -> None:
    for width in (1200, 400):
        shown.set_viewport_size({"width": width, "height": 800})
        assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
