# pyright: reportAttributeAccessIssue=false
"""Packages of the index that contain robot models: install them into a folder and find their files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import pack

__all__ = ["PACKAGES", "Robot", "find_robots", "install", "version"]

PACKAGES: dict[str, tuple[str, ...]] = {
    "gymnasium": (),
    "dm_control": (),
    "gymnasium-robotics": (),
    "playground": (),
    "mjlab": (),
    "robosuite": (),
    "metaworld": (),
    "pybullet": ("random_urdfs",),
    "myo-sim": (),
    "myosuite": (),
    "example-robot-data": (),
    "brax": (),
}
"""Names on the index, and folders to leave out; pybullet's hold a thousand random objects without joints."""
SUFFIXES = (".xml", ".mjcf", ".urdf")
COMMENT = re.compile(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^>]*>", re.DOTALL)
ROOT = re.compile(r"<([A-Za-z]\w*)")
ROOTS = {"mujoco": "mjcf", "robot": "urdf"}
COMPOSED = "composed"
"""Folder of the models that myo-sim's own functions put together from its fragments."""
COMPOSE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import myo_sim
from myo_sim.build.compose import MODEL_REGISTRY
out = pathlib.Path(sys.argv[1]) / sys.argv[2]
out.mkdir(exist_ok=True)
for name in sorted(MODEL_REGISTRY):
    spec = myo_sim.load_spec(name)
    spec.compile()
    folder = pathlib.Path(spec.modelfiledir)
    for element in (*spec.meshes, *spec.textures):
        if element.file:
            sub = spec.meshdir if element in spec.meshes else spec.texturedir
            element.file = str((folder / sub / element.file).resolve())
    spec.meshdir = spec.texturedir = ""
    (out / f"{name}.xml").write_text(spec.to_xml(), encoding="utf-8")
"""
CORNERS = ((0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
"""A PNG image of one pixel."""


class Robot:
    """One model file of a package."""

    def __init__(self, package: str, path: Path, folder: Path) -> None:
        self.package = package
        self.path = path
        self.file = path.relative_to(folder).as_posix()

    @property
    def key(self) -> str:
        """Name of the file across packages."""
        return f"{self.package}/{self.file}"


def install(package: str, cache: Path) -> Path:
    """Install a package without its dependencies, wheels only, unless it is there; return its folder."""
    folder = cache / package
    if version(folder) is None:
        sys.stderr.write(f"installing {package} into {folder}\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--only-binary=:all:", "--target", str(folder), package], check=True)
    if package == "myo-sim" and not (folder / COMPOSED).exists():
        subprocess.run([sys.executable, "-c", COMPOSE, str(folder), COMPOSED], check=True)
    return folder


def version(folder: Path) -> str | None:
    """Return the version of the package that was installed into a folder; None if there is none."""
    names = [path.name for path in folder.glob("*.dist-info")]
    return names[0].removesuffix(".dist-info").partition("-")[2] if names else None


def find_robots(package: str, folder: Path) -> Iterator[tuple[Robot, str]]:
    """Yield the MJCF and URDF files of a package with their kind; leave out fragments that others include."""
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()):
        if any(part in PACKAGES[package] for part in path.parts):
            continue
        root = ROOT.search(COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace")))
        if root is not None and root[1] in ROOTS:
            yield Robot(package, path, folder), ROOTS[root[1]]


def add_stand_ins(path: Path, cache: Path) -> int:
    """Write small stand-ins for the meshes and textures that an MJCF file names but its package lacks; count them.

    Some packages download these from elsewhere. Their robots have inertias and primitive feet of their own.
    """
    import mujoco

    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except (ValueError, mujoco.FatalError):
        return 0
    folders = {spec.meshdir: spec.meshes, spec.texturedir: spec.textures}
    if spec.meshdir == spec.texturedir:
        folders = {spec.meshdir: [*spec.meshes, *spec.textures]}
    count = 0
    for folder, elements in folders.items():
        for name in {element.file for element in elements if element.file}:
            missing = path.parent / folder / name
            if missing.exists() or not missing.resolve().is_relative_to(cache.resolve()):
                continue
            missing.resolve().parent.mkdir(parents=True, exist_ok=True)
            content = _stand_in(missing.suffix.lower())
            if content is not None:
                missing.resolve().write_bytes(content)
                count += 1
    return count


def _stand_in(suffix: str) -> bytes | None:
    if suffix == ".png":
        return PIXEL
    if suffix == ".obj":
        lines = [f"v {x} {y} {z}" for x, y, z in CORNERS] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES]
        return "\n".join(lines).encode() + b"\n"
    if suffix == ".stl":
        triangles = [pack("<12fH", 0, 0, 0, *(x for corner in face for x in CORNERS[corner]), 0) for face in FACES]
        return bytes(80) + pack("<I", len(FACES)) + b"".join(triangles)
    return None
