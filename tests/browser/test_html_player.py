# pyright: reportMissingImports=false
"""The HTML player in a real browser, from file://: it plays, responds to input, and uses no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ahac.view.html_player import save_html
from support.browser_canvas import changed, eventually, picture
from support.sample_scene import falling_ball

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def shown(tab: Page, tmp_path: Path) -> Page:
    """An open HTML player of two worlds; script errors and network requests are failures."""
    save_html(falling_ball(frames=200, worlds=2), tmp_path / "ball.html")
    requests = []
    errors = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((tmp_path / "ball.html").as_uri())
    tab.wait_for_selector("body[data-time]")
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []
    assert not errors
    assert tab.locator("#error").is_hidden()
    return tab


def now(tab: Page) -> float:
    return float(tab.locator("body").get_attribute("data-time") or "nan")


def test_it_plays_by_itself(shown: Page) -> None:
    before, then = picture(shown), now(shown)
    eventually(shown, lambda: now(shown) != then, "the next frame")
    eventually(shown, lambda: changed(before, picture(shown)) > 0.005, "movement")


def test_pause_stops_and_keys_step(shown: Page) -> None:
    shown.keyboard.press("Space")
    assert shown.locator("#play").inner_text() == "Play"
    shown.wait_for_timeout(300)
    time, before = now(shown), picture(shown)
    shown.wait_for_timeout(500)
    assert now(shown) == time
    assert changed(before, picture(shown)) == 0.0
    shown.keyboard.press("Home")
    eventually(shown, lambda: now(shown) == 0.0, "the beginning")
    shown.keyboard.press("ArrowRight")
    eventually(shown, lambda: now(shown) == pytest.approx(0.03, abs=1e-3), "one frame")


def test_the_slider_seeks_and_forces_can_be_hidden(shown: Page) -> None:
    shown.locator("#seek").fill("1.2")
    eventually(shown, lambda: now(shown) == pytest.approx(1.2), "the requested time")
    before = picture(shown)
    shown.locator("#contacts").uncheck()
    eventually(shown, lambda: changed(before, picture(shown)) > 0.001, "the arrows to disappear")


def test_dragging_rotates_the_view(shown: Page) -> None:
    shown.keyboard.press("Space")
    shown.wait_for_timeout(300)
    before = picture(shown)
    shown.mouse.move(200, 200)
    shown.mouse.down()
    shown.mouse.move(320, 230)
    shown.mouse.up()
    eventually(shown, lambda: changed(before, picture(shown)) > 0.05, "a rotation")


def touch(tab: Page, *paths: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Move fingers over the canvas, each from one point to another."""
    hand = tab.context.new_cdp_session(tab)
    for kind, k in (("touchStart", 0), ("touchMove", 1)):
        points = [{"x": path[k][0], "y": path[k][1], "id": finger} for finger, path in enumerate(paths)]
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_rotates_the_view(shown: Page) -> None:
    shown.keyboard.press("Space")
    shown.wait_for_timeout(300)
    before = picture(shown)
    touch(shown, ((200, 200), (320, 230)))
    eventually(shown, lambda: changed(before, picture(shown)) > 0.05, "a rotation")


def test_two_fingers_zoom_in_and_out_again(shown: Page) -> None:
    shown.keyboard.press("Space")
    shown.wait_for_timeout(300)
    before = picture(shown)
    touch(shown, ((440, 200), (380, 200)), ((500, 200), (560, 200)))
    eventually(shown, lambda: changed(before, picture(shown)) > 0.05, "a larger picture")
    touch(shown, ((380, 200), (440, 200)), ((560, 200), (500, 200)))
    eventually(shown, lambda: changed(before, picture(shown)) < 0.02, "the picture from before")
