# pyright: reportMissingImports=false
"""The live viewer in a real browser: it loads, moves, pauses, steps, begins anew, and outlives a closed page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ahac.core.errors import InputError
from ahac.view.sources import TrajectorySource
from ahac.view.trajectory import Frame
from ahac.view.viewer import serve
from support.browser_canvas import PATIENCE, changed, eventually, picture
from support.sample_scene import falling_ball

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.extended


class Counting(TrajectorySource):
    """A recording that counts what is asked of it."""

    choices = ("last", "best")

    def __init__(self) -> None:
        super().__init__(falling_ball(frames=2000, worlds=2, dt=0.02))
        self.resets = self.steps = self.pushes = 0
        self.chosen: list[str] = []

    def reset(self) -> Frame:
        self.resets += 1
        return super().reset()

    def step(self) -> Frame:
        self.steps += 1
        return super().step()

    def push(self) -> None:
        self.pushes += 1
        raise InputError("this one stands firm")

    def choose(self, name: str) -> None:
        self.chosen.append(name)


@pytest.fixture
def live() -> Iterator[tuple[Counting, str]]:
    """A viewer at work, and its address."""
    pytest.importorskip("viser")
    stage = Counting()
    stop = threading.Event()
    ready = threading.Event()
    addresses = []

    def announce(address: str) -> None:
        addresses.append(address)
        ready.set()

    thread = threading.Thread(
        target=serve, args=(stage,), kwargs={"open_browser": False, "announce": announce, "stop": stop}
    )
    thread.start()
    assert ready.wait(PATIENCE)
    yield stage, addresses[0]
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def opened(tab: Page, address: str) -> Page:
    tab.goto(address)
    tab.get_by_role("button", name="Reset").wait_for()
    return tab


@pytest.fixture
def shown(tab: Page, live: tuple[Counting, str]) -> Page:
    """The viewer's page, with a robot in motion on it."""
    stage, address = live
    opened(tab, address)
    steps = stage.steps
    eventually(tab, lambda: stage.steps > steps, "a step")
    return tab


def paused(tab: Page) -> Page:
    """Pause, and wait until the picture stands still: viser's canvas fades in."""
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="Play").wait_for()

    def still() -> bool:
        before = picture(tab)
        tab.wait_for_timeout(700)
        return changed(before, picture(tab)) == 0.0

    eventually(tab, still, "a picture that stands still")
    return tab


def test_pause_stops_and_steps_move_the_robot(shown: Page, live: tuple[Counting, str]) -> None:
    stage, _ = live
    before, steps = picture(paused(shown)), stage.steps
    for _ in range(5):
        shown.get_by_role("button", name="Step").click()
    eventually(shown, lambda: stage.steps == steps + 5, "five steps")
    eventually(shown, lambda: changed(before, picture(shown)) > 0.005, "movement")


def test_it_moves_by_itself_after_a_pause(shown: Page) -> None:
    before = picture(paused(shown))
    shown.get_by_role("button", name="Play").click()
    eventually(shown, lambda: changed(before, picture(shown)) > 0.005, "movement")


def test_reset_begins_anew(shown: Page, live: tuple[Counting, str]) -> None:
    stage, _ = live
    resets = stage.resets
    shown.get_by_role("button", name="Reset").click()
    eventually(shown, lambda: stage.resets == resets + 1, "a reset")


def test_a_push_that_is_refused_is_explained(shown: Page, live: tuple[Counting, str]) -> None:
    stage, _ = live
    shown.get_by_role("button", name="Push").click()
    shown.get_by_text("this one stands firm").wait_for()
    assert stage.pushes == 1


def test_another_checkpoint_can_be_chosen(shown: Page, live: tuple[Counting, str]) -> None:
    stage, _ = live
    shown.get_by_label("Checkpoint").first.click()
    shown.get_by_role("option", name="best").click()
    eventually(shown, lambda: stage.chosen == ["best"], "the choice")


def test_a_closed_page_can_be_opened_again(browser: Browser, live: tuple[Counting, str]) -> None:
    stage, address = live
    for _ in range(2):
        tab = opened(browser.new_page(viewport={"width": 960, "height": 540}), address)
        steps = stage.steps
        eventually(tab, lambda steps=steps: stage.steps > steps, "a step")
        tab.close()
