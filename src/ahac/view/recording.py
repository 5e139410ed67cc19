"""File formats of trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ahac.core.errors import InputError
from ahac.core.files import check_writable

if TYPE_CHECKING:
    from ahac.view.trajectory import Trajectory

__all__ = ["check_target", "formats_help", "save_recording"]

FORMATS = {
    ".html": "page that plays in any browser", ".mp4": "video", ".gif": "animated image", ".npz": "numbers",
}  # fmt: skip
"""Formats by suffix."""


def formats_help() -> str:
    """Return the list of file formats for a help text."""
    return ", ".join(f"{suffix} ({description})" for suffix, description in FORMATS.items())


def check_target(path: Path, what: str = "a recording") -> str:
    """Return the suffix of a file name; raise an error if it is not one of a trajectory, or cannot be written."""
    if path.suffix not in FORMATS:
        raise InputError(f"{what} must be a {', '.join(FORMATS)} file, got {path.name!r}; change the suffix")
    check_writable(path)
    return path.suffix


def save_recording(trajectory: Trajectory, path: Path) -> None:
    """Save a trajectory in the format that the file's suffix selects."""
    match check_target(path):
        case ".npz":
            trajectory.save(path)
        case ".html":
            from ahac.view.html_player import save_html

            save_html(trajectory, path)
        case _:
            from ahac.view.video import save_video

            save_video(trajectory, path)
