# pyright: reportAttributeAccessIssue=false
"""Contact materials and joint limits by element, from the caller and from the file's custom numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

import mujoco

from ahac.core.errors import ModelError
from ahac.sim.model.records import ContactMaterial, JointLimit
from ahac.sim.model.support import named

__all__ = ["lookup"]

Settings = TypeVar("Settings", ContactMaterial, JointLimit)


def lookup(
    raw: mujoco.MjModel,
    topic: str,
    kind: str,
    record: type[Settings],
    default: Settings | None,
    single: Mapping[str, Settings] | None,
) -> Callable[[str], Settings]:
    """Settings by element name: the caller's for this one, the file's for this one, the caller's, the file's, ours."""
    count = {"geom": raw.ngeom, "joint": raw.njnt}[kind]
    names = {named(raw, kind, i) for i in range(count)}
    prefix = f"ahac:{topic}"
    in_file: dict[str, Settings] = {}
    for i in range(raw.nnumeric):
        if (name := named(raw, "numeric", i)).split(":")[:2] == prefix.split(":"):
            data = raw.numeric_data[raw.numeric_adr[i] : raw.numeric_adr[i] + raw.numeric_size[i]]
            wanted = [f.name for f in fields(record)]
            if len(data) != len(wanted):
                raise ModelError(f"numeric {name!r} needs {len(wanted)} numbers ({' '.join(wanted)}), got {len(data)}")
            in_file[name] = record(**dict(zip(wanted, map(float, data), strict=True)))
    asked = {*(single or {}), *(name.removeprefix(prefix + ":") for name in in_file if name != prefix)}
    if unknown := asked - names:
        raise ModelError(f"no {kind} named {', '.join(sorted(unknown))}; the model has: {', '.join(sorted(names))}")
    fallback: Settings = default or in_file.get(prefix) or record()

    def settings(name: str) -> Settings:
        return (single or {}).get(name) or in_file.get(f"{prefix}:{name}") or fallback

    return settings
