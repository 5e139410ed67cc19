"""Add rotor inertia to the joints of a loaded model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.types import Joint, Model
from ahac.sim.physics.inertia import link_inertias, mass_matrix
from ahac.sim.physics.kinematics import forward

__all__ = ["add_armature"]


def add_armature(model: Model, armature: Mapping[int, float]) -> Model:
    """Return the model with added armature, by velocity coordinate [kg m²] or [kg], as if the file had it."""
    if not any(armature.values()):
        return model
    if model.equalities:
        raise ModelError(
            f"armature cannot be added to {model.name!r} after loading: the springs of its equality constraints depend "
            "on it; set armature in the file, or load with motors=Servo(armature=...)"
        )
    added = tuple(a + armature.get(k, 0.0) for k, a in enumerate(model.armature))
    model = replace(model, armature=added)
    mobility = np.diag(np.linalg.inv(_rest_mass_matrix(model)))
    links = tuple(
        replace(link, joints=tuple(_with_inertia(joint, mobility) for joint in link.joints)) for link in model.links
    )
    return replace(model, links=links)


def _rest_mass_matrix(model: Model) -> np.ndarray:
    """Return the mass matrix [nv, nv] in the rest pose."""
    motion = forward(model, list(model.rest_q), [0.0] * model.nv)
    matrix = np.zeros((model.nv, model.nv))
    for (k, j), value in mass_matrix(model, motion, link_inertias(model, motion)).items():
        matrix[k, j] = matrix[j, k] = float(value)
    return matrix


def _with_inertia(joint: Joint, mobility: np.ndarray) -> Joint:
    """Return the joint with the inertia that a force on it accelerates; the slides of a free joint share theirs."""
    return replace(joint, inertia=1.0 / float(mobility[list(joint.spring_dofs or joint.dofs)].mean()))
