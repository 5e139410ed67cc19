# pyright: reportAttributeAccessIssue=false
"""MuJoCo as an engine: all worlds in parallel on the CPU, with MuJoCo's own contacts, limits and integration."""

from __future__ import annotations

import copy
import os
from types import TracebackType

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout
from torch import Tensor

from ahac.core.checks import check_int, check_positive
from ahac.core.hardware import usable_cores
from ahac.engines.engine import Drive, EngineState
from ahac.engines.mujoco_parameters import ParameterWriter
from ahac.engines.mujoco_robot import build_robot
from ahac.envs import Task

__all__ = ["TIMESTEP", "MujocoEngine"]

TIMESTEP = 0.002
"""Default duration of an integration step [s]."""
INPUTS = int(mujoco.mjtState.mjSTATE_CTRL) | int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)


class MujocoEngine:
    """MuJoCo with implicitfast integration."""

    name = "mujoco"

    def __init__(
        self,
        task: Task,
        *,
        num_worlds: int,
        model: str | os.PathLike[str] | None = None,
        timestep: float = TIMESTEP,
        num_threads: int | None = None,
    ) -> None:
        """Compile the robot of a task for MuJoCo.

        Args:
            task: The task. Its actuators replace those of the file.
            num_worlds: Number of worlds.
            model: MJCF or URDF file of the robot, with joints and bodies of the same names; by default the task's own.
            timestep: Duration of an integration step [s], rounded so that a control step is a multiple of it.
            num_threads: Number of CPU threads; all cores by default.
        """
        self.num_worlds = check_int("num_worlds", num_worlds, 1)
        self.robot = build_robot(task.model, model)
        self.steps = max(1, round(task.dt / check_positive("timestep", timestep)))
        """Integration steps per control step."""
        raw = self.robot.raw
        raw.opt.timestep = task.dt / self.steps
        raw.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        # A diverged world is reset by the environment.
        raw.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._models = [raw]
        self._writer = None
        if task.randomization is not None:
            self._models = [copy.copy(raw) for _ in range(num_worlds)]
            self._writer = ParameterWriter(self.robot, task.model, task.randomization.parameters)
        actuators = task.model.actuators
        self._low, self._high = np.array([a.control_range or (-np.inf, np.inf) for a in actuators]).T
        self._scale, self._offset = np.array([a.control_map or (1.0, 0.0) for a in actuators]).T
        threads = min(num_worlds, usable_cores() if num_threads is None else check_int("num_threads", num_threads, 1))
        self._rollout = Rollout(nthread=0 if threads == 1 else threads)
        self._data = [mujoco.MjData(raw) for _ in range(threads)]
        size = mujoco.mj_stateSize(raw, int(mujoco.mjtState.mjSTATE_FULLPHYSICS))
        self._start = np.zeros((num_worlds, size))
        self._values: np.ndarray | None = None
        self._last: tuple[np.ndarray, np.ndarray] | None = None
        """State and accelerations at the end of the last step, from which the solver starts again."""

    def __enter__(self) -> MujocoEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads."""
        self._rollout.close()

    @torch.no_grad()
    def step(self, state: EngineState, drive: Drive) -> EngineState:
        """Return the state one control step later."""
        raw, joints = self.robot.raw, self.robot.joints
        if self._writer is not None and drive.parameters is not None:
            self._set_parameters(self._writer, _array(drive.parameters))
        q, v, act = slice(1, 1 + raw.nq), slice(1 + raw.nq, 1 + raw.nq + raw.nv), slice(1 + raw.nq + raw.nv, None)
        self._start[:, q][:, joints.q], self._start[:, v][:, joints.v] = _array(state.q), _array(state.v)
        if state.act is not None:
            self._start[:, act][:, : raw.na] = _array(state.act)
        inputs = np.zeros((self.num_worlds, raw.nu + raw.nv))
        inputs[:, : raw.nu] = np.clip(_array(drive.control), self._low, self._high) * self._scale + self._offset
        inputs[:, raw.nu + joints.v] = _array(drive.force)
        found, _ = self._rollout.rollout(
            self._models,
            self._data,
            self._start,
            inputs[:, None],
            control_spec=INPUTS,
            nstep=self.steps,
            initial_warmstart=self._warm_start(),
        )
        states = np.asarray(found)
        end, before = states[:, -1], self._start if self.steps == 1 else states[:, -2]
        q1, v1 = end[:, q][:, joints.q], end[:, v][:, joints.v]
        result = EngineState(
            _like(state.q, q1),
            _like(state.v, v1),
            None if state.act is None else _like(state.act, end[:, act][:, : raw.na]),
        )
        reached = np.concatenate([_array(result.q), _array(result.v)], axis=1)
        self._last = reached, (end[:, v] - before[:, v]) / raw.opt.timestep
        return result

    def _warm_start(self) -> np.ndarray:
        """Return the last accelerations, where the world continues from the state that the last step returned."""
        raw, joints = self.robot.raw, self.robot.joints
        start = np.zeros((self.num_worlds, raw.nv))
        if self._last is not None:
            reached, accelerations = self._last
            q, v = self._start[:, 1 : 1 + raw.nq][:, joints.q], self._start[:, 1 + raw.nq :][:, joints.v]
            same = (np.concatenate([q, v], axis=1) == reached).all(axis=1) & np.isfinite(accelerations).all(axis=1)
            start[same] = accelerations[same]
        return start

    def _set_parameters(self, writer: ParameterWriter, values: np.ndarray) -> None:
        """Write the parameters of worlds in which they have changed."""
        changed = range(self.num_worlds)
        if self._values is not None:
            changed = np.flatnonzero((values != self._values).any(axis=1)).tolist()
        for world in changed:
            writer.write(self._models[world], values[world].tolist())
        self._values = values


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(np.float64)


def _like(tensor: Tensor, values: np.ndarray) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(values)).to(tensor.device, tensor.dtype)
