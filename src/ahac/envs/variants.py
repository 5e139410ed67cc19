"""Where the paper and its released code differ, a task offers both, each under a name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import TypeVar

from ahac.core.errors import InputError
from ahac.sim import Model, load_model

__all__ = ["VARIANTS", "load_bundled_model", "select_variant"]

VARIANTS = ("paper", "released")
"""The paper's appendix, with the released constants where it is silent; and what the released code does."""

Choice = TypeVar("Choice")


def select_variant(variant: str, choices: Mapping[str, Choice]) -> Choice:
    """The choice of that name."""
    if variant not in choices:
        raise InputError(f"no variant named {variant!r}; known: {', '.join(choices)}")
    return choices[variant]


def load_bundled_model(name: str) -> Model:
    """A robot of our own, from the assets."""
    with as_file(files("ahac.envs") / "assets" / f"{name}.xml") as path:
        return load_model(path)
