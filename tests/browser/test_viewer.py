# pyright: reportMissingImports=false
"""The live viewer in a real browser: it loads, moves, pauses, steps, resets, and survives a closed page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ahac.core.errors import InputError
from ahac.view.sources import TrajectorySource, Velocity
from ahac.view.trajectory import Frame
from ahac.view.viewer import serve
from support.browser_canvas import PATIENCE, changed, eventually, picture
from support.sample_scene import falling_ball

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.extended


class Counting(TrajectorySource):
    """A trajectory source that counts calls."""

    checkpoints = ("last", "best")
    command_ranges = ((-0.5, 1.0), (0.0, 0.0), (-0.33, 0.8))
    command = (-0.52, 0.0, 0.0)

    def __init__(self) -> None:
        super().__init__(falling_ball(frames=2000, worlds=2, dt=0.02))
        self.resets = self.steps = self.pushes = 0
        self.loaded: list[str] = []
        self.commanded: list[Velocity | None] = []

    def reset(self) -> Frame:
        self.resets += 1
        return super().reset()

    def step(self) -> Frame:
        self.steps += 1
        return super().step()

    def push(self) -> None:
        self.pushes += 1
        raise InputError("this robot cannot be pushed")

    def load_checkpoint(self, name: str) -> None:
        self.loaded.append(name)

    def set_command(self, command: Velocity | None) -> None:
        self.commanded.append(command)


@pytest.fixture
def live() -> Iterator[tuple[Counting, str]]:
    """A running viewer, and its address."""
    pytest.importorskip("viser")
    source = Counting()
    stop = threading.Event()
    ready = threading.Event()
    addresses = []

    def announce(address: str) -> None:
        addresses.append(address)
        ready.set()

    thread = threading.Thread(
        target=serve, args=(source,), kwargs={"open_browser": False, "announce": announce, "stop": stop}
    )
    thread.start()
    assert ready.wait(PATIENCE)
    yield source, addresses[0]
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def opened(tab: Page, address: str) -> Page:
    tab.goto(address)
    tab.get_by_role("button", name="Reset").wait_for()
    return tab


@pytest.fixture
def shown(tab: Page, live: tuple[Counting, str]) -> Page:
    """The viewer's page, with a moving robot."""
    source, address = live
    opened(tab, address)
    steps = source.steps
    eventually(tab, lambda: source.steps > steps, "a step")
    return tab


def paused(tab: Page) -> Page:
    """Pause, and wait until the picture no longer changes: viser's canvas fades in."""
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="Play").wait_for()

    def still() -> bool:
        before = picture(tab)
        tab.wait_for_timeout(700)
        return changed(before, picture(tab)) == 0.0

    eventually(tab, still, "a still picture")
    return tab


def test_pause_stops_and_steps_move_the_robot(shown: Page, live: tuple[Counting, str]) -> None:
    source, _ = live
    before, steps = picture(paused(shown)), source.steps
    for _ in range(5):
        shown.get_by_role("button", name="Step").click()
    eventually(shown, lambda: source.steps == steps + 5, "five steps")
    eventually(shown, lambda: changed(before, picture(shown)) > 0.005, "movement")


def test_it_moves_by_itself_after_a_pause(shown: Page) -> None:
    before = picture(paused(shown))
    shown.get_by_role("button", name="Play").click()
    eventually(shown, lambda: changed(before, picture(shown)) > 0.005, "movement")


def test_reset_resets_the_source(shown: Page, live: tuple[Counting, str]) -> None:
    source, _ = live
    resets = source.resets
    shown.get_by_role("button", name="Reset").click()
    eventually(shown, lambda: source.resets == resets + 1, "a reset")


def test_a_push_that_is_refused_is_explained(shown: Page, live: tuple[Counting, str]) -> None:
    source, _ = live
    shown.get_by_role("button", name="Push").click()
    shown.get_by_text("this robot cannot be pushed").wait_for()
    assert source.pushes == 1


def test_velocities_are_commanded_with_sliders(shown: Page, live: tuple[Counting, str]) -> None:
    source, _ = live
    forward, _, turn = shown.get_by_role("slider").all()
    forward.press("End")
    eventually(shown, lambda: source.commanded[-1:] == [(1.0, 0.0, 0.0)], "the fastest command forward")
    forward.press("Home")
    eventually(shown, lambda: source.commanded[-1] == (-0.55, 0.0, 0.0), "the command below that of the start")
    for _ in range(11):
        forward.press("ArrowRight")
    eventually(shown, lambda: source.commanded[-1] == (0.0, 0.0, 0.0), "a command to stand")
    turn.press("Home")
    eventually(shown, lambda: source.commanded[-1] == (0.0, 0.0, -0.35), "the fastest turn to the right")
    switch = shown.get_by_label("Command velocity")
    switch.uncheck()
    eventually(shown, lambda: source.commanded[-1] is None, "commands as in training")
    switch.check()
    eventually(shown, lambda: source.commanded[-1] == (0.0, 0.0, -0.35), "the sliders again")
    switch.uncheck()
    eventually(shown, lambda: source.commanded[-1] is None, "commands as in training")


def test_another_checkpoint_can_be_loaded(shown: Page, live: tuple[Counting, str]) -> None:
    source, _ = live
    shown.get_by_label("Checkpoint").first.click()
    shown.get_by_role("option", name="best").click()
    eventually(shown, lambda: source.loaded == ["best"], "the checkpoint")


def test_a_closed_page_can_be_opened_again(browser: Browser, live: tuple[Counting, str]) -> None:
    source, address = live
    for _ in range(2):
        tab = opened(browser.new_page(viewport={"width": 960, "height": 540}), address)
        steps = source.steps
        eventually(tab, lambda steps=steps: source.steps > steps, "a step")
        tab.close()
