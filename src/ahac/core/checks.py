"""Checks of arguments that every door makes."""

from __future__ import annotations

import math
import operator

from ahac.core.errors import InputError

__all__ = ["finite_number", "whole_number"]


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
