"""Checkpoints: tensors as safetensors, the rest as JSON; complete or absent, never half.

A checkpoint is one file. It is written beside its place and moved there: a crash in the middle of a write leaves the
previous one as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ahac.core.errors import AhacError

__all__ = ["VERSION", "Checkpoint", "CheckpointError", "load_checkpoint", "save_checkpoint"]

VERSION = 1
"""Of the format; a checkpoint of another one is refused."""


class CheckpointError(AhacError, RuntimeError):
    """A checkpoint that cannot be read, or belongs to another version or run."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a training run goes on from."""

    tensors: Mapping[str, Tensor]
    """Algorithm, environment, episodes: names have their owner in front."""
    numbers: Mapping[str, float]
    """Iteration, environment steps, seconds."""

    def part(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner."""
        prefix = f"{owner}/"
        return {name.removeprefix(prefix): x for name, x in self.tensors.items() if name.startswith(prefix)}


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().contiguous().cpu() for name, value in checkpoint.tensors.items()}
    header = {"version": str(VERSION), "numbers": json.dumps(dict(checkpoint.numbers))}
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        save_file(tensors, unfinished, metadata=header)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("version") != str(VERSION):
                got = header.get("version", "none")
                raise CheckpointError(f"{path} has checkpoint version {got}, this program reads version {VERSION}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint: {error}; take another one of the run") from error
    return Checkpoint(tensors, json.loads(header["numbers"]))
