"""Task variants: where the paper and its released code differ, a task offers both by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import TypeVar

from ahac.core.errors import InputError
from ahac.sim import Model, load_model

__all__ = ["VARIANTS", "check_variant", "load_bundled_model", "select_variant"]

VARIANTS = ("paper", "released")
"""`paper` follows the paper's appendix, with released constants where it gives none; `released` follows the code."""

Choice = TypeVar("Choice")


def select_variant(variant: str, choices: Mapping[str, Choice]) -> Choice:
    """Return the choice for a variant."""
    if variant not in choices:
        raise InputError(f"no variant named {variant!r}; known: {', '.join(choices)}")
    return choices[variant]


def check_variant(variant: str) -> None:
    """Raise InputError for a variant that does not exist; for tasks that are the same in all variants."""
    select_variant(variant, dict.fromkeys(VARIANTS))


def load_bundled_model(name: str) -> Model:
    """Load a robot from `ahac/envs/assets`."""
    with as_file(files("ahac.envs") / "assets" / f"{name}.xml") as path:
        return load_model(path)
