"""Tensors in safetensors files with a checksum, so that damage is detected before anything is loaded.

The checksum covers the names, types, shapes and bytes of all tensors and the rest of the header.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ahac.core.errors import AhacError
from ahac.core.files import atomic_write

__all__ = ["FORMAT", "CheckpointError", "read_header", "read_tensors", "write_tensors"]

logger = logging.getLogger("ahac")

FORMAT = 2
"""Version of the file format. Version 1 had no checksum and can still be read."""


class CheckpointError(AhacError, RuntimeError):
    """A checkpoint or replay segment is missing, damaged, or belongs to another version or run."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write tensors and header strings atomically, with a checksum of both."""
    on_host = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
    header = {**header, "version": str(FORMAT)}
    content = save(on_host, metadata={**header, "checksum": _checksum(on_host, header)})
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and header strings of a file; raise a CheckpointError if it is damaged."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    try:
        reader: Any = safe_open(path, framework="pt")
        with reader as file:
            header: dict[str, str] = dict(file.metadata() or {})
            version = header.get("version", "none")
            if version not in ("1", str(FORMAT)):
                raise CheckpointError(f"{path} has format version {version}; this program reads versions 1 to {FORMAT}")
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from error
    checksum = header.pop("checksum", None)
    if version == "1":
        logger.warning("%s was written by version 0.1.0, without a checksum: damage cannot be detected", path)
    elif checksum != _checksum(tensors, header):
        raise CheckpointError(f"{path} is damaged: its checksum does not match its content")
    return tensors, header


def read_header(path: Path) -> dict[str, str]:
    """Return the header strings of a file without reading its tensors or verifying its checksum."""
    try:
        reader: Any = safe_open(path, framework="pt")
        with reader as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from error


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
