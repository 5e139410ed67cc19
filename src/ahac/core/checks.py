"""Validation of arguments; each check returns the value or raises an `InputError` that shows what it got."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from ahac.core.errors import InputError

__all__ = [
    "check_callable",
    "check_finite",
    "check_int",
    "check_non_empty",
    "check_positive",
    "check_probability",
    "check_range",
    "check_tensor",
    "check_widths",
    "describe_type",
    "is_dense",
]

Function = TypeVar("Function")


def is_dense(value: object) -> TypeGuard[Tensor]:
    """Return whether a value is a strided tensor, as opposed to a sparse, nested or mkldnn tensor."""
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_nested


def describe_type(value: object) -> str:
    """Describe a value that is not a dense tensor, for an error message."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return "a nested tensor" if value.is_nested else f"a tensor of layout {value.layout}; convert it with .to_dense()"


def check_tensor(name: str, value: object, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return `value` if it is a dense tensor of exactly this shape, dtype and device."""
    if not is_dense(value):
        got = describe_type(value)
    elif value.shape != shape or value.dtype != dtype or value.device != device:
        got = f"{value.dtype} {list(value.shape)} on {value.device}"
    else:
        return value
    raise InputError(f"{name} must be a {dtype} tensor of shape {list(shape)} on {device}, got {got}")


def check_int(name: str, value: object, least: int) -> int:
    """Return `value` as an int if it is an integer of any type and at least `least`."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
        if number >= least:
            return number
    raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_widths(name: str, value: object) -> None:
    """Raise unless `value` is a list or tuple of layer widths."""
    if not isinstance(value, list | tuple):
        raise InputError(f"{name} must be the widths of the hidden layers, for example (128, 64), got {value!r}")
    for width in value:  # pyright: ignore[reportUnknownVariableType]
        check_int(f"the width of a hidden layer in {name}", width, 1)  # pyright: ignore[reportUnknownArgumentType]


def check_range(name: str, value: object, least: float = -math.inf, *, distinct: bool = False) -> tuple[float, float]:
    """Return `value` if it is two finite numbers of which the first is not the larger one, nor equal if `distinct`."""
    if not isinstance(value, list | tuple) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise InputError(f"{name} must be two numbers, the smaller one first, got {value!r}")
    low = check_finite(name, value[0], least)  # pyright: ignore[reportUnknownArgumentType]
    high = check_finite(name, value[1], least)  # pyright: ignore[reportUnknownArgumentType]
    if low > high or (distinct and low == high):
        kind = "two different numbers" if distinct else "two numbers"
        raise InputError(f"{name} must be {kind}, the smaller one first, got {value!r}")
    return low, high


def check_finite(name: str, value: object, least: float = -math.inf) -> float:
    """Return `value` as a float if it is finite and at least `least`."""
    if isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value) and value >= least:
        return float(value)
    bound = "" if least == -math.inf else f" of at least {least:g}"
    raise InputError(f"{name} must be a finite number{bound}, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """Return `value` as a float if it is finite and positive."""
    number = check_finite(name, value, 0.0)
    if number == 0.0:
        raise InputError(f"{name} must be more than 0, got {value!r}")
    return number


def check_probability(name: str, value: object) -> float:
    """Return `value` as a float if it lies between 0 and 1, inclusive."""
    if isinstance(value, float | int) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return float(value)
    raise InputError(f"{name} must lie between 0 and 1, got {value!r}")


def check_callable(name: str, value: Function, arguments: str) -> Function:
    """Return a function; raise InputError if the value is something else."""
    if not callable(value):
        raise InputError(f"{name} must be a function of {arguments}, got {value!r}")
    return value


def check_non_empty(name: str, values: Sequence[float]) -> Sequence[float]:
    """Return the values; raise InputError if there are none."""
    if len(values) == 0:
        raise InputError(f"{name} must have at least one number, got none; give some, or omit {name} for the default")
    return values
