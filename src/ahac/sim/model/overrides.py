# pyright: reportAttributeAccessIssue=false
"""Contact materials and joint limits of individual elements, set by the caller or by the file's custom numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import TypeVar

import mujoco

from ahac.core.errors import ModelError
from ahac.sim.model.types import ContactMaterial, JointLimit
from ahac.sim.model.unsupported import element_name

__all__ = ["lookup", "max_contact_points_in"]

POINTS = "max_contact_points"
TOPICS = ("contact", "limit", POINTS)

Settings = TypeVar("Settings", ContactMaterial, JointLimit)


def lookup(
    raw: mujoco.MjModel,
    topic: str,
    names: Collection[str],
    settings_type: type[Settings],
    default: Settings | None,
    single: Mapping[str, Settings] | None,
) -> Callable[..., Settings]:
    """Return a function that maps element names to settings; of several names, the first with its own settings counts.

    Precedence: the caller's settings of an element, the file's settings of an element, the caller's default, the file's
    default, the class's defaults.
    """
    prefix = f"ahac:{topic}"
    in_file = _in_file(raw, prefix, settings_type)
    own = {name.removeprefix(f"{prefix}:"): value for name, value in in_file.items() if name != prefix}
    own.update(single or {})
    for value in (default, *own.values()):
        if value is not None and not isinstance(value, settings_type):
            raise ModelError(f"{topic} settings must be {settings_type.__name__} objects, got {value!r}")
    if unknown := own.keys() - set(names):
        expected = ", ".join(sorted(names)) or "none"
        raise ModelError(f"no element with {topic} settings is named {', '.join(sorted(unknown))}; known: {expected}")
    fallback: Settings = default or in_file.get(prefix) or settings_type()

    def settings(*names: str) -> Settings:
        return next((own[name] for name in names if name in own), fallback)

    return settings


def _in_file(raw: mujoco.MjModel, prefix: str, settings_type: type[Settings]) -> dict[str, Settings]:
    """Return the file's custom numbers under a prefix, by their full names."""
    settings: dict[str, Settings] = {}
    names = [field.name for field in fields(settings_type)]
    for i in range(raw.nnumeric):
        name = element_name(raw, "numeric", i)
        if name.startswith("ahac:") and name.split(":")[1] not in TOPICS:
            raise ModelError(
                f"numeric {name!r} is not a known setting; known: {', '.join(f'ahac:{t}' for t in TOPICS)}"
            )
        if name == prefix or name.startswith(f"{prefix}:"):
            data = raw.numeric_data[raw.numeric_adr[i] : raw.numeric_adr[i] + raw.numeric_size[i]]
            if len(data) != len(names):
                raise ModelError(f"numeric {name!r} needs {len(names)} numbers ({' '.join(names)}), got {len(data)}")
            settings[name] = settings_type(**dict(zip(names, map(float, data), strict=True)))
    return settings


def max_contact_points_in(raw: mujoco.MjModel) -> int | None:
    """Return the file's own limit of contact points, if it sets one."""
    for i in range(raw.nnumeric):
        name = element_name(raw, "numeric", i)
        if name == f"ahac:{POINTS}":
            data = raw.numeric_data[raw.numeric_adr[i] : raw.numeric_adr[i] + raw.numeric_size[i]]
            if len(data) != 1 or data[0] < 1.0 or data[0] % 1.0:
                received = " ".join(f"{value:g}" for value in data)
                raise ModelError(f"numeric {name!r} must be a whole number of at least 1, got {received}")
            return int(data[0])
    return None
