"""Parameters of joints and their velocity coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ahac.sim.compiler.graph import Real
from ahac.sim.model.parameters.domains import FREE, INTERVAL, NON_NEGATIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import XYZ, Element, Elements, Find, Put
from ahac.sim.model.types import Joint, JointKind, Model

__all__ = [
    "by_dof",
    "offsets",
    "put_offset",
    "put_range",
    "put_spring_reference",
    "put_stiffness",
    "ranges",
    "spring_references",
    "stiffnesses",
]


def _unit(joint: Joint, rotational: str, translational: str) -> str:
    return translational if joint.kind is JointKind.SLIDE else rotational


def _single(model: Model) -> list[Joint]:
    """Return all hinges and slides."""
    return [joint for joint in model.joints if joint.kind is not JointKind.BALL]


def _floating(model: Model) -> set[str]:
    """Return the names of all slides and balls of free joints."""
    slides = {joint.name for joint in model.joints if joint.spring_dofs}
    return slides | {name.rpartition(":")[0] for name in slides}


def by_dof(constant: str, rotational: str, translational: str) -> tuple[Find, Put]:
    """Return where a constant of velocity coordinates is, by joint, and how to set it; units depend on the joint."""

    def elements(model: Model) -> Elements:
        found: Elements = {}
        for joint in model.joints:
            values = tuple(getattr(model, constant)[k] for k in joint.dofs)
            unit = _unit(joint, rotational, translational)
            parts = XYZ if len(values) > 1 else ()
            found[joint.name] = Element(values, unit, NON_NEGATIVE, parts, joint.name in _floating(model))
        return found

    return elements, lambda draft, name, values: draft.dofs(constant, name, values)


def stiffnesses(model: Model) -> Elements:
    """Return the stiffnesses of all joints."""
    floating = _floating(model)
    found: Elements = {}
    for joint in model.joints:
        unit = _unit(joint, "N m/rad", "N/m")
        value = (joint.stiffness,)
        found[joint.name] = Element(value, unit, NON_NEGATIVE, floating=joint.name in floating)
    return found


def put_stiffness(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the stiffness of a joint."""
    draft.joint(name, lambda joint: replace(joint, stiffness=values[0]))


def spring_references(model: Model) -> Elements:
    """Return the rest positions of the springs of hinges and slides."""
    floating = _floating(model)
    found: Elements = {}
    for joint in _single(model):
        value = (joint.spring_reference[0],)
        found[joint.name] = Element(value, _unit(joint, "rad", "m"), FREE, floating=joint.name in floating)
    return found


def put_spring_reference(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the rest position of a spring."""
    draft.joint(name, lambda joint: replace(joint, spring_reference=tuple(values)))


def ranges(model: Model) -> Elements:
    """Return the limits of hinges and slides."""
    found: Elements = {}
    for joint in _single(model):
        if joint.range is not None:
            found[joint.name] = Element(joint.range, _unit(joint, "rad", "m"), INTERVAL, ("lower", "upper"))
    return found


def put_range(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the limits of a joint."""
    low, high = values
    draft.joint(name, lambda joint: replace(joint, range=(low, high)))


def offsets(model: Model) -> Elements:
    """Return the encoder offsets of hinges and slides, which are zero in a model from a file."""
    fixed = [joint for joint in _single(model) if joint.name not in _floating(model)]
    values = {joint.name: model.joint_offsets.get(joint.q, 0.0) for joint in fixed}
    return {joint.name: Element((values[joint.name],), _unit(joint, "rad", "m"), FREE) for joint in fixed}


def put_offset(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set an encoder offset."""
    index = next(joint.q for joint in draft.model.joints if joint.name == name)
    draft.joint_offsets[index] = values[0]
