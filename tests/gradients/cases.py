"""Situations in which derivatives are checked: a robot, its state, and the proof that the situation is the named one.

A proof is either a piece of the file without which the outcome is another one, or a condition on every substep.
Situations in contact stand in `contact_cases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ahac.sim import (
    AppliedForce,
    Integrator,
    JointLimit,
    Model,
    Real,
    Vec3,
    World,
    compliant,
    load_model,
    norm,
    penalty,
    tanh,
)
from ahac.sim.constants import with_constants
from ahac.sim.physics.substep import ForceLaws
from gradients import models
from gradients.chains import Chain, Groups

SUBSTEP = 5e-4
"""Seconds: 64 substeps are 32 ms, in which a soft contact neither ends nor begins."""

SOFT_LIMIT = JointLimit(stiffness=60.0, damping=1.5)
"""Takes more than 64 substeps to push a joint back into its range."""

Condition = Callable[[Model, Groups], np.ndarray]
"""[substeps] bool: whether the situation is the named one, from the states at the start of every substep."""


@dataclass(frozen=True)
class Case:
    """One robot in one situation."""

    name: str
    xml: str
    seed: int = 0
    feature: str = ""
    """Part of the file that makes the difference."""
    holds: Condition | None = None
    laws: ForceLaws = field(default_factory=ForceLaws)
    set_state: Callable[[Model, Groups], None] | None = None
    """Moves a random state into the situation."""

    @cached_property
    def model(self) -> Model:
        return with_constants(load_model(self.xml, limit=SOFT_LIMIT), self.laws.implicit)

    @cached_property
    def chain(self) -> Chain:
        return Chain(self.model, self.laws, {"observed": observe})

    @property
    def integrator(self) -> Integrator:
        return "implicit" if self.laws.implicit else "explicit"

    @property
    def implicit(self) -> Case:
        """The same situation, integrated implicitly."""
        law = compliant if self.laws.contact is penalty else self.laws.contact
        return replace(self, name=f"{self.name}, implicit", laws=replace(self.laws, implicit=True, contact=law))

    def state(self) -> Groups:
        """Random positions, velocities, controls and forces; quaternions away from unit length on purpose."""
        model, rng = self.model, np.random.default_rng(self.seed)
        x = {
            "q": np.array(model.rest_q) + 0.3 * rng.standard_normal(model.nq),
            "v": rng.standard_normal(model.nv),
            "u": rng.uniform(0.2, 0.8, model.nu),
            "f": 0.1 * rng.standard_normal(model.nv),
        }
        if self.set_state is not None:
            self.set_state(model, x)
        return x


def observe(world: World) -> list[Real]:
    """A readout that looks at everything: end, start and controls."""
    assert world.before is not None
    last = list(world.model.bodies)[-1]
    moved = world.position(last) - world.before.position(last)
    effort = sum((u * u for u in world.control), 0.0)
    spin = world.rotation(last) @ world.angular_velocity(last)
    return [*moved, *world.velocity(last), *spin, norm(moved) + effort]


def pull(world: World) -> Iterable[AppliedForce]:
    """A force law of a user's own: a spring to a place, a brake, and a torque."""
    reach = world.position("link") - Vec3(0.2, 0.1, 0.4)
    yield world.apply_force(
        "link", -20.0 * reach - 0.5 * world.velocity("link"), torque=world.angular_velocity("link") * -0.1
    )
    yield world.apply_force("link", Vec3(1.0, world.control[0], 0.0), at=world.position("tip"))
    yield world.apply_joint_force(
        "hinge", -3.0 * tanh(world.joint_position("hinge")) - 0.2 * world.joint_velocity("hinge")
    )


PULLED = models.robot(
    f'<body name="link" pos="0.1 0.2 0.3">{models.hinge()}{models.INERTIA.format(mass=1.0)}'
    f"{models.site('tip', '0 0.1 0.3')}{models.body(models.ball())}</body>",
    '<actuator><motor joint="hinge"/></actuator>',
)


def at_limits(hinge: float, slide: float) -> Callable[[Model, Groups], None]:
    """Joints at rest at given places."""

    def set_state(model: Model, x: Groups) -> None:
        x["q"][:], x["v"][:] = (hinge, slide), (0.1, -0.05)

    return set_state


def below(model: Model, states: Groups) -> np.ndarray:
    return np.all(states["q"] < np.array([j.range[0] for j in model.joints if j.range]), axis=-1)


def above(model: Model, states: Groups) -> np.ndarray:
    return np.all(states["q"] > np.array([j.range[1] for j in model.joints if j.range]), axis=-1)


def inside(model: Model, states: Groups) -> np.ndarray:
    return ~np.any((states["q"] < [-0.5, -0.2]) | (states["q"] > [0.4, 0.3]), axis=-1)


def near_rest(model: Model, x: Groups) -> None:
    """Close to the reference pose, where a constraint of the file holds."""
    x["q"][:] = np.array(model.rest_q) + 1e-3 * (x["q"] - model.rest_q)
    x["v"][:] *= 0.1


def turned_by(angle: float) -> Callable[[Model, Groups], None]:
    """The first ball joint turned by an angle, and hardly moving."""

    def set_state(model: Model, x: Groups) -> None:
        axis = np.array([0.6, -0.48, 0.64])
        x["q"][:4] = [np.cos(angle / 2.0), *(np.sin(angle / 2.0) * axis)]
        x["v"][:] *= 0.05

    return set_state


def ball_angle(states: Groups) -> np.ndarray:
    q = states["q"][..., :4] / np.linalg.norm(states["q"][..., :4], axis=-1, keepdims=True)
    return 2.0 * np.arccos(q[..., 0])


def ball_inside(model: Model, states: Groups) -> np.ndarray:
    return ball_angle(states) < 0.65


def ball_beyond(model: Model, states: Groups) -> np.ndarray:
    return ball_angle(states) > 0.75


def almost_stuck(model: Model, x: Groups) -> None:
    """Speeds at which dry friction is viscous."""
    x["v"][:] *= 1e-3


def controls(*values: float) -> Callable[[Model, Groups], None]:
    """Given controls, near the rest pose."""

    def set_state(model: Model, x: Groups) -> None:
        x["u"][:] = values
        x["q"][:] *= 0.3
        x["v"][:] *= 0.3

    return set_state


def servo_forces(model: Model, states: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Of the servo on the hinge, and of both servos on the slide together, before they are clipped."""
    forces = []
    for n, actuator in enumerate(model.actuators):
        length = sum(states["q"][..., i] * gear for i, gear in actuator.coordinates)
        speed = sum(states["v"][..., k] * gear for k, gear in actuator.dofs)
        constant, by_length, by_speed = actuator.bias
        forces.append(actuator.gain * states["u"][..., n] + constant + by_length * length + by_speed * speed)
    gear = model.actuators[2].dofs[0][1]
    return forces[0], forces[1] + gear * forces[2]


def unclipped(model: Model, states: Groups) -> np.ndarray:
    hinge, slide = servo_forces(model, states)
    return (np.abs(hinge) < 5.9) & (np.abs(slide) < 7.9)


def clipped_servo(model: Model, states: Groups) -> np.ndarray:
    hinge, slide = servo_forces(model, states)
    return (np.abs(hinge) > 6.1) & (np.abs(slide) < 7.9)


def just_clipped(model: Model, states: Groups) -> np.ndarray:
    """At first, beyond their bounds by so little that an implicit step takes it into account."""
    hinge, slide = servo_forces(model, states)
    return ((np.abs(hinge) > 6.1) & (np.abs(slide) > 8.1))[:1]


def clipped_joint(model: Model, states: Groups) -> np.ndarray:
    hinge, slide = servo_forces(model, states)
    return (np.abs(hinge) < 5.9) & (np.abs(slide) > 8.1)


def beyond_control(model: Model, x: Groups) -> None:
    """The last control out of its range."""
    x["u"][-1] = 12.0


JOINTS = [
    Case("hinges", models.HINGES),
    Case("slides", models.SLIDES),
    Case("balls", models.BALLS),
    Case("free", models.FREE_TREE),
    Case("several joints on one body", models.STACKED),
    Case("two trees", models.TWO_TREES),
    Case("armature", models.LOADED, feature='armature="0.2"'),
    Case("damping", models.LOADED, feature='damping="0.5"'),
    Case("below limits", models.LIMITED, holds=below, set_state=at_limits(-0.7, -0.4)),
    Case("above limits", models.LIMITED, holds=above, set_state=at_limits(0.6, 0.5)),
    Case("inside limits", models.LIMITED, holds=inside, set_state=at_limits(0.1, -0.05)),
    Case("springs", models.SPRUNG, feature='stiffness="40"'),
    Case("ball springs", models.BALL_SPRUNG, feature='stiffness="5"'),
    Case("free spring", models.FREE_SPRUNG, feature='stiffness="7"'),
    Case("servos", models.SERVOS, feature='kv="1.5"'),
    Case("control beyond its range", models.SERVOS, set_state=beyond_control),
    Case("servos within bounds", models.BOUNDED_SERVOS, holds=unclipped, set_state=controls(0.05, 0.02, 0.1)),
    Case("servo beyond its force range", models.BOUNDED_SERVOS, holds=clipped_servo, set_state=controls(1, 0.02, 0.1)),
    Case("servos beyond a joint's range", models.BOUNDED_SERVOS, holds=clipped_joint, set_state=controls(0, 1, 1)),
    Case("servos a little beyond", models.BOUNDED_SERVOS, holds=just_clipped, set_state=controls(0.5, 0.19, 0.1)),
    Case("servo across branches", models.ACROSS, feature='kv="4"'),
    Case("ball inside its limit", models.BALL_LIMITED, holds=ball_inside, set_state=turned_by(0.3)),
    Case("ball beyond its limit", models.BALL_LIMITED, holds=ball_beyond, set_state=turned_by(1.2)),
    Case("dry friction", models.DRY, feature='frictionloss="2"'),
    Case("dry friction, almost stuck", models.DRY, feature='frictionloss="0.1"', set_state=almost_stuck),
    Case("coupled joints", models.equal(models.MIMIC), feature=models.MIMIC),
    Case("locked joint", models.equal(models.LOCK), feature=models.LOCK),
    Case("connected branches", models.equal(models.CONNECT), feature=models.CONNECT, set_state=near_rest),
    Case("branch connected to the world", models.equal(models.PIN), feature=models.PIN, set_state=near_rest),
    Case("two trees welded", models.equal(models.WELD), feature=models.WELD, set_state=near_rest),
    Case("motors on ball and free joints", models.BALL_MOTOR, feature='gear="1 -2 0.5"'),
    Case("fixed tendon", models.FIXED_TENDON, feature='kv="0.4"'),
    Case("muscles", models.MUSCLES, feature='force="20"'),
    Case("muscles on a bounded joint", models.BOUNDED_MUSCLES, feature=models.BOUND),
    Case("fluid", models.FLUID, feature='density="900" viscosity="0.6"'),
    Case("force law", PULLED, laws=ForceLaws(extra=(pull,))),
]
