"""Contact forces that implicit steps apply: tension, the friction cone, and contact ahead of touch-down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ahac.sim import World
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.program import evaluate, trace
from ahac.sim.constants import with_constants
from ahac.sim.model.load import load_model
from ahac.sim.physics.algebra import ZERO_SPATIAL
from ahac.sim.physics.contact import compliant
from ahac.sim.physics.implicit_contact import implicit_contacts
from ahac.sim.physics.integrate import normalize
from behavior.engines import Motion
from behavior.scenes import Scene

__all__ = ["Forces", "applied_forces"]


@dataclass(frozen=True)
class Forces:
    """Forces at every contact candidate in every step, averaged over the step: [T, points]."""

    normal: np.ndarray
    tangential: np.ndarray
    friction: np.ndarray
    """Coulomb coefficients [points]."""
    depth: np.ndarray
    """Depth at the start of the step [m]."""

    def tension(self, weight: float) -> tuple[float, float, float]:
        """Return the share of touching points that are pulled [%], the largest pull, and the largest of a step."""
        touching = np.abs(self.normal) > 1e-9 * weight
        pull = np.minimum(self.normal, 0.0) / -weight
        return 100.0 * float((pull > 1e-9).sum() / touching.sum()), float(pull.max()), float(pull.sum(1).max())

    def impulse_of_tension(self) -> float:
        """Return the impulse of all pulls, as a fraction of that of all pushes."""
        return float(-np.minimum(self.normal, 0.0).sum() / np.maximum(self.normal, 0.0).sum())

    def cone_ratios(self, weight: float) -> np.ndarray:
        """Return |f_t| / (mu f_n) of all points that carry at least 1 % of the weight."""
        loaded = self.normal > 0.01 * weight
        return (self.tangential / np.where(loaded, self.normal * self.friction, 1.0))[loaded]


def applied_forces(scene: Scene, motion: Motion) -> Forces:
    """Return the forces of the steps of a motion's first world, except its first step."""
    model = with_constants(load_model(scene.source(), contact=scene.material), implicit=True)
    q, v = motion.q[:, 0], motion.v[:, 0]

    def forces(q: list[Scalar], v: list[Scalar], a: list[Scalar], h: list[Scalar]) -> dict[str, Sequence[Real]]:
        world = World(model, normalize(model, q), v, [])
        found: dict[str, list[Real]] = {"normal": [], "tangential": [], "depth": []}
        for point in world.contact_points:
            link = point.candidate.link
            wrenches, matrices = implicit_contacts([point], world.motion, compliant, h[0])
            rate = sum((world.motion.joint_subspace[k] * a[k] for k in model.path(link)), ZERO_SPATIAL)
            force = (wrenches[link] - matrices[link] @ rate).linear
            normal = force.dot(point.normal)
            across = force - point.normal * normal
            found["normal"].append(normal)
            found["tangential"].append(across.dot(across))
            found["depth"].append(point.depth)
        return dict(found)

    program = trace(forces, {"q": model.nq, "v": model.nv, "a": model.nv, "h": 1})
    a = np.diff(v, axis=0) / motion.h
    found = evaluate(program, {"q": q[:-1], "v": v[:-1], "a": a, "h": np.array([motion.h])})
    friction = [candidate.material.friction for candidate in model.contact_candidates]
    return Forces(found["normal"], np.sqrt(found["tangential"]), np.array(friction, dtype=float), found["depth"])
