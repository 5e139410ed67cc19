"""Checks of arguments that every door makes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from ahac.core.errors import InputError

__all__ = [
    "check_finite",
    "check_int",
    "check_non_empty",
    "check_positive",
    "check_probability",
    "check_tensor",
    "describe_type",
    "is_dense",
]  # fmt: skip


def is_dense(value: object) -> TypeGuard[Tensor]:
    """Whether it is a tensor whose numbers lie in memory by strides: not a sparse, nested or mkldnn one."""
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_nested


def describe_type(value: object) -> str:
    """What to call something that is not a dense tensor."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return "a nested tensor" if value.is_nested else f"one of layout {value.layout}; convert it with .to_dense()"


def check_tensor(name: str, value: object, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A dense tensor of exactly this shape, type and device, or an error that names what was got."""
    if not is_dense(value):
        got = describe_type(value)
    elif value.shape != shape or value.dtype != dtype or value.device != device:
        got = f"{value.dtype} {list(value.shape)} on {value.device}"
    else:
        return value
    raise InputError(f"{name} must be a {dtype} tensor of shape {list(shape)} on {device}, got {got}")


def check_int(name: str, value: object, least: int) -> int:
    """An integer of any kind, or an error that names what was got."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
        if number >= least:
            return number
    raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_finite(name: str, value: object, least: float = -math.inf) -> float:
    """A finite number of at least `least`, or an error that names what was got."""
    if isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value) and value >= least:
        return float(value)
    bound = "" if least == -math.inf else f" of at least {least:g}"
    raise InputError(f"{name} must be a finite number{bound}, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """A finite number above zero, or an error that names what was got."""
    number = check_finite(name, value, 0.0)
    if number == 0.0:
        raise InputError(f"{name} must be more than 0, got {value!r}")
    return number


def check_probability(name: str, value: object) -> float:
    """A number from 0 to 1, or an error that names what was got."""
    if isinstance(value, float | int) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return float(value)
    raise InputError(f"{name} must lie between 0 and 1, got {value!r}")


def check_non_empty(name: str, values: Sequence[float]) -> Sequence[float]:
    """Return the values; raise InputError if there are none."""
    if len(values) == 0:
        raise InputError(f"{name} must have at least one number, got none; give some, or omit {name} for the default")
    return values
