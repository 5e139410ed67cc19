"""Policies as TorchScript, for C++ programs with libtorch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import torch

from ahac.deployment.program import PolicyProgram

__all__ = ["DESCRIPTION_FILE", "run_torchscript", "to_torchscript"]

DESCRIPTION_FILE = "ahac.json"
"""Name of the description inside the file."""


def to_torchscript(program: PolicyProgram, description: str) -> bytes:
    """Return the content of a .pt file that also has the description."""
    buffer = io.BytesIO()
    with _without_deprecation():
        # Two rows: with one, torch could record operations that hold for a batch of one only.
        traced = torch.jit.trace(program, torch.zeros(2, program.obs_size))
        torch.jit.save(traced, buffer, _extra_files={DESCRIPTION_FILE: description})
    return buffer.getvalue()


def run_torchscript(content: bytes, obs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of an exported policy for [batch, obs_size] observations."""
    with _without_deprecation(), torch.no_grad():
        result = torch.jit.load(io.BytesIO(content), map_location="cpu")(torch.from_numpy(obs))
    return [output.numpy() for output in (result if isinstance(result, tuple) else (result,))]


@contextmanager
def _without_deprecation() -> Generator[None]:
    """Hide that torch recommends torch.export instead; docs/decisions/0022-exports.md says why this is TorchScript."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", FutureWarning)
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        yield
