# pyright: reportAttributeAccessIssue=false
"""Randomized parameters of a task in MuJoCo models, one model per world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np

from ahac.core.errors import InputError
from ahac.engines.mujoco_actuators import force_constants
from ahac.engines.mujoco_robot import MujocoRobot, set_friction
from ahac.sim import Model, Parameters

__all__ = ["ParameterWriter"]

BODY = {"body_mass": "body_mass", "body_inertia": "body_inertia", "body_ipos": "body_ipos", "body_pos": "body_pos"}
DOF = {"dof_armature": "dof_armature", "dof_damping": "dof_damping", "dof_frictionloss": "dof_frictionloss"}
JOINT = {"jnt_stiffness": "jnt_stiffness", "jnt_range": "jnt_range"}
TENDON = {name: name for name in ("tendon_stiffness", "tendon_damping", "tendon_frictionloss")}
OPTION = {"gravity": "gravity", "opt_density": "density", "opt_viscosity": "viscosity", "opt_wind": "wind"}
ACTUATOR = ("joint_offset", "actuator_gain", "actuator_damping", "actuator_strength")
"""Kinds that change the force of an actuator."""
ELSEWHERE = ("actuator_delay",)
"""Kinds that are not constants of the model; the environment delays the controls."""
OTHERS = ("geom_friction", "geom_pos", "qpos_spring")

Put = Callable[[mujoco.MjModel, Sequence[float]], None]


class ParameterWriter:
    """Writes values of a task's parameters into MuJoCo models."""

    def __init__(self, robot: MujocoRobot, model: Model, parameters: Parameters) -> None:
        """Look up where each parameter goes; raise an InputError for those that MuJoCo or the file does not have."""
        self._model = model
        self._robot = robot
        self._parameters = parameters
        self._priority = int(robot.raw.geom_priority.max(initial=0)) + 1
        kinds = {name: name.partition(":")[0] for name in parameters.names}
        known = {*BODY, *DOF, *JOINT, *TENDON, *OPTION, *ACTUATOR, *ELSEWHERE, *OTHERS}
        if unknown := [name for name, kind in kinds.items() if kind not in known]:
            raise InputError(
                f"randomized parameters without a counterpart in MuJoCo: {', '.join(unknown)}; evaluate a task without "
                f"them. Known kinds: {', '.join(sorted(known))}"
            )
        self._actuated = any(kind in ACTUATOR for kind in kinds.values())
        puts = {name: self._put(kind, name.partition(":")[2]) for name, kind in kinds.items()}
        self._puts: Mapping[str, Put] = {name: put for name, put in puts.items() if put is not None}
        self._scratch = mujoco.MjData(robot.raw)

    def write(self, raw: mujoco.MjModel, values: Sequence[float]) -> None:
        """Set the parameters of a model to P values."""
        named = self._parameters.by_name(values)
        for name, put in self._puts.items():
            put(raw, [float(x) for x in named[name] if isinstance(x, float | int)])
        if self._actuated:
            changed = self._parameters.apply(self._model, values)
            for i, actuator in enumerate(changed.actuators):
                law = force_constants(changed, actuator)
                raw.actuator_gainprm[i, : len(law.gain)] = law.gain
                raw.actuator_biasprm[i, : len(law.bias)] = law.bias
                if law.force_range is not None:
                    raw.actuator_forcerange[i] = law.force_range
                if law.length_range is not None:
                    raw.actuator_lengthrange[i] = law.length_range
        mujoco.mj_setConst(raw, self._scratch)

    def _put(self, kind: str, element: str) -> Put | None:
        """Return how to set a parameter; None if another part does."""
        if kind in BODY:
            return _row(BODY[kind], self._index("body", element))
        if kind in TENDON:
            return _row(TENDON[kind], self._index("tendon", element))
        if kind in OPTION:
            return lambda raw, values: setattr(raw.opt, OPTION[kind], values if len(values) > 1 else values[0])
        if kind == "geom_pos":
            return _row("geom_pos", self._index("geom", element))
        if kind == "geom_friction":
            geoms = self._geoms(element)
            return lambda raw, values: set_friction(raw, geoms, values[0], self._priority)
        if kind in DOF or kind in JOINT or kind == "qpos_spring":
            return self._put_joint(kind, element)
        return None

    def _put_joint(self, kind: str, element: str) -> Put:
        joint = next(joint for joint in self._model.joints if joint.name == element)
        dofs = self._robot.joints.v[list(joint.dofs)]
        if kind in DOF:
            return _row(DOF[kind], dofs)
        if kind == "qpos_spring":
            return _row("qpos_spring", self._robot.joints.q[[joint.q]])
        return _row(JOINT[kind], int(self._robot.raw.dof_jntid[dofs[0]]))

    def _index(self, kind: str, name: str) -> int:
        found = self._robot.index(kind, name)
        if found is None:
            raise InputError(f"the file has no {kind} named {name!r}, of which the task randomizes a parameter")
        return found

    def _geoms(self, name: str) -> list[int]:
        """Return the geom of a name, or all geoms of its body that can collide."""
        raw, found = self._robot.raw, self._robot.index("geom", name)
        if found is not None:
            return [found]
        body = self._index("body", self._model.file_geoms[name].body)
        colliding = (raw.geom_contype != 0) | (raw.geom_conaffinity != 0)
        geoms = np.flatnonzero((raw.geom_bodyid == body) & colliding).tolist()
        if not geoms:
            raise InputError(
                f"the file has no geom named {name!r}, of which the task randomizes the friction, and its body "
                f"{self._model.file_geoms[name].body!r} has no geom that collides"
            )
        return geoms


def _row(field: str, index: int | np.ndarray) -> Put:
    """Return a function that sets a row of one of the model's arrays."""

    def put(raw: mujoco.MjModel, values: Sequence[float]) -> None:
        array = getattr(raw, field)
        array[index] = values[0] if array[index].ndim == 0 else values

    return put
