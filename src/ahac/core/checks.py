"""Checks of arguments that every door makes."""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor

from ahac.core.errors import InputError

__all__ = ["dense_tensor", "finite_number", "fraction", "positive_number", "whole_number"]


def dense_tensor(name: str, value: object, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A dense tensor of exactly this shape, type and device, or an error that names what was got."""
    if not isinstance(value, Tensor):
        got = type(value).__name__
    elif value.is_nested:  # which has no shape
        got = "a nested tensor"
    elif value.layout is not torch.strided:
        got = f"one of layout {value.layout}; convert it with .to_dense()"
    elif value.shape != shape or value.dtype != dtype or value.device != device:
        got = f"{value.dtype} {list(value.shape)} on {value.device}"
    else:
        return value
    raise InputError(f"{name} must be a {dtype} tensor of shape {list(shape)} on {device}, got {got}")


def whole_number(name: str, value: object, least: int) -> int:
    """An integer of any kind, or an error that names what was got."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
        if number >= least:
            return number
    raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def finite_number(name: str, value: object, least: float = -math.inf) -> float:
    """A finite number of at least `least`, or an error that names what was got."""
    if isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value) and value >= least:
        return float(value)
    bound = "" if least == -math.inf else f" of at least {least:g}"
    raise InputError(f"{name} must be a finite number{bound}, got {value!r}")


def positive_number(name: str, value: object) -> float:
    """A finite number above zero, or an error that names what was got."""
    number = finite_number(name, value, 0.0)
    if number == 0.0:
        raise InputError(f"{name} must be more than 0, got {value!r}")
    return number


def fraction(name: str, value: object) -> float:
    """A number from 0 to 1, or an error that names what was got."""
    number = finite_number(name, value)
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{name} must lie between 0 and 1, got {value!r}")
    return number
