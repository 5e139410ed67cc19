# pyright: reportAttributeAccessIssue=false
"""Check the files and counts that a model refers to before MuJoCo reads it: some would make it hang."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import mujoco

from ahac.core.errors import ModelError

__all__ = ["ROBOT_SUFFIXES", "check_assets", "check_file", "check_text", "resolve_packages"]

ROBOT_SUFFIXES = (".xml", ".mjcf", ".urdf")
MOST_COPIES = 4000
"""Maximum number of copies a file may request; loading time grows quadratically, to about 5 s at this number."""
TAG = re.compile(r"<(/?)(include|model|replicate|composite|flexcomp)\b([^>]*?)(/?)>")
PACKAGE = re.compile(r"package:/+([^/]+)/(.+)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def check_text(text: str, folder: Path, included: Mapping[str, bytes]) -> None:
    """Raise ModelError for an MJCF that requests too many copies, or includes something that is not a regular file.

    Args:
        text: The XML; all other errors in it are left to MuJoCo.
        folder: Folder of the files that it includes.
        included: Files passed in memory instead, by name.
    """
    copies = 0.0
    visited = set[str]()
    unread = [(text, 1.0)]
    while unread:
        current, times = unread.pop()
        nested = [times]  # number of copies of an element at each level of nested <replicate>
        for closing, tag, attributes, empty in TAG.findall(COMMENT.sub("", current)):
            if closing:
                if tag == "replicate" and len(nested) > 1:
                    nested.pop()
            elif tag in ("include", "model"):
                name = _attribute(attributes, "file")
                if name and name not in visited:
                    visited.add(name)
                    unread.append((_included(name, folder, included), nested[-1]))
            else:
                count = nested[-1] * _count(attributes)
                copies += count
                if tag == "replicate" and not empty:
                    nested.append(count)
    if copies > MOST_COPIES:
        raise ModelError(
            f"the model requests {copies:.0f} copies by <replicate>, <composite> or <flexcomp>; at most {MOST_COPIES} "
            "can be loaded: lower their counts"
        )


def check_file(path: Path, included: Mapping[str, bytes]) -> None:
    """Apply `check_text` to a model file."""
    check_text(_contents(path), path.parent, included)


def resolve_packages(spec: mujoco.MjSpec, path: Path, in_memory: Collection[str]) -> None:
    """Replace package://NAME/REST in the meshes of a URDF by the file in the parent folders of the URDF.

    A parent folder called NAME is the package; a folder NAME in a parent folder may be; else REST is taken relative to
    any parent folder. What is not found is left to MuJoCo.

    Args:
        spec: The specification that MuJoCo has read.
        path: Path of the URDF.
        in_memory: Names of the files passed in memory, which take precedence.
    """
    for asset in (*spec.meshes, *spec.textures):
        match = PACKAGE.match(asset.file)
        if match is None or Path(asset.file).name in in_memory:
            continue
        name, rest = match.groups()
        candidates = [parent / rest for parent in path.parents if parent.name == name]
        candidates += [parent / name / rest for parent in path.parents]
        candidates += [parent / rest for parent in path.parents]
        found = next((candidate for candidate in candidates if candidate.is_file()), None)
        if found is not None:
            asset.file = str(found)


def check_assets(spec: mujoco.MjSpec, in_memory: Collection[str]) -> None:
    """Raise ModelError for meshes, textures and height fields that are not regular files, unless passed in memory."""
    for name, subfolder in _asset_files(spec):
        if name and name not in in_memory:
            for folder in (Path(spec.modelfiledir) / subfolder, Path(subfolder), Path(spec.modelfiledir), Path()):
                _check_regular(folder / name)


def _asset_files(spec: mujoco.MjSpec) -> Iterator[tuple[str, str]]:
    """Yield file names, each with the folder that the <compiler> section sets for its kind."""
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
    """Return a file's text; empty if it cannot be read, which MuJoCo will report."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def _check_regular(path: Path) -> None:
    """Raise ModelError for pipes, sockets and devices: reading them may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # missing, which MuJoCo will report
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelError(
            f"the model refers to {str(path)!r}, which is a pipe, socket or device; expected a regular file"
        )


def _count(attributes: str) -> float:
    """Return the number of copies along all axes; 1 if there is no readable count."""
    try:
        return math.prod(float(number) for number in _attribute(attributes, "count").split()) or 1.0
    except ValueError:
        return 1.0


def _attribute(attributes: str, name: str) -> str:
    match = re.search(rf"""\b{name}\s*=\s*(["'])(.*?)\1""", attributes, re.DOTALL)
    return match[2] if match else ""
