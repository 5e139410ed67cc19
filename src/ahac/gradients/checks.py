"""A check of lists that the settings of studies share."""

from __future__ import annotations

from collections.abc import Sequence

from ahac.core.errors import InputError

__all__ = ["non_empty"]


def non_empty(name: str, values: Sequence[float]) -> Sequence[float]:
    """The same numbers, or an error if there are none."""
    if len(values) == 0:
        raise InputError(
            f"{name} must be one number or more, got none; give some, or leave {name} out for the usual ones"
        )
    return values
