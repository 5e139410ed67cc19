"""Quantities that the numbers of an observation can be: positions, velocities, commands and the like.

Observation terms are plain functions, so what they compute is not written down anywhere. An observed number is
recognized by its values: in random states it equals scale · quantity + offset for one quantity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ahac.deployment.robot import driven_model, limb_joints
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.components.gait import GaitClock
from ahac.envs.components.history import ActionHistory
from ahac.envs.task import Task
from ahac.sim import Joint, JointKind, Real, Vec3, World, cos, sin

__all__ = ["Quantity", "all_quantities", "recognize"]

AXES = ("x", "y", "z")
MATCH = 1e-8
"""Largest difference between an observed number and its quantity, relative to its size; both are float64."""


@dataclass(frozen=True)
class Quantity:
    """A number that a robot or its operator knows."""

    quantity: str
    """Kind, as listed in docs/guides/exporting.md."""
    of: str
    """Joint, body, actuator, command, clock or memory."""
    value: Real
    """Value in one world, while it is traced."""
    unit: str | None = None
    part: str | int | None = None
    """Axis or index."""
    steps_ago: int = 0
    """Age of the value in control steps."""

    @property
    def label(self) -> str:
        """Name for readers."""
        part = "" if self.part is None else f" {self.part}"
        age = f" ({self.steps_ago} steps ago)" if self.steps_ago > 1 else ""
        return f"{self.quantity} {self.of}{part}{age}"

    def describe(self, scale: float, offset: float) -> dict[str, Any]:
        """Describe an observed number: value = scale · quantity + offset."""
        return {
            "label": self.label,
            "quantity": self.quantity,
            "of": self.of,
            "part": self.part,
            "scale": scale,
            "offset": offset,
            "unit": self.unit,
            "steps_ago": self.steps_ago,
        }


def all_quantities(task: Task, world: World, action: list[Real], components: Iterable[object]) -> list[Quantity]:
    """Return what an observed number may be, the most direct measurements first."""
    names = [actuator.name for actuator in driven_model(task).actuators]
    return [
        *(Quantity("last_action", name, a, steps_ago=1) for name, a in zip(names, action, strict=True)),
        *chain.from_iterable(_of_joint(world, joint) for joint in limb_joints(world.model)),
        *chain.from_iterable(_of_component(component, world, names) for component in components),
        *(
            Quantity("memory", name, value, part=i)
            for name, values in world.memory.items()
            for i, value in enumerate(values)
        ),
        *chain.from_iterable(_of_body(world, body) for body in world.model.bodies),
        Quantity("time", "episode", world.time, "s"),
    ]


def _of_joint(world: World, joint: Joint) -> Iterator[Quantity]:
    if joint.kind is JointKind.BALL:
        for i, axis in enumerate(("w", *AXES)):
            yield Quantity("joint_pos", joint.name, world.q[joint.q + i], part=axis)
        for i, axis in enumerate(AXES):
            yield Quantity("joint_vel", joint.name, world.v[joint.v + i], "rad/s", axis)
        return
    unit = "rad" if joint.kind is JointKind.HINGE else "m"
    position = world.q[joint.q]
    yield Quantity("joint_pos", joint.name, position, unit)
    yield Quantity("joint_vel", joint.name, world.v[joint.v], f"{unit}/s")
    if joint.kind is JointKind.HINGE:
        yield Quantity("sin_joint_pos", joint.name, sin(position))
        yield Quantity("cos_joint_pos", joint.name, cos(position))


def _of_component(component: object, world: World, actuators: list[str]) -> Iterator[Quantity]:
    match component:
        case VelocityCommand():
            parts = zip(("lin_vel_x", "lin_vel_y", "ang_vel_z"), ("m/s", "m/s", "rad/s"), strict=True)
            for (part, unit), value in zip(parts, component.value(world), strict=True):
                yield Quantity("command", component.name, value, unit, part)
        case GaitClock():
            for i, phase in enumerate(component.phases(world)):
                yield Quantity("sin_phase", component.name, sin(phase * (2.0 * math.pi)), part=i)
                yield Quantity("cos_phase", component.name, cos(phase * (2.0 * math.pi)), part=i)
        case ActionHistory():
            for step in range(1, component.steps + 1):
                for name, value in zip(actuators, component.previous(world, step), strict=True):
                    yield Quantity("last_action", name, value, steps_ago=step)
        case _:
            return


def _of_body(world: World, body: str) -> Iterator[Quantity]:
    to_body = world.rotation(body).transpose()
    vectors: dict[str, tuple[Vec3, str | None]] = {
        "base_ang_vel": (to_body @ world.angular_velocity(body), "rad/s"),
        "base_lin_vel": (to_body @ world.velocity(body), "m/s"),
        "projected_gravity": (to_body @ Vec3(0.0, 0.0, -1.0), None),
        "position": (world.position(body), "m"),
        "velocity": (world.velocity(body), "m/s"),
        "angular_velocity": (world.angular_velocity(body), "rad/s"),
        "forward_axis": (world.rotation(body).column(0), None),
    }
    for quantity, (vector, unit) in vectors.items():
        for axis, value in zip(AXES, vector, strict=True):
            yield Quantity(quantity, body, value, unit, axis)
    link = world.model.bodies[body].link
    balls = [joint for joint in world.model.links[link].joints if joint.kind is JointKind.BALL] if link >= 0 else []
    for joint in balls:
        for i, axis in enumerate(("w", *AXES)):
            yield Quantity("orientation", body, world.q[joint.q + i], part=axis)


def recognize(values: np.ndarray, quantities: list[Quantity], table: np.ndarray) -> dict[str, Any] | None:
    """Return what an observed number is; None if it is none of the quantities.

    Args:
        values: [states] the number in random states.
        quantities: What it may be.
        table: [states, quantities] their values in the same states.
    """
    size = MATCH * (1.0 + float(np.abs(values).max()))
    centered, mean = values - values.mean(), float(values.mean())
    if np.abs(centered).max() <= size:
        return Quantity("constant", "1", 1.0).describe(0.0, _tidy(mean))
    others = table - table.mean(axis=0)
    squares = (others**2).sum(axis=0)
    varied = squares > MATCH
    slopes = np.where(varied, (others * centered[:, None]).sum(axis=0) / np.where(varied, squares, 1.0), 0.0)
    residuals = np.abs(centered[:, None] - others * slopes).max(axis=0)
    fitting = np.flatnonzero(residuals <= size)
    if not len(fitting):
        return None
    best = int(fitting[0])
    scale = float(slopes[best])
    return quantities[best].describe(_tidy(scale), _tidy(mean - scale * float(table[:, best].mean())))


def _tidy(number: float) -> float:
    """Return a number without the rounding of its fit."""
    return round(number, 9) + 0.0
