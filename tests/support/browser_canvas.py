# pyright: reportMissingImports=false
"""How tests look at a page: pictures of its canvas as arrays."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

PATIENCE = 60.0
"""How long something may take to happen in a browser that draws by software [s]."""


def picture(tab: Page) -> np.ndarray:
    """What the middle of the page shows, [height, width, 3]."""
    from PIL import Image

    shot = tab.screenshot(clip={"x": 320, "y": 60, "width": 300, "height": 350})
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), dtype=np.int16)


def changed(before: np.ndarray, after: np.ndarray) -> float:
    """Share of pixels that differ by more than compression or rounding could."""
    return float((np.abs(before - after).max(axis=2) > 12).mean())


def eventually(tab: Page, happened: Callable[[], bool], what: str) -> None:
    """Wait for something that a page or a server does in its own time."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE:g} s"
        tab.wait_for_timeout(100)
