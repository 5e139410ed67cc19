"""Checks of arguments that every door makes."""

from __future__ import annotations

import math
import operator

from ahac.core.errors import InputError

__all__ = ["finite_number", "fraction", "positive_number", "whole_number"]


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
    if isinstance(value, float | int) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return float(value)
    raise InputError(f"{name} must lie between 0 and 1, got {value!r}")
