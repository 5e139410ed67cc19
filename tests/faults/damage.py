"""Which files of a run are damaged, and in which ways."""

from __future__ import annotations

from pathlib import Path
from random import Random

from faults.damage_files import ANY_FILE, Damage
from faults.damage_tensors import CHECKPOINT, SEGMENT, TENSORS
from faults.damage_text import DICTIONARY, EVALUATION, TABLE

__all__ = ["WAYS", "absent", "path_of"]

WAYS: dict[str, dict[str, Damage]] = {
    "last": {**ANY_FILE, **TENSORS, **CHECKPOINT}, "best": {**ANY_FILE, **TENSORS},
    "iteration": {**ANY_FILE, **TENSORS}, "segment": {**ANY_FILE, **TENSORS, **SEGMENT},
    "config.json": {**ANY_FILE, **DICTIONARY},
    "evaluation.json": {**ANY_FILE, **EVALUATION},
    "metrics.csv": {**ANY_FILE, **TABLE}, "manifest.json": ANY_FILE,
}  # fmt: skip
"""Ways to damage each kind of file."""


def path_of(kind: str, run: Path, rng: Random) -> Path | None:
    """A file of that kind in a run's folder, if it has one."""
    if kind in ("last", "best"):
        found = [run / "checkpoints" / f"{kind}.safetensors"]
    elif kind == "iteration":
        found = sorted((run / "checkpoints").glob("iteration-*.safetensors"))
    elif kind == "segment":
        found = sorted((run / "replay").glob("rows-*.safetensors"))
    else:
        found = [run / kind]
    there = [path for path in found if path.is_file()]
    return rng.choice(there) if there else None


def absent(way: str) -> bool:
    """Whether nothing of the file is left, as if it had never been there."""
    return way in ("delete", "dangling link")
