"""Checkpoints: the full training state in one file, written atomically.

The checkpoint of a pretrained policy has only what acting needs, see `Checkpoint.policy_only`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from ahac.core.files import make_folder
from ahac.training.tensor_files import CheckpointError, read_header, read_tensors, write_tensors

__all__ = [
    "LAST",
    "Checkpoint",
    "CheckpointError",
    "checkpoint_names",
    "is_policy_only",
    "load_checkpoint",
    "newest_first",
    "save_checkpoint",
]

LAST = "last"
"""Name of the checkpoint from which a run resumes."""
POLICY = "policy"
"""Value of `contents` in the header of a checkpoint that has only a policy; other checkpoints have no such entry."""
LARGEST_COUNT = 2**53
"""Largest count that a 64-bit float represents exactly, along with all smaller ones."""


@dataclass(frozen=True)
class Checkpoint:
    """State of a training run after an iteration."""

    tensors: Mapping[str, Tensor]
    """Tensors of the algorithm, the environment and the trainer, named OWNER/NAME."""
    numbers: Mapping[str, float]
    """Iteration, environment steps, seconds, best return, consecutive failed iterations."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the run when the checkpoint was written; empty in checkpoints of version 0.1.0."""
    table: str = ""
    """Checksum of the rows of metrics.csv up to this iteration; empty in checkpoints of version 0.1.0."""
    policy_only: bool = False
    """Whether it has only what acting needs, policy and observation normalizer; training cannot resume from it."""

    def section(self, owner: str) -> dict[str, Tensor]:
        """Return the tensors of one owner, without the owner's prefix."""
        prefix = f"{owner}/"
        return {name.removeprefix(prefix): x for name, x in self.tensors.items() if name.startswith(prefix)}

    def check(self) -> None:
        """Raise a CheckpointError if training cannot resume from the numbers."""
        for name in ("iteration", "env_steps"):
            self.count(name)
        self.number("seconds")
        if "best" not in self.numbers:
            raise CheckpointError("a checkpoint needs a number 'best', got none")
        for name in {"failures", "compile_seconds"} & self.numbers.keys():
            self.number(name)

    def count(self, name: str) -> int:
        """Return a required number as a non-negative integer."""
        value = self.number(name)
        if not 0 <= value <= LARGEST_COUNT or value != int(value):
            raise CheckpointError(f"{name} must be a whole number from 0 to 2**53 in a checkpoint, got {value}")
        return int(value)

    def number(self, name: str) -> float:
        """Return a required finite number."""
        if not math.isfinite(value := self.numbers.get(name, math.nan)):
            raise CheckpointError(f"a checkpoint needs a finite number {name!r}, got {value}")
        return value


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    make_folder(path.parent)
    numbers = json.dumps(dict(checkpoint.numbers))
    settings = json.dumps(dict(checkpoint.settings))
    contents = {"contents": POLICY} if checkpoint.policy_only else {}
    header = {"numbers": numbers, "settings": settings, "table": checkpoint.table, **contents}
    write_tensors(path, checkpoint.tensors, header)


def load_checkpoint(path: Path) -> Checkpoint:
    """Load a checkpoint; raise a CheckpointError if it is damaged."""
    tensors, header = read_tensors(path)
    settings = _dictionary(path, header.get("settings", "{}"), "settings")
    policy_only = header.get("contents") == POLICY
    return Checkpoint(tensors, _numbers(path, header), settings, header.get("table", ""), policy_only)


def is_policy_only(path: Path) -> bool:
    """Return whether a file is the checkpoint of a pretrained policy; False if it is missing or unreadable.

    Only its header is read. Damage is reported when the checkpoint is loaded.
    """
    try:
        return read_header(path).get("contents") == POLICY
    except CheckpointError:
        return False


def checkpoint_names(folder: Path) -> list[str]:
    """Return the names of the checkpoints in a folder, without temporary files."""
    return sorted(path.stem for path in folder.glob("[!.]*.safetensors") if path.is_file())


def newest_first(names: Iterable[str]) -> list[str]:
    """Sort checkpoint names: the last checkpoint, then iterations in descending order, then others."""
    return sorted(names, key=lambda name: (name == LAST, name.startswith("iteration-"), name), reverse=True)


def _numbers(path: Path, header: Mapping[str, str]) -> dict[str, float]:
    numbers = _dictionary(path, header.get("numbers", ""), "numbers")
    for name, value in numbers.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or value != value or (abs(value) > sys.float_info.max and value != -math.inf):
            raise CheckpointError(f"{path} is damaged: {name} must be a number, got {str(value)[:60]}")
    return numbers


def _dictionary(path: Path, text: str, name: str) -> dict[str, Any]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: the {name} in its header are not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is damaged: the {name} in its header must be a dictionary, got {content!r}")
    return cast("dict[str, Any]", content)
