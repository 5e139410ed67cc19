"""Check whether a substep is short enough for the forces that it integrates explicitly.

Free motion: the substep is linearized about the rest pose and the keyframes, without contact and joint limits. An
explicit spring or damper that is too stiff for the step overshoots: it has an eigenvalue λ with |λ| > 1 and a negative
real part. The eigenvalues of a robot that falls over have positive real parts and are not counted.

Contact and limits act along a direction J with stiffness k and damping c. Each on its own is an oscillator with
g = J M⁻¹ Jᵀ, whose two eigenvalues follow from

    λ² − (2 − h c g − h² k g) λ + (1 − h c g) = 0        unstable where 2 h c g + h² k g > 4

The points that a robot stands on act together; g is then the largest eigenvalue over all their directions.

An activation with time constant τ, advanced by Euler's method, has the eigenvalue λ = 1 − h / τ.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.program import Program, evaluate, trace
from ahac.sim.constants import with_constants
from ahac.sim.model.types import Joint, JointKind, Model, Tendon
from ahac.sim.physics.activation import shortest_time_constant
from ahac.sim.physics.forces import limit_constants
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.paths import tendon_path
from ahac.sim.physics.substep import ForceLaw, ForceLaws
from ahac.sim.physics.world import World
from ahac.sim.programs import Programs

__all__ = ["Stability", "check_stability", "warn_if_unstable"]

logger = logging.getLogger("ahac")

EPSILON = 1e-6
"""Step of the central differences [rad], [m], [rad/s], [m/s]."""
TOLERANCE = 1e-3
"""Growth per substep above 1 that still counts as stable, because of rounding errors."""
SUPPORT_HEIGHT = 0.01
"""A robot stands on all points that are less than this much higher than its lowest one in a pose [m]."""
HALVINGS = 12
"""The step is halved at most this many times to find a stable one."""
MOST_POSES = 8
"""Maximum number of keyframes that are checked."""


@dataclass(frozen=True)
class Stability:
    """Whether substeps of a given length are stable, and if not, why."""

    step: float
    """Length of the substep [s]."""
    growth: float
    """Factor by which the most unstable oscillation grows in each substep; at most 1 if all are stable."""
    cause: str | None
    """What oscillates, such as "joint 'knee'"; None if nothing does."""
    stable_step: float | None
    """Longest stable substep among step, step / 2, step / 4, ... [s]; None if none of those tried is stable."""

    @property
    def stable(self) -> bool:
        """Whether no oscillation grows."""
        return self.cause is None

    def message(self, dt: float) -> str:
        """Return one line about the problem, for control steps of `dt` seconds."""
        substeps = f"{dt * 1e3:.3g} ms / {ceil(dt / self.step - EPSILON)}"
        if self.stable:
            return f"stable with substeps of {substeps}"
        if self.stable_step is None:
            remedy = f"not even {ceil(dt / self.step) * 2**HALVINGS} substeps suffice"
        else:
            remedy = f"use at least {ceil(dt / self.stable_step - EPSILON)} substeps"
        return (
            f"{self.cause} is unstable with substeps of {substeps} (it grows {self.growth:.3g}-fold in each): {remedy}"
        )


@dataclass(frozen=True)
class _Element:
    """The force of one contact point or limit along one direction in joint space."""

    label: str
    direction: np.ndarray
    stiffness: float
    damping: float


@dataclass(frozen=True)
class _Pose:
    """What the check needs to know about one pose."""

    q: np.ndarray
    v: np.ndarray
    inverse_mass: np.ndarray
    limits: list[_Element]
    """Forces of the limits of joints and tendons."""
    contacts: list[_Element]
    """Forces of all contact points, each alone."""
    standing: list[_Element]
    """Forces of all points that the robot stands on."""


def warn_if_unstable(
    model: Model, dt: float, substeps: int, integrator: Literal["implicit", "explicit"], forces: Sequence[ForceLaw] = ()
) -> None:
    """Log a warning if a robot is unstable in free motion or while it stands.

    The check is skipped if all forces are implicit. It leaves out contacts whose constants the file or the caller sets.
    """
    if integrator == "implicit" and not forces and model.fluid is None:
        return
    untuned = [c for c in model.contact_candidates if None in (c.material.stiffness, c.material.viscosity)]
    model = replace(model, contact_candidates=tuple(untuned))
    stability = check_stability(model, dt / substeps, integrator, forces, standing_only=True)
    if not stability.stable:
        logger.warning("model %r: %s", model.name, stability.message(dt))


def check_stability(
    model: Model,
    h: float,
    integrator: Literal["implicit", "explicit"] = "implicit",
    forces: Sequence[ForceLaw] = (),
    standing_only: bool = False,
) -> Stability:
    """Check whether substeps of `h` seconds are stable in the rest pose and the keyframes of a model.

    Args:
        model: A model from `load_model`.
        h: Length of a substep [s].
        integrator: As in `Simulator`. Contact, limits and activations are checked for "explicit" only.
        forces: User-defined force laws, as in `Simulator`.
        standing_only: Whether to check only those contact points that the robot stands on in these poses.
    """
    implicit = integrator == "implicit"
    model = _unsaturated(with_constants(model, implicit))
    laws = ForceLaws(extra=tuple(forces), contact_enabled=False, implicit=implicit)
    program = Programs(model, laws, {}).step().substep
    poses = list(_poses(model, with_elements=not implicit))
    if standing_only:
        poses = [replace(pose, contacts=[]) for pose in poses]
    lags = [] if implicit else list(_lags(model))
    growth, cause = _worst(model, program, poses, lags, h)
    stable_step = h
    if cause is not None:
        steps = (h / 2**k for k in range(1, HALVINGS + 1))
        stable_step = next((step for step in steps if _worst(model, program, poses, lags, step)[1] is None), None)
    return Stability(h, growth, cause, stable_step)


def _unsaturated(model: Model) -> Model:
    """Return the model without bounds on controls and forces: a saturated servo is neither stiff nor damped."""
    actuators = tuple(replace(a, control_range=None, force_range=None) for a in model.actuators)
    links = tuple(
        replace(link, joints=tuple(replace(joint, force_range=None) for joint in link.joints)) for link in model.links
    )
    return replace(model, actuators=actuators, links=links)


def _worst(
    model: Model, program: Program, poses: Sequence[_Pose], lags: Sequence[tuple[str, float]], h: float
) -> tuple[float, str | None]:
    """Return the largest growth of an oscillation in any pose, and what oscillates."""
    found = [
        *(_free_motion(model, program, pose, h) for pose in poses),
        *(_alone(element, pose, h) for pose in poses for element in (*pose.limits, *pose.contacts)),
        *(_together(pose, h) for pose in poses if pose.standing),
        *((max(0.0, h / tau - 1.0), label) for label, tau in lags),
    ]
    growth, cause = max(found)
    return (growth, cause) if growth > 1.0 + TOLERANCE else (min(growth, 1.0), None)


def _free_motion(model: Model, program: Program, pose: _Pose, h: float) -> tuple[float, str]:
    """Return the growth and the joint of the fastest growing oscillation of the linearized substep."""
    jacobian = _jacobian(model, program, pose, h)
    if not np.isfinite(jacobian).all():
        return np.inf, "a mass matrix that is singular"
    values, vectors = np.linalg.eig(jacobian)
    moduli = np.where(np.real(values) < 0.0, np.abs(values), 0.0)
    worst = int(np.argmax(moduli))
    speeds = np.abs(vectors[model.nv :, worst])
    return float(moduli[worst]), f"joint {_joint_of(model, int(np.argmax(speeds))).name!r}"


def _jacobian(model: Model, program: Program, pose: _Pose, h: float) -> np.ndarray:
    """Return ∂(q', v')/∂(q, v) in the tangent space, by central differences."""
    n = model.nv
    offsets = EPSILON * np.concatenate([np.eye(2 * n), -np.eye(2 * n)])
    values = {name: np.zeros(len(group)) for name, group in program.inputs.items()}
    values |= {"q": _displaced(model, pose.q, offsets[:, :n]), "v": pose.v + offsets[:, n:], "h": np.array([h])}
    with np.errstate(all="ignore"):
        out = evaluate(program, values)
        q = _tangent(model, out["q"][0], out["q"])
        ends = np.concatenate([q, out["v"]], axis=-1)
        return (ends[: 2 * n] - ends[2 * n :]).T / (2.0 * EPSILON)


def _alone(element: _Element, pose: _Pose, h: float) -> tuple[float, str]:
    mobility = float(element.direction @ pose.inverse_mass @ element.direction)
    return _growth(h * element.damping * mobility, h * h * element.stiffness * mobility), element.label


def _together(pose: _Pose, h: float) -> tuple[float, str]:
    """Return growth and label of the points that a robot stands on, which share its weight."""
    directions = np.array([element.direction for element in pose.standing])
    weights = np.array([h * element.damping + 0.5 * h * h * element.stiffness for element in pose.standing])
    scaled = np.sqrt(weights)[:, None] * directions
    values, vectors = np.linalg.eigh(scaled @ pose.inverse_mass @ scaled.T)
    worst = pose.standing[int(np.argmax(np.abs(vectors[:, -1])))]
    share = h * worst.damping / (h * worst.damping + 0.5 * h * h * worst.stiffness)
    return _growth(values[-1] * share, 2.0 * values[-1] * (1.0 - share)), worst.label


def _growth(damping: float, stiffness: float) -> float:
    """Return the modulus of the oscillator's negative eigenvalue, with h c g and h² k g; 0 if there is none."""
    roots = np.roots([1.0, damping + stiffness - 2.0, 1.0 - damping])
    return float(max((abs(root) for root in roots if root.real < 0.0), default=0.0))


def _poses(model: Model, with_elements: bool) -> Iterator[_Pose]:
    keyframes = ((keyframe.q, keyframe.v) for keyframe in model.keyframes.values())
    states = [(model.rest_q, (0.0,) * model.nv), *keyframes][: 1 + MOST_POSES]
    mass_matrix = Programs(model, ForceLaws(), {}).mass_matrix()
    points = _points(model) if with_elements and model.contact_candidates else None
    tendons = _tendon_jacobians(model) if with_elements else None
    for positions, velocities in states:
        q, v = np.array(positions), np.array(velocities)
        mass = evaluate(mass_matrix, {"q": q})["matrix"].reshape(model.nv, model.nv)
        if not with_elements or np.linalg.matrix_rank(mass) < model.nv:
            yield _Pose(q, v, np.zeros_like(mass), [], [], [])
            continue
        contacts, standing = _contact_elements(model, points, q) if points else ([], [])
        inverse = np.linalg.inv(mass)
        limits = [*_joint_limits(model, inverse), *(_tendon_limits(model, tendons, q) if tendons else ())]
        yield _Pose(q, v, inverse, limits, contacts, standing)


def _joint_limits(model: Model, inverse_mass: np.ndarray) -> Iterator[_Element]:
    for joint in model.joints:
        if joint.range is not None:
            # A ball joint may reach its limit about any axis: take that of the least inertia.
            axes = np.linalg.eigh(inverse_mass[np.ix_(joint.dofs, joint.dofs)])[1]
            direction = np.zeros(model.nv)
            direction[list(joint.dofs)] = axes[:, -1]
            yield _Element(f"the limit of joint {joint.name!r}", direction, *limit_constants(joint.limit))


def _tendon_jacobians(model: Model) -> Program | None:
    """Trace q -> Jacobians of all tendons with a range, one after the other; None if there are none."""
    ranged = _ranged(model)

    def jacobians(q: list[Scalar]) -> dict[str, list[Real]]:
        at = normalize(model, q)
        motion = World(model, at, [0.0] * model.nv, []).motion
        paths = [tendon_path(model, motion, tendon, at) for tendon in ranged]
        return {"jacobian": [path.jacobian.get(k, 0.0) for path in paths for k in range(model.nv)]}

    return trace(jacobians, {"q": model.nq}) if ranged else None


def _ranged(model: Model) -> list[Tendon]:
    return [tendon for tendon in model.tendons if tendon.range is not None]


def _tendon_limits(model: Model, jacobians: Program, q: np.ndarray) -> Iterator[_Element]:
    ranged = _ranged(model)
    directions = evaluate(jacobians, {"q": q})["jacobian"].reshape(len(ranged), model.nv)
    for tendon, direction in zip(ranged, directions, strict=True):
        yield _Element(f"the limit of tendon {tendon.name!r}", direction, *limit_constants(tendon.limit))


def _lags(model: Model) -> Iterator[tuple[str, float]]:
    """Return label and time constant [s] of all activations that explicit steps advance by Euler's method."""
    for actuator in model.actuators:
        if actuator.activation is not None and not actuator.disabled:
            tau = shortest_time_constant(actuator.activation)
            if tau is not None:
                yield f"the activation of actuator {actuator.name!r}", tau


def _points(model: Model) -> Program:
    """Trace q, v -> depth and velocity of every contact point."""

    def points(q: list[Scalar], v: list[Scalar]) -> dict[str, list[float | Scalar]]:
        found = World(model, normalize(model, q), v, []).contact_points
        return {"depth": [p.depth for p in found], "velocity": [x for p in found for x in p.velocity]}

    return trace(points, {"q": model.nq, "v": model.nv})


def _contact_elements(model: Model, points: Program, q: np.ndarray) -> tuple[list[_Element], list[_Element]]:
    """Return the forces of each point alone, and those of all points that the robot stands on in this pose."""
    found = evaluate(points, {"q": q, "v": np.eye(model.nv)})
    depth = found["depth"][0]
    jacobians = found["velocity"].reshape(model.nv, len(depth), 3).transpose(1, 2, 0)
    alone, standing = [], []
    for candidate, jacobian, d in zip(model.contact_candidates, jacobians, depth, strict=True):
        normal = np.array(candidate.plane.normal)
        across = np.linalg.svd(normal[None])[2][1:]
        label, material = f"contact of geom {candidate.geom!r}", candidate.material
        elements = [_Element(label, normal @ jacobian, material.stiffness or 0.0, 0.0)]
        elements += [_Element(label, axis @ jacobian, 0.0, material.viscosity or 0.0) for axis in across]
        alone += elements
        if d > depth.max() - SUPPORT_HEIGHT:
            standing += [element for element in elements if element.stiffness or element.damping]
    return alone, standing


def _joint_of(model: Model, dof: int) -> Joint:
    return next(joint for joint in model.joints if dof in joint.dofs)


def _balls(model: Model) -> list[Joint]:
    return [joint for joint in model.joints if joint.kind is JointKind.BALL]


def _displaced(model: Model, q: np.ndarray, tangents: np.ndarray) -> np.ndarray:
    """Return q moved by small displacements [N, nv]; a rotation is multiplied by 1 + half a rotation vector."""
    rows = np.tile(q, (len(tangents), 1))
    for joint in model.joints:
        if joint.kind is not JointKind.BALL:
            rows[:, joint.q] += tangents[:, joint.v]
    for joint in _balls(model):
        w, x = q[joint.q], q[joint.q + 1 : joint.q + 4]
        half = 0.5 * tangents[:, joint.v : joint.v + 3]
        rows[:, joint.q] = w - half @ x
        rows[:, joint.q + 1 : joint.q + 4] = x + w * half + np.cross(x, half)
    return rows


def _tangent(model: Model, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the small displacements [N, nv] from q to the rows, the inverse of `_displaced`."""
    tangents = np.zeros((len(rows), model.nv))
    for joint in model.joints:
        if joint.kind is not JointKind.BALL:
            tangents[:, joint.v] = rows[:, joint.q] - q[joint.q]
    for joint in _balls(model):
        w, x = q[joint.q], q[joint.q + 1 : joint.q + 4]
        vectors = rows[:, joint.q + 1 : joint.q + 4]
        turned = w * vectors - rows[:, joint.q, None] * x - np.cross(x, vectors)
        tangents[:, joint.v : joint.v + 3] = 2.0 * turned
    return tangents
