"""View sources for environments and robots, and trajectories for recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_finite
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.engines import EngineEnv
from ahac.envs import VecEnv, command_ranges, release_command, set_command
from ahac.envs.state import TaskState
from ahac.sim import JointKind, Model, Simulator, State
from ahac.training.checkpoint import LAST
from ahac.view.quaternions import from_matrix
from ahac.view.scene import scene_of
from ahac.view.sources import Velocity, ViewSource
from ahac.view.trajectory import Frame, Recorder, Trajectory

if TYPE_CHECKING:
    from ahac.training.run import Run

__all__ = ["DUMMY_POLICIES", "EnvSource", "RobotSource", "dummy_policy", "record_trajectory"]

PUSH_SPEED = 2.0
"""Change of the root's velocity by a push [m/s]."""
DUMMY_POLICIES = ("zero", "random")
RELOAD_INTERVAL = 0.5
"""Simulated time between two checks for a new checkpoint [s]."""
LIVE_FRAME_RATE = 10.0
"""Frames per simulated second while following a run in training, low so that it barely slows the training down."""

Policy = Callable[[Tensor], Tensor]


def dummy_policy(name: str, action_size: int, seed: int = 0) -> Policy:
    """Return a policy that ignores observations: zero actions, or uniformly random ones in [-1, 1]."""
    if name not in DUMMY_POLICIES:
        raise InputError(f"no agent named {name!r}; known: {', '.join(DUMMY_POLICIES)}")
    rng = torch.Generator().manual_seed(seed)

    def act(obs: Tensor) -> Tensor:
        shape = (len(obs), action_size)
        actions = torch.zeros(shape) if name == "zero" else 2.0 * torch.rand(shape, generator=rng) - 1.0
        return actions.to(obs.device, obs.dtype)

    return act


class EnvSource:
    """Environment controlled by a policy."""

    def __init__(self, env: VecEnv, act: Policy, run: Run | None = None, newest: bool = False) -> None:
        """With `newest`, follow a run in training: load each new checkpoint, and show fewer frames."""
        self.env = env
        self.act = act
        self.run = run
        self._stride = max(1, round(1.0 / (LIVE_FRAME_RATE * env.spec.dt))) if newest else 1
        self.dt = self._stride * env.spec.dt
        self._newest = newest
        self._loaded_mtime = 0.0
        self._since_check = 0.0
        self.terminations = 0
        """Episodes that the task ended since the last reset, over all worlds."""
        self.command: Velocity | None = None
        """Velocity that all worlds are to follow; None while commands vary as in training."""
        self._derivatives = not isinstance(env, EngineEnv)
        self._frames = _FrameBuilder(env.sim, contact_forces=self._derivatives)
        self.scene = self._frames.scene

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Names of the run's checkpoints, best and last first."""
        names = [] if self.run is None else self.run.checkpoint_names()
        return tuple(sorted(names, key=lambda name: (name not in (LAST, "best"), name)))

    @property
    def command_ranges(self) -> tuple[tuple[float, float], ...]:
        """Ranges of the task's velocity commands, extended to zero; empty if it has none."""
        return command_ranges(self.env.task)

    def set_command(self, command: Velocity | None) -> None:
        """Command a velocity in all worlds, observed from the next step on; None lets commands vary again.

        Where an episode begins, the first observation has a command of its own unless the task is one of
        `hold_command`.
        """
        if command is not None:
            set_command(self.env, *command)
        elif self.command is not None:
            release_command(self.env)
        self.command = command

    def load_checkpoint(self, name: str) -> None:
        """Continue with the policy of another checkpoint."""
        if self.run is None:
            raise InputError("there are no checkpoints to choose from: this is not a run")
        self.run.restore(name, with_env=False)

    def reset(self) -> Frame:
        """Start a new episode in every world."""
        self.terminations = 0
        self.env.reset()
        idle = torch.zeros(self.env.spec.num_envs, self.env.spec.action_size, device=self.env.spec.device)
        zero = idle.new_zeros(self.env.spec.num_envs)
        channels = {"reward": zero, "stiffness": zero} if self._derivatives else {"reward": zero}
        return self._frames.frame(self.env.state, idle, channels)

    @torch.no_grad()
    def step(self) -> Frame:
        """Run control steps up to the next frame."""
        self._since_check += self.dt
        if self._newest and self._since_check >= RELOAD_INTERVAL:
            self._since_check = 0.0
            self._reload_newest()
        for _ in range(self._stride - 1):
            self._advance()
        step = self._advance()
        channels = {"reward": step.reward}
        if self._derivatives:
            channels["stiffness"] = self.env.stiffness(step, "contact")
        return self._frames.frame(self.env.state, step.action, channels)

    def _advance(self) -> Step:
        """Run one control step; worlds that began an episode in the last one have drawn a command of their own."""
        if self.command is not None:
            set_command(self.env, *self.command)
        step = self.env.step(self.act(self.env.obs))
        self.terminations += int(step.terminated.sum())
        return step

    def _reload_newest(self) -> None:
        """Load the last checkpoint if it has changed."""
        path = None if self.run is None else self.run.path_of(LAST)
        if path is not None and path.exists() and (mtime := path.stat().st_mtime) != self._loaded_mtime:
            self._loaded_mtime = mtime
            self.load_checkpoint(LAST)

    def push(self) -> None:
        """Push the root in every world in a random direction along the ground."""
        state = self.env.state_dict()
        state["v"] = _pushed(self.env.sim.model, state["v"])
        self.env.load_state_dict(state)


class RobotSource:
    """Robot without a task, controlled by a policy that ignores observations."""

    checkpoints: tuple[str, ...] = ()
    command_ranges: tuple[tuple[float, float], ...] = ()
    command: Velocity | None = None

    def __init__(self, sim: Simulator, act: Policy) -> None:
        self.sim = sim
        self.act = act
        self.dt = sim.dt
        self._frames = _FrameBuilder(sim)
        self._state = sim.rest_state()
        self.scene = self._frames.scene

    def set_command(self, command: Velocity | None) -> None:
        """Raise an InputError: a robot without a task follows no commands."""
        raise InputError("a robot without a task follows no velocity commands; play a run or a task such as go1")

    def load_checkpoint(self, name: str) -> None:
        """Raise an InputError: a robot without a task has no checkpoints."""
        raise InputError("there are no checkpoints to choose from: this is not a run")

    def reset(self) -> Frame:
        """Return to the rest state of the robot file."""
        self._state = self.sim.rest_state()
        return self._frames.frame(self._state, self._state.q.new_zeros(self.sim.num_worlds, self.sim.model.nu), {})

    @torch.no_grad()
    def step(self) -> Frame:
        """Run one control step; diverged worlds are reset."""
        action = self.act(self._state.q)
        end = self.sim.step(self._state, action)
        rest = self.sim.rest_state()
        self._state = end.where(self.sim.is_finite(end), rest)
        return self._frames.frame(self._state, action, {})

    def push(self) -> None:
        """Push the root in every world in a random direction along the ground."""
        self._state = replace(self._state, v=_pushed(self.sim.model, self._state.v))


def record_trajectory(stage: ViewSource, seconds: float) -> Trajectory:
    """Reset a view source, run it for the given number of seconds and return its trajectory."""
    recorder = Recorder(stage.scene, stage.dt)
    recorder.add(stage.reset())
    for _ in range(round(check_finite("seconds", seconds, stage.dt) / stage.dt)):
        recorder.add(stage.step())
    return recorder.trajectory()


class _FrameBuilder:
    """Builds frames from states of a simulator."""

    def __init__(self, sim: Simulator, contact_forces: bool = True) -> None:
        """Show contact forces, which are those of the simulator's own contact law, or none."""
        self.sim = sim
        self._contact_forces = contact_forces
        self.scene = scene_of(sim.model)
        actuators = sim.model.actuators
        self._muscles = [k for k, actuator in enumerate(actuators) if actuator.tendon is not None]
        self._activations = {k: a.activation.index for k, a in enumerate(actuators) if a.activation is not None}
        motors = [(k, a) for k, a in enumerate(actuators) if len(a.dofs) == 1 and a.is_linear and not any(a.bias[1:])]
        self._torque = {f"torque {a.name}": (k, a.gain * a.dofs[0][1]) for k, a in motors}
        self._low, self._high = torch.tensor([a.control_range or (-1.0, 1.0) for a in actuators]).reshape(-1, 2).T

    @torch.no_grad()
    def frame(self, state: State, action: Tensor, channels: Mapping[str, Tensor]) -> Frame:
        """Return the frame of a state and of the action that led to it."""
        parameters = state.parameters if isinstance(state, TaskState) else None
        poses = self.sim.poses(state.q.detach(), parameters)
        force = state.q.new_zeros(self.sim.num_worlds, len(self.sim.model.contact_candidates), 3)
        if self.sim.model.contact_candidates and self._contact_forces:
            force = self.sim.contacts(state.detach(), parameters).force
        control = action.detach().cpu().float().clamp(self._low, self._high)
        activation = (control - self._low) / (self._high - self._low)
        if state.act is not None:
            for k, i in self._activations.items():
                activation[:, k] = state.act[:, i].detach().cpu().float().clamp(0.0, 1.0)
        torques = {name: scale * control[:, k] for name, (k, scale) in self._torque.items()}
        return Frame(
            position=_array(poses.position),
            quaternion=from_matrix(_array(poses.rotation)),
            force=_array(force),
            activation=_array(activation[:, self._muscles]),
            channels={name: _array(x) for name, x in {**channels, **torques}.items()},
        )


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy().astype(np.float32)


def _pushed(model: Model, v: Tensor) -> Tensor:
    """Return velocities after a push of the root in a random direction along the ground."""
    horizontal = [
        joint.v
        for joint in model.links[0].joints
        if joint.kind is JointKind.SLIDE and abs(joint.axis[2]) < np.sqrt(0.5)
    ]
    if not horizontal:
        raise InputError(f"{model.name} cannot be pushed: its root does not move along the ground")
    pushed = v.clone()
    angle = 2.0 * np.pi * torch.rand(()).item()
    for part, k in zip((np.cos(angle), np.sin(angle)), horizontal, strict=False):
        pushed[:, k] += PUSH_SPEED * part
    return pushed
