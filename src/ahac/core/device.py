"""Selection of the torch device from its name."""

from __future__ import annotations

import re

import torch

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError

__all__ = ["fallback_device", "resolve_device", "resolve_run_device"]

MPS_PROCESSES = 48
"""Most processes that NVIDIA MPS serves at a time on one GPU, from Volta to Hopper."""


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the torch device for a name, with its index, so that it compares equal to the device of a tensor."""
    try:
        requested = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be 'cpu' or a CUDA device such as 'cuda:0', got {device!r}") from error
    if requested.type == "cpu":
        return torch.device("cpu")
    if requested.type != "cuda":
        raise InputError(f"device must be 'cpu' or a CUDA device such as 'cuda:0', got {device!r}")
    if not torch.cuda.is_available():
        raise InputError(f"device {device!r} is not available: torch finds no CUDA device; use device='cpu'")
    index = torch.cuda.current_device() if ":" not in str(device) else requested.index
    if index >= torch.cuda.device_count():
        raise InputError(
            f"device {device!r} is not available: the number of CUDA devices is {torch.cuda.device_count()}"
        )
    _check_usable(torch.device("cuda", index))
    return torch.device("cuda", index)


def resolve_run_device(device: str, ranks: ProcessGroup = SINGLE_PROCESS) -> str:
    """Return the device name for a run: "auto" uses CUDA if available, and each of several ranks gets its own GPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    check_run_device(device)
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} is not available: torch finds no CUDA device; use cpu or auto")
    if ranks.size == 1 or device == "cpu":
        return device
    if device != "cuda":
        raise InputError(f"device must be cuda for {ranks.size} ranks, which use one GPU each, got {device!r}")
    if ranks.local_size > torch.cuda.device_count():
        raise InputError(
            f"{ranks.local_size} ranks on this machine need one GPU each, but it has {torch.cuda.device_count()}; "
            "start fewer ranks (torchrun --nproc-per-node), or use --device cpu"
        )
    return f"cuda:{ranks.local}"


def check_run_device(device: str) -> None:
    """Raise an InputError unless this is the name of a device for a run, on whatever machine."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", str(device)):
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}")


def _check_usable(device: torch.device) -> None:
    """Raise an InputError with the first line of torch's message if nothing can be allocated on a CUDA device."""
    try:
        torch.zeros((), device=device)
    except RuntimeError as error:
        reason = str(error).split("\n")[0]
        most = f" (NVIDIA MPS serves at most {MPS_PROCESSES} at a time)" if "busy" in reason else ""
        raise InputError(
            f"device '{device}' cannot be used: {reason}; run fewer processes on this GPU{most}, or use device='cpu'"
        ) from error


def fallback_device(device: str) -> str:
    """Return the device a run was trained on, or "auto" if that is a GPU and this machine has none."""
    return device if device in ("auto", "cpu") or torch.cuda.is_available() else "auto"
