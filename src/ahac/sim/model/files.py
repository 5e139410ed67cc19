# pyright: reportAttributeAccessIssue=false
"""What a model refers to, checked before MuJoCo reads it: some files and counts would keep it busy for ever."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import mujoco

from ahac.core.errors import ModelError

__all__ = ["ROBOT_SUFFIXES", "check_assets", "check_file", "check_text"]

ROBOT_SUFFIXES = (".xml", ".mjcf", ".urdf")
MOST_COPIES = 4000
"""What a file may ask for by counts; MuJoCo's time grows with the square, to about 5 seconds for these."""
TAG = re.compile(r"<(/?)(include|model|replicate|composite|flexcomp)\b([^>]*?)(/?)>")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def check_text(text: str, folder: Path, included: Mapping[str, bytes]) -> None:
    """Refuse an MJCF that asks for too many copies, or includes what is not a regular file.

    Args:
        text: The XML; what is wrong with it otherwise is left to MuJoCo.
        folder: Where the files are that it includes.
        included: Files that are given in memory instead, by name.
    """
    copies = 0.0
    seen = set[str]()
    unread = [(text, 1.0)]
    while unread:
        current, times = unread.pop()
        nested = [times]  # how often each element occurs here, by the <replicate>s around it
        for closing, tag, attributes, empty in TAG.findall(COMMENT.sub("", current)):
            if closing:
                if tag == "replicate" and len(nested) > 1:
                    nested.pop()
            elif tag in ("include", "model"):
                name = _attribute(attributes, "file")
                if name and name not in seen:
                    seen.add(name)
                    unread.append((_included(name, folder, included), nested[-1]))
            else:
                count = nested[-1] * _count(attributes)
                copies += count
                if tag == "replicate" and not empty:
                    nested.append(count)
    if copies > MOST_COPIES:
        raise ModelError(
            f"the model asks for {copies:.0f} copies by <replicate>, <composite> or <flexcomp>; at most {MOST_COPIES} "
            "can be loaded: lower their counts"
        )


def check_file(path: Path, included: Mapping[str, bytes]) -> None:
    """The same for the file of a model."""
    check_text(_contents(path), path.parent, included)


def check_assets(spec: mujoco.MjSpec, given: Collection[str]) -> None:
    """Refuse meshes, textures and height fields that are no regular files, unless they are given in memory."""
    for name, subfolder in _asset_files(spec):
        if name and name not in given:
            for folder in (Path(spec.modelfiledir) / subfolder, Path(subfolder), Path(spec.modelfiledir), Path()):
                _check_regular(folder / name)


def _asset_files(spec: mujoco.MjSpec) -> Iterator[tuple[str, str]]:
    """Names of files, with the folder that the compiler section has for their kind."""
    for asset in (*spec.meshes, *spec.hfields, *spec.skins):
        yield asset.file, spec.meshdir
    for texture in spec.textures:
        yield texture.file, spec.texturedir
        for name in texture.cubefiles:
            yield name, spec.texturedir


def _included(name: str, folder: Path, included: Mapping[str, bytes]) -> str:
    if name in included:
        return included[name].decode("utf-8", errors="replace")
    _check_regular(folder / name)
    return _contents(folder / name)


def _contents(path: Path) -> str:
    """Empty if it cannot be read, which MuJoCo will say."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def _check_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices: reading them may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # there is none, which MuJoCo will say
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelError(f"the model refers to {str(path)!r}, which is a pipe, socket or device; wanted a regular file")


def _count(attributes: str) -> float:
    """Of copies along all axes; 1 if there is none that could be read."""
    try:
        return math.prod(float(number) for number in _attribute(attributes, "count").split()) or 1.0
    except ValueError:
        return 1.0


def _attribute(attributes: str, name: str) -> str:
    found = re.search(rf"""\b{name}\s*=\s*(["'])(.*?)\1""", attributes, re.DOTALL)
    return found[2] if found else ""
