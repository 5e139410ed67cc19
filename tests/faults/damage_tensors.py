"""Damage to safetensors files: their bytes, or wrong tensors and numbers in a file that is sound as such."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ahac.training.checkpoint import load_checkpoint, save_checkpoint
from faults.damage_files import Damage, Scene, flip, rewrite

__all__ = ["CHECKPOINT", "SEGMENT", "TENSORS"]


def _header_size(content: bytearray) -> int:
    """Where the data of a safetensors file begin."""
    return 8 + struct.unpack("<Q", content[:8])[0]


def _flip_in_header(content: bytearray, rng: Random) -> str:
    return flip(8, _header_size(content))(content, rng)


def _flip_in_data(content: bytearray, rng: Random) -> str:
    return flip(_header_size(content), len(content))(content, rng)


def _byte_in_data(content: bytearray, rng: Random) -> str:
    place = rng.randrange(_header_size(content), len(content))
    content[place] ^= 0xFF
    return f"byte {place} inverted"


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:  # copies: the file is written over while these are in use
        return {name: file.get_tensor(name).clone() for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], checksum: str) -> None:
    """With the checksum that was there ("old"), none, or one that fits ("valid")."""
    if checksum == "valid":
        try:
            save_checkpoint(
                path, replace(load_checkpoint(path), tensors=tensors, numbers=json.loads(metadata["numbers"]))
            )
            return
        except (TypeError, ValueError):  # numbers of which no checkpoint can be made
            checksum = "no"
    save_file(dict(tensors), path, metadata=dict(metadata) if checksum == "old" else _without_checksum(metadata))


def _without_checksum(metadata: Mapping[str, str]) -> dict[str, str]:
    """The header of a file of version 0.1.0, which had none."""
    return {"version": "1", **({"numbers": metadata["numbers"]} if "numbers" in metadata else {})}


def _short(x: Tensor) -> Tensor:
    return x.flatten()[:1].clone() if x.numel() > 1 else torch.zeros(3, dtype=x.dtype)


def _wide(x: Tensor) -> Tensor:
    return torch.cat([x.flatten(), x.flatten()])


def _flat(x: Tensor) -> Tensor:
    return x.flatten().clone() if x.dim() != 1 else x[None].clone()


def _coarse(x: Tensor) -> Tensor:
    return x.half() if x.is_floating_point() else x.float()


def _whole(x: Tensor) -> Tensor:
    return x.to(torch.int32) if x.dtype != torch.int32 else x.to(torch.int64)


def _not_a_number(x: Tensor) -> Tensor:
    return torch.full_like(x, float("nan")) if x.is_floating_point() else x + 1


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "short": _short, "twice as long": _wide, "other shape": _flat, "float16": _coarse, "int32": _whole,
}  # fmt: skip


def _tensor(change: Callable[[Tensor], Tensor], checksum: str, part: str = "") -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        name = scene.rng.choice(sorted(name for name in tensors if part in name) or sorted(tensors))
        tensors[name] = change(tensors[name])
        _write(scene.path, tensors, metadata, checksum)
        return f"{name} is {tensors[name].dtype} {list(tensors[name].shape)}"

    return act


def _renamed(checksum: str, part: str = "", drop: bool = False) -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        name = scene.rng.choice(sorted(name for name in tensors if part in name) or sorted(tensors))
        value = tensors.pop(name)
        if not drop:
            tensors[f"{name}_"] = value
        _write(scene.path, tensors, metadata, checksum)
        return f"{name} is {'missing' if drop else 'called ' + name + '_'}"

    return act


ODD_NUMBERS = {
    "NaN": float("nan"), "infinite": float("inf"), "text": "many", "null": None, "1e30": 1e30, "-5": -5.0,
    "list": [1.0], "true": True, "of 400 digits": 10**400,
}  # fmt: skip
NUMBERS = ("iteration", "iteration", "env_steps", "best", "seconds", "failures", "compile_seconds")
NESTED = "[" * 100_000 + "]" * 100_000
"""Deeper than a parser can recurse."""


def _number(value: object, checksum: str) -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        numbers = json.loads(metadata["numbers"])
        key = "best" if value == float("inf") and scene.rng.random() < 0.5 else scene.rng.choice(NUMBERS)
        numbers[key] = value
        _write(scene.path, tensors, {**metadata, "numbers": json.dumps(numbers)}, checksum)
        return f"{key} is {str(value)[:20]!r}"

    return act


def _without_number(checksum: str) -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        numbers = json.loads(metadata["numbers"])
        key = scene.rng.choice(("iteration", "iteration", "env_steps", "best", "seconds"))
        del numbers[key]
        _write(scene.path, tensors, {**metadata, "numbers": json.dumps(numbers)}, checksum)
        return f"{key} is missing"

    return act


def _metadata(key: str, value: str | None) -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        kept = {name: text for name, text in _without_checksum(metadata).items() if name != key}
        save_file(tensors, scene.path, metadata=kept if value is None else {**kept, key: value})
        return f"{key} is {value and value[:40]!r}"

    return act


def _rows(change: Callable[[Tensor], Tensor], checksum: str) -> Damage:
    def act(scene: Scene) -> str:
        tensors, metadata = _read(scene.path)
        tensors["rows"] = change(tensors["rows"])
        _write(scene.path, tensors, metadata, checksum)
        return f"rows are {tensors['rows'].dtype} {list(tensors['rows'].shape)}"

    return act


TENSORS: dict[str, Damage] = {
    "flip a bit of the header": rewrite(_flip_in_header), "flip a bit of its size": rewrite(flip(0, 8)),
    "flip a bit of the data": rewrite(_flip_in_data), "invert a byte of the data": rewrite(_byte_in_data),
}  # fmt: skip
CHECKPOINT: dict[str, Damage] = {
    **{f"tensor {name}, {sum_} checksum": _tensor(change, sum_) for name, change in SHAPES.items()
       for sum_ in ("old", "no", "valid")},
    **{f"moment {name}, {sum_} checksum": _tensor(change, sum_, "exp_avg") for name, change in SHAPES.items()
       for sum_ in ("no", "valid")},
    **{f"tensor {verb}, {sum_} checksum": _renamed(sum_, drop=verb == "dropped")
       for verb in ("renamed", "dropped") for sum_ in ("old", "no", "valid")},
    **{f"moment {verb}, {sum_} checksum": _renamed(sum_, "exp_avg", drop=verb == "dropped")
       for verb in ("renamed", "dropped") for sum_ in ("no", "valid")},
    "tensor NaN, old checksum": _tensor(_not_a_number, "old"),
    **{f"number {odd}, {sum_} checksum": _number(value, sum_) for odd, value in ODD_NUMBERS.items()
       for sum_ in ("no", "valid")},
    **{f"number missing, {sum_} checksum": _without_number(sum_) for sum_ in ("no", "valid")},
    "numbers not JSON": _metadata("numbers", '{"iteration": '), "numbers a list": _metadata("numbers", "[1, 2]"),
    "numbers null": _metadata("numbers", "null"), "numbers missing": _metadata("numbers", None),
    "numbers deeply nested": _metadata("numbers", f'{{"iteration": {NESTED}}}'),
    "other version": _metadata("version", "999"), "no version": _metadata("version", None),
}  # fmt: skip
SEGMENT: dict[str, Damage] = {
    **{f"rows {name}, {sum_} checksum": _rows(change, sum_) for name, change in SHAPES.items()
       for sum_ in ("old", "no")},
    "fewer rows, no checksum": _rows(lambda x: x[:-1].clone(), "no"),
    "rows NaN, old checksum": _rows(_not_a_number, "old"), "other version": _metadata("version", "999"),
    "rows renamed, old checksum": _renamed("old"),
}  # fmt: skip
