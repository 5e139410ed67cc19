"""Classification of damaged files: valid files with other values, or detectably wrong ones."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ahac.training.tensor_files import CheckpointError, read_tensors

__all__ = ["Form", "form_of"]

LARGEST_COUNT = 2**53
REQUIRED = ("iteration", "env_steps", "seconds", "best")
"""Numbers of every checkpoint."""


@dataclass(frozen=True)
class Form:
    """How a damaged file compares with what it was; a file that cannot be read is nothing of this."""

    sound: bool = False
    """Only values differ: names, shapes and types are the same, and numbers are possible ones."""
    wrong: bool = False
    """Checksums do not help, as there is none or it is valid, but names, shapes, types or numbers are wrong."""
    valid: bool = False
    """Sound, with a matching checksum and of a run with the same settings: indistinguishable from an undamaged file."""


def form_of(path: Path, original: bytes) -> Form:
    """Compare a damaged file with its content before."""
    if not path.is_file():
        return Form()
    if path.suffix == ".safetensors":
        return _tensors_form(path, original)
    try:
        now = path.read_text(encoding="utf-8")
        if path.name == "metrics.csv":
            return Form(sound=now.endswith("\n") and _sound_table(list(csv.reader(now.splitlines()))))
        if path.name == "config.json":
            return Form(sound=_sound_settings(json.loads(now), json.loads(original)))
        return Form(sound=path.name == "evaluation.json" and _same_form(json.loads(now), json.loads(original)))
    except (ValueError, RecursionError):
        return Form()


# ------------------------------------------------------------------------------------------------------------- tensors


def _tensors_form(path: Path, original: bytes) -> Form:
    try:
        read_tensors(path)  # refuses what differs from its checksum
        shapes, header = _described(path)
    except (CheckpointError, SafetensorError, OSError):
        return Form()
    with NamedTemporaryFile() as before:
        before.write(original)
        before.flush()
        shapes_before, header_before = _described(Path(before.name))
    sound = shapes == shapes_before and ("numbers" not in header_before or _sound_numbers(header.get("numbers", "")))
    same = header.get("settings") == header_before.get("settings")
    return Form(sound=sound, wrong=not sound, valid=sound and same and "checksum" in header)


def _described(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Types and shapes by name, and the header."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return {name: (x.dtype, _shape(name, x)) for name, x in tensors.items()}, dict(file.metadata() or {})


def _shape(name: str, value: Tensor) -> tuple[int, ...]:
    """Runs have had different numbers of episodes."""
    return (*value.shape[:1], -1) if name == "trainer/episodes" and value.dim() == 2 else tuple(value.shape)


def _sound_numbers(text: str) -> bool:
    """Whether training could have written these numbers."""
    try:
        numbers = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(numbers, dict) or not set(REQUIRED) <= numbers.keys():
        return False
    if any(isinstance(x, bool) or not isinstance(x, int | float) or abs(x) > 1e300 for x in _but_best(numbers)):
        return False
    if any(not math.isfinite(x) for x in _but_best(numbers)):
        return False
    return all(0 <= numbers[name] <= LARGEST_COUNT and numbers[name] % 1 == 0 for name in ("iteration", "env_steps"))


def _but_best(numbers: Mapping[str, Any]) -> list[Any]:
    """All numbers that must be finite: the best return is minus infinity until an episode has ended."""
    return [x for name, x in numbers.items() if name != "best" or x != -math.inf]


# ---------------------------------------------------------------------------------------------------------------- text


def _sound_table(rows: Sequence[Sequence[str]]) -> bool:
    """The columns that every table has, one row per iteration, numbers that are finite."""
    header, *rest = rows
    if not {"iteration", "env_steps", "seconds"} <= set(header) or any(len(row) != len(header) for row in rest):
        return False
    iterations = [row[header.index("iteration")] for row in rest]
    finite = all(math.isfinite(float(cell)) for row in rest for cell in row if cell)
    return finite and iterations == [str(k + 1.0) for k in range(len(rest))]


def _sound_settings(now: object, before: object) -> bool:
    """Settings that are known, of the same kinds as before; some may be missing, and some may be null."""
    if isinstance(now, dict) and isinstance(before, dict):
        known = now.keys() - {"checksum"} <= before.keys()
        return known and all(_sound_settings(now[name], before[name]) for name in now if name != "checksum")
    if isinstance(now, list) and isinstance(before, list):
        return all(_sound_settings(x, before[0]) for x in now) if before else not now
    if now is None or before is None:
        return not isinstance(now, float) or math.isfinite(now)
    if isinstance(now, bool) or isinstance(before, bool):
        return type(now) is type(before)
    if isinstance(before, float):
        return isinstance(now, int | float) and abs(now) < 1e300
    return isinstance(now, type(before))


def _same_form(now: object, before: object) -> bool:
    """The same keys and kinds of values, of the same iteration; numbers that are finite."""
    if isinstance(now, dict) and isinstance(before, dict):
        return (
            now.keys() == before.keys()
            and now.get("iteration") == before.get("iteration")
            and all(_same_form(now[key], before[key]) for key in now)
        )
    if isinstance(now, list) and isinstance(before, list):
        return len(now) == len(before) and all(_same_form(*pair) for pair in zip(now, before, strict=True))
    if isinstance(now, bool) or isinstance(before, bool) or not isinstance(now, type(before)):
        return False
    return not isinstance(now, float) or math.isfinite(now)
