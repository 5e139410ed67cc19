"""Export a trained policy to one file that runs without this library."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ahac.core.errors import InputError
from ahac.core.files import atomic_write, check_writable
from ahac.deployment import onnx_format, torchscript
from ahac.deployment.description import describe
from ahac.deployment.program import PolicyProgram
from ahac.deployment.robot import control_ranges
from ahac.deployment.verification import verify
from ahac.training.checkpoint import LAST
from ahac.training.run import Run, open_run

__all__ = ["FORMATS", "export"]

logger = logging.getLogger("ahac")


@dataclass(frozen=True)
class _Format:
    suffixes: tuple[str, ...]
    """Suffixes of files in this format; the first one is the default."""
    write: Callable[[PolicyProgram, str], bytes]
    """Returns the content of a file with the program and its description."""
    run: Callable[[bytes, np.ndarray], list[np.ndarray]]
    """Returns the outputs of such a file for observations."""


FORMATS: Mapping[str, _Format] = {
    "onnx": _Format((".onnx",), onnx_format.to_onnx, onnx_format.run_onnx),
    "torchscript": _Format((".pt", ".pth", ".ts"), torchscript.to_torchscript, torchscript.run_torchscript),
}
"""Formats by name."""


def export(
    run: Run | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    format: str | None = None,
    checkpoint: str = LAST,
    *,
    trust: bool = False,
) -> Path:
    """Export the policy of a run, and return the path of the file.

    The file takes `obs` [batch, obs_size] and returns `actions` [batch, action_size] in [-1, 1] and, unless the task
    computes them in a way of its own, `controls` of the actuators. A JSON file of the same name describes both. The
    file is run and compared with the library's policy before anything is written.

    Args:
        run: Run or run folder.
        path: File to write; by default policy.onnx or policy.pt in the run folder, or TASK.onnx or TASK.pt in the
            current folder if the run is a pretrained policy.
        format: "onnx" or "torchscript"; by default the one that the path's suffix stands for; "onnx" without a path.
        checkpoint: "last", "best" or "iteration-NNNNNN".
        trust: Whether to run the task.py of a folder even if you have not trained with it on this machine.

    Raises:
        ExportError: If the exported policy differs from the library's by more than 1e-5.
    """
    format = _format_of(path, format)
    chosen = FORMATS[format]
    if format == "onnx":
        onnx_format.load_libraries()  # raises before a run is opened
    opened = (run if isinstance(run, Run) else open_run(run, trust=trust)).with_settings(device="cpu")
    target = _default_path(opened, chosen.suffixes[0]) if path is None else Path(path)
    about = target.with_suffix(".json")
    for file in (target, about):
        check_writable(file)
    saved = opened.restore(checkpoint, with_env=False)
    task = opened.env.task
    spec = opened.env.spec
    program = PolicyProgram(opened.algo.policy_layers(), control_ranges(task), spec.obs_size, spec.action_size)
    description = json.dumps(describe(task, opened.config, checkpoint, saved, program), indent=1) + "\n"
    content = chosen.write(program, description)
    error = verify(program, opened.algo.act, lambda obs: chosen.run(content, obs))
    with atomic_write(target) as policy_file, atomic_write(about) as description_file:
        policy_file.write_bytes(content)
        description_file.write_text(description, encoding="utf-8")
    logger.info("%s agrees with the library's policy within %.1g", target, error)
    return target


def _format_of(path: str | os.PathLike[str] | None, format: str | None) -> str:
    """Return the format: the given one or that of the path's suffix, which must agree; "onnx" without either."""
    if format is not None and format not in FORMATS:
        raise InputError(f"format must be {' or '.join(FORMATS)}, got {format!r}")
    if path is None:
        return format or "onnx"
    suffix, name = Path(path).suffix.lower(), str(path)
    if suffix == ".json":
        expected = FORMATS[format or "onnx"].suffixes[0]
        raise InputError(f"{name!r} is the name of the description; give the policy the suffix {expected}")
    named = next((key for key, known in FORMATS.items() if suffix in known.suffixes), None)
    if format is None:
        if named is None:
            known = ", ".join(f"{' '.join(x.suffixes)} ({key})" for key, x in FORMATS.items())
            raise InputError(f"the suffix of {name!r} stands for no format; use one of {known}, or name the format")
        return named
    if named not in (None, format):
        raise InputError(
            f"{name!r} has a suffix of {named}, but the format is {format}; change the suffix to "
            f"{FORMATS[format].suffixes[0]}, or the format to {named}"
        )
    return format


def _default_path(run: Run, suffix: str) -> Path:
    """Return the file of a run's policy; nothing is written to the folder of a pretrained policy."""
    return Path(f"{run.config.task}{suffix}") if run.policy_only else run.folder / f"policy{suffix}"
