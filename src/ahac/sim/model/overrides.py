# pyright: reportAttributeAccessIssue=false
"""Contact materials and joint limits by element, from the caller and from the file's custom numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import TypeVar

import mujoco

from ahac.core.errors import ModelError
from ahac.sim.model.types import ContactMaterial, JointLimit
from ahac.sim.model.unsupported import element_name

__all__ = ["lookup"]

TOPICS = ("contact", "limit")

Settings = TypeVar("Settings", ContactMaterial, JointLimit)


def lookup(
    raw: mujoco.MjModel,
    topic: str,
    names: Collection[str],
    record: type[Settings],
    default: Settings | None,
    single: Mapping[str, Settings] | None,
) -> Callable[..., Settings]:
    """Settings by element name; of several names, the first one that has settings of its own counts.

    The caller's for one element go before the file's for one element, the caller's default, the file's, and ours.
    """
    prefix = f"ahac:{topic}"
    in_file = _in_file(raw, prefix, record)
    own = {name.removeprefix(f"{prefix}:"): value for name, value in in_file.items() if name != prefix}
    own.update(single or {})
    for value in (default, *own.values()):
        if value is not None and not isinstance(value, record):
            raise ModelError(f"{topic} settings must be {record.__name__} records, got {value!r}")
    if unknown := own.keys() - set(names):
        known = ", ".join(sorted(names)) or "none"
        raise ModelError(f"nothing named {', '.join(sorted(unknown))} has {topic} settings; what has: {known}")
    fallback: Settings = default or in_file.get(prefix) or record()

    def settings(*names: str) -> Settings:
        return next((own[name] for name in names if name in own), fallback)

    return settings


def _in_file(raw: mujoco.MjModel, prefix: str, record: type[Settings]) -> dict[str, Settings]:
    """The file's custom numbers under a prefix, by their full names."""
    found: dict[str, Settings] = {}
    wanted = [field.name for field in fields(record)]
    for i in range(raw.nnumeric):
        name = element_name(raw, "numeric", i)
        if name.startswith("ahac:") and name.split(":")[1] not in TOPICS:
            raise ModelError(f"numeric {name!r} means nothing here; known: {', '.join(f'ahac:{t}' for t in TOPICS)}")
        if name == prefix or name.startswith(f"{prefix}:"):
            data = raw.numeric_data[raw.numeric_adr[i] : raw.numeric_adr[i] + raw.numeric_size[i]]
            if len(data) != len(wanted):
                raise ModelError(f"numeric {name!r} needs {len(wanted)} numbers ({' '.join(wanted)}), got {len(data)}")
            found[name] = record(**dict(zip(wanted, map(float, data), strict=True)))
    return found
