"""Describe a model: what it consists of, what was approximated, whether a step is stable, and what it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ahac.core.hardware import lane_bytes
from ahac.sim.compiler.program import adjoint, evaluate
from ahac.sim.constants import with_constants
from ahac.sim.model.types import WORLD, Actuator, Joint, JointKind, Model, SiteDrive, SliderCrank
from ahac.sim.physics.contact import compliant, penalty
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from ahac.sim.stability import check_stability

__all__ = ["Inspection", "inspect_model", "rest_poses"]

CPU_OPERATIONS = 2.8e9
"""Operations per second and SIMD lane of one core: one per cycle of a 2.8 GHz Xeon (docs/performance)."""
GPU_OPERATIONS = 2.5e12
"""Operations per second of an H200 with 4096 worlds: Ant 2.6e12, Humanoid 2.3e12 (docs/performance)."""
FLOAT_BYTES = 4

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class JointReport:
    """One joint of the file."""

    name: str
    type: str
    """Hinge, slide, ball or free."""
    link: str
    range: Range | None
    inertia: float
    """Inertia that a force on the joint accelerates in the reference pose [kg m²] or [kg]; armature included."""
    armature: float
    damping: float
    stiffness: float
    frictionloss: float
    kp: float
    """Stiffness of the servos on this joint alone."""
    kv: float
    """Damping of the servos on this joint alone."""


@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """One moving body, including all bodies merged into it."""

    name: str
    parent: str
    mass: float


@dataclass(frozen=True, kw_only=True)
class ActuatorReport:
    """One actuator: force = gain · control + bias[0] + bias[1] · length + bias[2] · speed, strength included."""

    name: str
    kind: str
    """Motor, servo or muscle."""
    acts_on: str
    gain: float
    bias: tuple[float, ...]
    control_range: Range | None
    force_range: Range | None


@dataclass(frozen=True, kw_only=True)
class ContactReport:
    """The contact points of one geom with one plane."""

    geom: str
    link: str
    plane: str
    points: int
    stiffness: float
    friction: float


@dataclass(frozen=True, kw_only=True)
class StabilityReport:
    """Whether substeps of the given length are stable."""

    stable: bool
    message: str
    cause: str | None
    substeps: int | None
    """Sufficient number of substeps; None if none of those tried is stable."""


@dataclass(frozen=True, kw_only=True)
class CostReport:
    """Operations of one world, and the speed that they suggest."""

    forward_operations: int
    """Scalar operations of one substep."""
    backward_operations: int
    """Scalar operations of its adjoint."""
    core_steps_per_second: float
    """Control steps with gradients of one CPU core of this machine, estimated."""
    h200_steps_per_second: float
    """Control steps with gradients of an H200 with 4096 worlds, estimated."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Everything that `ahac inspect` shows."""

    name: str
    nq: int
    nv: int
    nu: int
    mass: float
    """Mass of everything that moves [kg]."""
    dt: float
    substeps: int
    integrator: str
    joints: tuple[JointReport, ...]
    links: tuple[LinkReport, ...]
    actuators: tuple[ActuatorReport, ...]
    contacts: tuple[ContactReport, ...]
    planes: tuple[str, ...]
    keyframes: tuple[str, ...]
    notes: tuple[str, ...]
    """Everything that loading approximated or dropped."""
    stability: StabilityReport
    cost: CostReport

    @property
    def contact_points(self) -> int:
        """Number of contact points."""
        return sum(contact.points for contact in self.contacts)


def inspect_model(
    model: Model, dt: float, substeps: int, integrator: Literal["implicit", "explicit"] = "implicit"
) -> Inspection:
    """Describe a model for control steps of `dt` seconds.

    Args:
        model: A model from `load_model`.
        dt: Duration of a control step [s].
        substeps: Number of substeps per control step.
        integrator: As in `Simulator`.
    """
    implicit = integrator == "implicit"
    filled = with_constants(model, implicit)
    stability = check_stability(model, dt / substeps, integrator)
    needed = None if stability.stable_step is None else round(dt / stability.stable_step)
    return Inspection(
        name=model.name,
        nq=model.nq,
        nv=model.nv,
        nu=model.nu,
        mass=sum(link.mass for link in model.links),
        dt=dt,
        substeps=substeps,
        integrator=integrator,
        joints=tuple(_joints(model)),
        links=tuple(
            LinkReport(name=link.name, parent=_link_name(model, link.parent), mass=link.mass) for link in model.links
        ),
        actuators=tuple(_actuator(model, actuator) for actuator in model.actuators),
        contacts=tuple(_contacts(filled)),
        planes=tuple(plane.name for plane in model.planes),
        keyframes=tuple(model.keyframes),
        notes=model.notes,
        stability=StabilityReport(
            stable=stability.stable, message=stability.message(dt), cause=stability.cause, substeps=needed
        ),
        cost=_cost(filled, substeps, implicit),
    )


def rest_poses(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [B, 3] and rotations [B, 3, 3] of all bodies of the file in the rest pose."""
    poses = evaluate(Programs(model, ForceLaws(), {}).poses(), {"q": np.array(model.rest_q)})
    return poses["position"].reshape(-1, 3), poses["rotation"].reshape(-1, 3, 3)


def _link_name(model: Model, link: int) -> str:
    return "world" if link == WORLD else model.links[link].name


def _joints(model: Model) -> list[JointReport]:
    """Describe the joints of the file; the slides of a free joint belong to its ball."""
    names = {joint.name for joint in model.joints}
    reports = []
    for link in model.links:
        for joint in link.joints:
            base, _, axis = joint.name.rpartition(":")
            if axis in ("x", "y", "z") and base in names:
                continue
            free = f"{joint.name}:x" in names
            reports.append(_joint(model, joint, link.name, "free" if free else joint.kind.value))
    return reports


def _joint(model: Model, joint: Joint, link: str, kind: str) -> JointReport:
    servos = [
        (actuator, actuator.strength * actuator.dofs[0][1] ** 2)
        for actuator in model.actuators
        if [dof for dof, _ in actuator.dofs] == [joint.v] and joint.kind is not JointKind.BALL
    ]
    return JointReport(
        name=joint.name,
        type=kind,
        link=link,
        range=joint.range,
        inertia=joint.inertia,
        armature=model.armature[joint.v],
        damping=model.damping[joint.v],
        stiffness=joint.stiffness,
        frictionloss=model.frictionloss[joint.v] if model.frictionloss else 0.0,
        kp=sum(-actuator.bias[1] * factor for actuator, factor in servos) + 0.0,
        kv=sum(-actuator.bias[2] * factor for actuator, factor in servos) + 0.0,
    )


def _actuator(model: Model, actuator: Actuator) -> ActuatorReport:
    if actuator.tendon is not None:
        acts_on = f"tendon {actuator.tendon.name}"
    elif isinstance(actuator.drive, SiteDrive | SliderCrank):
        acts_on = f"site {actuator.drive.name}"
    else:
        moved = {dof for dof, _ in actuator.dofs} | ({actuator.drive.v} if actuator.drive is not None else set())
        acts_on = ", ".join(joint.name for joint in model.joints if moved & set(joint.dofs))
    servo = any(actuator.bias[1:])
    linear_muscle = actuator.tendon is not None and actuator.gain < 0.0 and not any(actuator.bias)
    muscle = actuator.gain_curves is not None or linear_muscle
    bounds, strength = actuator.force_range, actuator.strength
    return ActuatorReport(
        name=actuator.name,
        kind="servo" if servo else "muscle" if muscle else "motor",
        acts_on=acts_on,
        gain=actuator.gain * strength,
        bias=tuple(x * strength for x in actuator.bias),
        control_range=actuator.control_range,
        force_range=None if bounds is None else (bounds[0] * strength, bounds[1] * strength),
    )


def _contacts(model: Model) -> list[ContactReport]:
    counts = Counter((c.geom, c.plane.name) for c in model.contact_candidates)
    first = {(c.geom, c.plane.name): c for c in reversed(model.contact_candidates)}
    return [
        ContactReport(
            geom=geom,
            link=_link_name(model, first[geom, plane].link),
            plane=plane,
            points=points,
            stiffness=first[geom, plane].material.stiffness or 0.0,
            friction=first[geom, plane].material.friction or 0.0,
        )
        for (geom, plane), points in counts.items()
    ]


def _cost(model: Model, substeps: int, implicit: bool) -> CostReport:
    program = Programs(model, ForceLaws(compliant if implicit else penalty, implicit=implicit), {}).step().substep
    forward = program.operations()
    backward = adjoint(program, ["q", "v", "u"]).operations()
    per_step = substeps * (forward + backward)
    return CostReport(
        forward_operations=forward,
        backward_operations=backward,
        core_steps_per_second=CPU_OPERATIONS * lane_bytes() / FLOAT_BYTES / per_step,
        h200_steps_per_second=GPU_OPERATIONS / per_step,
    )
