"""Checkpoints: tensors as safetensors, the rest as JSON; complete or absent, never half.

A checkpoint is one file. A crash in the middle of a write leaves the previous one as it was (`files.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ahac.core.errors import AhacError
from ahac.core.files import replacing

__all__ = ["VERSION", "Checkpoint", "CheckpointError", "load_checkpoint", "read_numbers", "save_checkpoint"]

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
    """Iteration, environment steps, seconds, best score, failures in a row."""

    def part(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner."""
        prefix = f"{owner}/"
        return {name.removeprefix(prefix): x for name, x in self.tensors.items() if name.startswith(prefix)}


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().contiguous().cpu() for name, value in checkpoint.tensors.items()}
    header = {"version": str(VERSION), "numbers": json.dumps(dict(checkpoint.numbers))}
    with replacing(path) as unfinished:
        save_file(tensors, unfinished, metadata=header)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint."""
    with _opened(path) as (file, numbers):
        return Checkpoint({name: file.get_tensor(name) for name in file.keys()}, numbers)  # noqa: SIM118 - no dictionary


def read_numbers(path: Path) -> dict[str, float]:
    """The numbers of a checkpoint, without its tensors."""
    with _opened(path) as (_, numbers):
        return numbers


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, float]]]:
    """A checkpoint's file and numbers."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("version") != str(VERSION):
                got = header.get("version", "none")
                raise CheckpointError(f"{path} has checkpoint version {got}, this program reads version {VERSION}")
            yield file, json.loads(header["numbers"])
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint: {error}; take another one of the run") from error
