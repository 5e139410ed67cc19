# pyright: reportAttributeAccessIssue=false
"""Features of model files that are not simulated: loading raises one error that names all of them, with remedies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.notes import Notes, counted

__all__ = [
    "Refusals",
    "constraints_disabled",
    "disabled",
    "element_name",
    "model_name",
    "refuse_unsupported",
]

Elements = Iterable[str]


@dataclass(frozen=True)
class Feature:
    """A feature that MuJoCo simulates and we do not, or that can be dropped."""

    name: str
    find: Callable[[mujoco.MjModel], Elements]
    """Returns the elements of a model that use it."""
    remedy: str
    droppable: bool = True
    """Whether a model still makes sense without it."""
    drop: Callable[[mujoco.MjModel], None] = lambda model: None
    """Removes it from a model, where ignoring it takes more than not reading it."""
    simulated: bool = False
    """Whether it is simulated, and only listed here because it can be ignored."""
    harmless: bool = False
    """Whether loading drops it with a warning instead of an error."""


@dataclass
class Refusals:
    """Collects everything in a model that cannot be simulated, to report it in one error."""

    ignored: tuple[str, ...] = ()
    """Features that are ignored already."""
    _entries: list[tuple[str, str | None]] = field(default_factory=list)

    def add(self, message: str, feature: str | None = None) -> None:
        """Refuse something; `feature` is the name by which it can be ignored, if it can."""
        self._entries.append((message, feature))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Turn a ModelError into an entry."""
        try:
            yield
        except ModelError as error:
            self.add(str(error))

    def raise_all(self, model: str) -> None:
        """Raise ModelError if anything was refused."""
        entries = self._merged()
        if not entries:
            return
        names = [name for _, name in entries if name]
        argument = f"load_model(..., ignore={sorted({*self.ignored, *names})!r})"
        if len(entries) == 1:
            raise ModelError(entries[0][0] + (f", or load without it: {argument}" if names else ""))
        lines = [f"{message}{'' if name else ' (cannot be ignored)'}" for message, name in entries]
        whole = f"model {model!r} cannot be simulated as it is, for {len(entries)} reasons:\n  " + "\n  ".join(lines)
        if len(names) == len(entries):
            whole += f"\nchange the file, or load without all of them: {argument}"
        elif names:
            whole += f"\nchange what cannot be ignored, and load without the others: {argument}"
        raise ModelError(whole)

    def _merged(self) -> list[tuple[str, str | None]]:
        """Merge entries that differ only in the name of the element."""
        groups: dict[str, list[tuple[str, str | None]]] = {}
        for entry in self._entries:
            groups.setdefault(QUOTED.sub("", entry[0], count=1), []).append(entry)
        merged = []
        for group in groups.values():
            message, name = group[0]
            if len(group) > 1:
                message = QUOTED.sub(rf"\g<0> and {len(group) - 1} more", message, count=1)
            merged.append((message, name))
        return merged


QUOTED = re.compile(r"'[^']*'")


def refuse_unsupported(model: mujoco.MjModel, ignore: Collection[str], notes: Notes) -> Refusals:
    """Refuse all unsupported features that are not in `ignore`, and drop those that are."""
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    droppable = {feature.name for feature in FEATURES if feature.droppable}
    if unknown := set(ignore) - droppable:
        names = ", ".join(sorted(droppable))
        raise ModelError(f"cannot ignore {', '.join(sorted(unknown))}; features that can be ignored: {names}")
    refusals = Refusals(ignore)
    for feature in FEATURES:
        elements = list(feature.find(model))
        if not elements:
            continue
        if feature.name in ignore:
            feature.drop(model)
            notes.add(f"ignored as requested ({feature.name}): {counted(elements)}")
            continue
        message = f"{counted(elements)}: not simulated; {feature.remedy}"
        if feature.harmless:
            notes.warn(message)
        elif not feature.simulated:
            refusals.add(message, feature.name if feature.droppable else None)
    return refusals


def element_name(model: mujoco.MjModel, kind: str, index: int) -> str:
    """Return an element's name, or its kind and number if the file does not name it."""
    name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
    return name or f"{kind}#{index}"


def model_name(model: mujoco.MjModel) -> str:
    """Return the model's name in the file."""
    return model.names.split(b"\0")[0].decode() or "model"


def disabled(model: mujoco.MjModel, *bits: str) -> bool:
    """Return whether the file sets all of these disable flags of MuJoCo."""
    flags = model.opt.disableflags
    return all(flags & getattr(mujoco.mjtDisableBit, f"mjDSBL_{bit}") for bit in bits)


def constraints_disabled(model: mujoco.MjModel, bit: str) -> bool:
    """Return whether a kind of constraint is disabled, by its own flag or by that for all constraints."""
    return disabled(model, bit) or disabled(model, "CONSTRAINT")


def _nonzero(kind: str, field: str, label: str) -> Callable[[mujoco.MjModel], Elements]:
    """Find elements whose field is not all zero; none if this version of MuJoCo does not have the field."""

    def find(model: mujoco.MjModel) -> Elements:
        values = np.asarray(getattr(model, field, np.zeros(0)))
        for i, row in enumerate(values.reshape(len(values), -1) if len(values) else values):
            if np.any(row != 0):
                owner = model.dof_jntid[i] if field.startswith("dof_") else i
                yield f"{kind} {element_name(model, kind, int(owner))!r} has {label}"

    return find


def _counted(field: str, label: str) -> Callable[[mujoco.MjModel], Elements]:
    return lambda model: [f"the model has {label}"] if getattr(model, field, 0) else []


def _equalities(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "EQUALITY"):
        return
    for i in np.flatnonzero(model.eq_active0):
        kind = mujoco.mjtEq(int(model.eq_type[i])).name.removeprefix("mjEQ_").lower()
        yield f"equality constraint {element_name(model, 'equality', int(i))!r} ({kind})"


def _friction(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "FRICTIONLOSS"):
        return ()
    return _nonzero("joint", "dof_frictionloss", "dry friction (frictionloss)")(model)


def _ball_limits(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "LIMIT"):
        return ()
    balls = (model.jnt_type == mujoco.mjtJoint.mjJNT_BALL) & (model.jnt_limited != 0)
    return [f"ball joint {element_name(model, 'joint', int(i))!r} has a range" for i in np.flatnonzero(balls)]


def _colliding(model: mujoco.MjModel, shape: mujoco.mjtGeom, moving: bool) -> Elements:
    for i in np.flatnonzero(model.geom_type == shape):
        on_link = model.body_weldid[model.geom_bodyid[i]] != 0
        if (model.geom_contype[i] or model.geom_conaffinity[i]) and (on_link or not moving):
            yield element_name(model, "geom", int(i))


def _moving_planes(model: mujoco.MjModel) -> Elements:
    planes = _colliding(model, mujoco.mjtGeom.mjGEOM_PLANE, True)
    return [f"plane {name!r} is attached to a moving body" for name in planes]


def _height_fields(model: mujoco.MjModel) -> Elements:
    return [f"geom {name!r} is a height field" for name in _colliding(model, mujoco.mjtGeom.mjGEOM_HFIELD, False)]


def _drop_equalities(model: mujoco.MjModel) -> None:
    model.eq_active0[:] = 0


def _drop_friction(model: mujoco.MjModel) -> None:
    model.dof_frictionloss[:] = 0.0


def _drop_ball_limits(model: mujoco.MjModel) -> None:
    model.jnt_limited[model.jnt_type == mujoco.mjtJoint.mjJNT_BALL] = 0


REMOVE = "remove it from the file"

FEATURES: tuple[Feature, ...] = (
    Feature(
        "equality",
        _equalities,
        "close loops with springs or force laws, or deactivate it",
        drop=_drop_equalities,
        simulated=True,
    ),
    Feature("flex", _counted("nflex", "deformable (flex) bodies"), "only rigid bodies are simulated", droppable=False),
    Feature("plugin", _counted("nplugin", "engine plugins"), REMOVE),
    Feature("plasticity", _counted("nplastic", "plastic springs"), REMOVE),
    Feature(
        "ball_limit", _ball_limits, "set limited='false', or use three hinges", drop=_drop_ball_limits, simulated=True
    ),
    Feature("frictionloss", _friction, "use damping", drop=_drop_friction, simulated=True),
    Feature("actuator_delay", _nonzero("actuator", "actuator_delay", "a delay"), REMOVE),
    Feature("moving_plane", _moving_planes, "use a box, or set its contype and conaffinity to 0"),
    Feature("height_field", _height_fields, "bodies collide with static planes only", harmless=True),
    Feature("fluid_shape", _nonzero("geom", "geom_fluid", "an ellipsoid fluid model"), "set fluidshape='none'"),
    Feature("adhesion", _nonzero("geom", "geom_adhesion", "adhesion"), REMOVE),
    Feature("pair_adhesion", _nonzero("pair", "pair_adhesion", "adhesion"), REMOVE),
    Feature("surface_velocity", _nonzero("geom", "geom_surfacevel", "a surface velocity"), REMOVE),
)
