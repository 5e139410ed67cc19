"""A file that is to be damaged, and damage to any file: its bytes, its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

__all__ = ["ANY_FILE", "Damage", "Scene", "flip", "rewrite"]


@dataclass(frozen=True)
class Scene:
    """A file to damage, and where its like can be found."""

    path: Path
    twin: Path
    """The same file of a run with another seed."""
    other: Path
    """The same file of another algorithm's run."""
    rng: Random


Damage = Callable[[Scene], str]
"""Damages a file and returns a description."""


def rewrite(change: Callable[[bytearray, Random], str]) -> Damage:
    def act(scene: Scene) -> str:
        content = bytearray(scene.path.read_bytes())
        said = change(content, scene.rng)
        scene.path.write_bytes(content)
        return said

    return act


def _truncate(content: bytearray, rng: Random) -> str:
    size = rng.randrange(1, len(content))
    del content[size:]
    return f"cut to {size} bytes"


def _empty(content: bytearray, rng: Random) -> str:
    content.clear()
    return "emptied"


def _zero(content: bytearray, rng: Random) -> str:
    size = min(rng.choice((16, 512, 4096)), len(content))
    first = rng.randrange(len(content) - size + 1)
    content[first : first + size] = bytes(size)
    return f"{size} bytes from {first} on are zero"


def _noise(content: bytearray, rng: Random) -> str:
    size = min(rng.choice((4, 64)), len(content))
    first = rng.randrange(len(content) - size + 1)
    content[first : first + size] = rng.randbytes(size)
    return f"{size} bytes from {first} on are random"


def flip(first: int, last: int) -> Callable[[bytearray, Random], str]:
    def act(content: bytearray, rng: Random) -> str:
        place = rng.randrange(first, min(last, len(content)))
        bit = rng.randrange(8)
        content[place] ^= 1 << bit
        return f"bit {bit} of byte {place} flipped"

    return act


def _append(content: bytearray, rng: Random) -> str:
    content += rng.randbytes(100)
    return "100 random bytes appended"


def _delete(scene: Scene) -> str:
    scene.path.unlink()
    return "deleted"


def _folder(scene: Scene) -> str:
    scene.path.unlink()
    scene.path.mkdir()
    return "a folder"


def _link(scene: Scene) -> str:
    scene.path.unlink()
    scene.path.symlink_to("nowhere")
    return "a link to nowhere"


def _of_twin(scene: Scene) -> str:
    shutil.copy(scene.twin, scene.path)
    return "that of the run with another seed"


def _of_other(scene: Scene) -> str:
    shutil.copy(scene.other, scene.path)
    return f"that of another algorithm ({scene.other.name})"


ANY_FILE: dict[str, Damage] = {
    "truncate": rewrite(_truncate), "empty": rewrite(_empty), "zero a block": rewrite(_zero),
    "random bytes": rewrite(_noise), "flip a bit": rewrite(flip(0, 2**40)), "append": rewrite(_append),
    "delete": _delete, "a folder in its place": _folder, "dangling link": _link, "twin's": _of_twin,
    "another algorithm's": _of_other,
}  # fmt: skip
