"""Situations in contact: every shape, sticking and sliding, on level ground, a slope or a wall; and standing robots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ahac.sim import Model, Real, Vec3, exp, load_model, log, norm, tanh
from ahac.sim.compiler.program import evaluate
from ahac.sim.constants import with_constants
from ahac.sim.model.types import ContactConstants
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from gradients import models
from gradients.cases import Case
from gradients.chains import Groups
from support.robots import gymnasium_file

ROUGH, SLIPPERY = 0.75, 0.1
"""Friction with which points stick at 0.05 m/s, and slide on at 1.5 m/s."""

TILTED = 'pos="0.1 0.2 -0.1" euler="0.4 -0.3 0.2"'
WALL = 'pos="-0.3 0 0" euler="0 1.5707963267948966 0"'

UPWARD = {"ant": 2, "humanoid": 2, "hopper": 1}
"""The coordinate that is the height of Gymnasium's robots."""


def contacts(model: Model, states: Groups) -> Groups:
    """Depth and velocity of the deepest point, and what decides between sticking and sliding."""
    found = evaluate(Programs(model, ForceLaws(), {}).contacts(), {"q": states["q"], "v": states["v"]})
    depth = found["depth"]
    deepest = np.argmax(depth, axis=-1)
    normal = np.array([candidate.plane.normal for candidate in model.contact_candidates])[deepest]
    velocity = found["velocity"].reshape(*depth.shape, 3)
    velocity = np.take_along_axis(velocity, deepest[..., None, None], axis=-2)[..., 0, :]
    slip = velocity - normal * np.sum(velocity * normal, axis=-1, keepdims=True)
    material = with_constants(model, implicit=False).contact_candidates[0].material
    assert isinstance(material, ContactConstants)
    return {
        "depth": np.max(depth, axis=-1),
        "drag": material.viscosity * np.linalg.norm(slip, axis=-1),
        "bound": material.friction * material.stiffness * np.max(depth, axis=-1),
    }


def touches(model: Model, states: Groups) -> np.ndarray:
    """The deepest point touches."""
    return contacts(model, states)["depth"] > 0.0


def sticks(model: Model, states: Groups) -> np.ndarray:
    """The deepest point touches, and friction is below its bound."""
    found = contacts(model, states)
    return (found["depth"] > 0.0) & (found["drag"] < found["bound"])


def slides(model: Model, states: Groups) -> np.ndarray:
    """The deepest point touches, and friction is at its bound."""
    found = contacts(model, states)
    return (found["depth"] > 0.0) & (found["drag"] > found["bound"])


def press(speed: float) -> Callable[[Model, Groups], None]:
    """Put the deepest point 6 mm into the plane, keep pushing, and let the body slide at `speed` along it."""

    def set_state(model: Model, x: Groups) -> None:
        normal = np.array(model.contact_candidates[0].plane.normal)
        along = np.cross(normal, [0.3, 0.9, -0.5])
        x["v"][:] *= 0.02
        x["v"][:3] = speed * along / np.linalg.norm(along) - 0.02 * normal
        x["q"][3:7] = [0.9, 0.1, -0.15, 0.05]
        x["q"][:3] = 0.0
        depth = contacts(model, {"q": x["q"], "v": x["v"]})["depth"]
        x["q"][:3] = (depth - 6e-3) * normal
        x["f"][:3] = -20.0 * normal

    return set_state


def soft_law(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """A contact law of a user's own, with every smooth function there is."""
    speed = velocity.dot(normal)
    push = material.stiffness * depth * exp(-0.5 * speed) * log(2.0 + depth)
    slip = velocity - normal * speed
    return normal * push - slip * (push * material.friction * tanh(norm(slip, 1e-2)))


def standing(name: str, rng: np.random.Generator, implicit: bool = False) -> tuple[Model, Groups]:
    """One of Gymnasium's robots in a random pose, its lowest point 2 cm in the ground."""
    model = with_constants(load_model(gymnasium_file(name)), implicit)
    x = {"q": np.array(model.rest_q) + 0.1 * rng.standard_normal(model.nq), "v": rng.standard_normal(model.nv)}
    x |= {"u": rng.uniform(-0.3, 0.3, model.nu), "f": rng.standard_normal(model.nv)}
    x["q"][UPWARD[name]] += contacts(model, x)["depth"] - 0.02
    return model, x


CONTACTS = [
    *(
        Case(f"{shape} sticking", models.touching(shape, ROUGH), holds=sticks, set_state=press(0.05))
        for shape in models.SHAPES
    ),
    *(
        Case(f"{shape} sliding", models.touching(shape, SLIPPERY), holds=slides, set_state=press(1.5))
        for shape in models.SHAPES
    ),
    Case("tilted plane", models.touching("capsule", ROUGH, TILTED), holds=sticks, set_state=press(0.05)),
    Case("wall", models.touching("ellipsoid", SLIPPERY, WALL), holds=slides, set_state=press(1.5)),
    Case(
        "contact law",
        models.touching("box", ROUGH),
        holds=touches,
        set_state=press(0.05),
        laws=ForceLaws(contact=soft_law),
    ),
]
