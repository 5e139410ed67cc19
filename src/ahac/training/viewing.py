"""Environments and robots as something to look at: stages for a viewer, and trajectories for recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.envs import VecEnv
from ahac.sim import JointKind, Model, Simulator, State
from ahac.view.quaternions import from_matrix
from ahac.view.scene import scene_of
from ahac.view.sources import ViewSource
from ahac.view.trajectory import Frame, Recorder, Trajectory

if TYPE_CHECKING:
    from ahac.training.run import Run

__all__ = ["DUMMY_POLICIES", "EnvSource", "RobotSource", "dummy_policy", "record_trajectory"]

PUSH = 2.0
"""Change of the root's velocity by a push [m/s]."""
DUMMY_POLICIES = ("zero", "random")
LOOK_EVERY = 0.5
"""Between two looks for a new checkpoint [s of the world]."""
PICTURES = 10.0
"""Per second, of a run that trains meanwhile: looking on is to cost it next to nothing."""

Policy = Callable[[Tensor], Tensor]


def dummy_policy(name: str, actions: int, seed: int = 0) -> Policy:
    """A policy that looks at nothing: no action, or any."""
    if name not in DUMMY_POLICIES:
        raise InputError(f"no agent named {name!r}; known: {', '.join(DUMMY_POLICIES)}")
    rng = torch.Generator().manual_seed(seed)

    def act(obs: Tensor) -> Tensor:
        shape = (len(obs), actions)
        drawn = torch.zeros(shape) if name == "zero" else 2.0 * torch.rand(shape, generator=rng) - 1.0
        return drawn.to(obs.device, obs.dtype)

    return act


class EnvSource:
    """An environment under a policy."""

    def __init__(self, env: VecEnv, act: Policy, run: Run | None = None, newest: bool = False) -> None:
        """Of a run that trains meanwhile, `newest` takes up every new checkpoint, and shows fewer moments."""
        self.env = env
        self.act = act
        self.run = run
        self._stride = max(1, round(1.0 / (PICTURES * env.spec.dt))) if newest else 1
        self.dt = self._stride * env.spec.dt
        self._newest = newest
        self._seen = 0.0
        self._unseen = 0.0
        self._camera = _Camera(env.sim)
        self.scene = self._camera.scene

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Checkpoints of the run."""
        found = [] if self.run is None else self.run.checkpoint_names()
        return tuple(sorted(found, key=lambda name: (name not in ("last", "best"), name)))

    def load_checkpoint(self, name: str) -> None:
        """Go on with the policy of another checkpoint."""
        if self.run is None:
            raise InputError("there are no checkpoints to choose from: this is no run")
        self.run.restore(name, with_env=False)

    def reset(self) -> Frame:
        """New episodes everywhere."""
        self.env.reset()
        idle = torch.zeros(self.env.spec.num_envs, self.env.spec.action_size, device=self.env.spec.device)
        zero = idle.new_zeros(self.env.spec.num_envs)
        return self._camera.frame(self.env.state, idle, {"reward": zero, "stiffness": zero})

    @torch.no_grad()
    def step(self) -> Frame:
        """Control steps until the next moment that is shown."""
        self._unseen += self.dt
        if self._newest and self._unseen >= LOOK_EVERY:
            self._unseen = 0.0
            self._reload_newest()
        for _ in range(self._stride - 1):
            self.env.step(self.act(self.env.obs))
        done = self.env.step(self.act(self.env.obs))
        seen = {"reward": done.reward, "stiffness": self.env.stiffness(done, "contact")}
        return self._camera.frame(self.env.state, done.action, seen)

    def _reload_newest(self) -> None:
        """Go on with the last checkpoint, if it is another one than before."""
        last = None if self.run is None else self.run.path_of("last")
        if last is not None and last.exists() and (written := last.stat().st_mtime) != self._seen:
            self._seen = written
            self.load_checkpoint("last")

    def push(self) -> None:
        """Kick the root of every world sideways or forwards."""
        state = self.env.state_dict()
        state["v"] = _pushed(self.env.sim.model, state["v"])
        self.env.load_state_dict(state)


class RobotSource:
    """A robot without a task, under an agent that sees nothing."""

    checkpoints: tuple[str, ...] = ()

    def __init__(self, sim: Simulator, act: Policy) -> None:
        self.sim = sim
        self.act = act
        self.dt = sim.dt
        self._camera = _Camera(sim)
        self._state = sim.rest_state()
        self.scene = self._camera.scene

    def load_checkpoint(self, name: str) -> None:
        """A robot alone has no checkpoints."""
        raise InputError("there are no checkpoints to choose from: this is no run")

    def reset(self) -> Frame:
        """As the file draws it."""
        self._state = self.sim.rest_state()
        return self._camera.frame(self._state, self._state.q.new_zeros(self.sim.num_worlds, self.sim.model.nu), {})

    @torch.no_grad()
    def step(self) -> Frame:
        """One control step; worlds that are lost begin anew."""
        action = self.act(self._state.q)
        end, rest = self.sim.step(self._state, action), self.sim.rest_state()
        lost = ~self.sim.is_finite(end)[:, None]
        self._state = State(torch.where(lost, rest.q, end.q), torch.where(lost, rest.v, end.v))
        return self._camera.frame(self._state, action, {})

    def push(self) -> None:
        """Kick the root of every world sideways or forwards."""
        self._state = State(self._state.q, _pushed(self.sim.model, self._state.v))


def record_trajectory(stage: ViewSource, seconds: float) -> Trajectory:
    """What happens on a stage in the next seconds."""
    recorder = Recorder(stage.scene, stage.dt)
    recorder.add(stage.reset())
    for _ in range(round(check_finite("seconds", seconds, stage.dt) / stage.dt)):
        recorder.add(stage.step())
    return recorder.trajectory()


class _Camera:
    """Takes frames of a simulator's worlds."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.scene = scene_of(sim.model)
        actuators = sim.model.actuators
        self._muscles = [k for k, actuator in enumerate(actuators) if actuator.tendon is not None]
        motors = [(k, a) for k, a in enumerate(actuators) if len(a.dofs) == 1]
        self._torque = {f"torque {a.name}": (k, a.gain * a.dofs[0][1]) for k, a in motors}
        self._low, self._high = torch.tensor([a.control_range or (-1.0, 1.0) for a in actuators]).reshape(-1, 2).T

    @torch.no_grad()
    def frame(self, state: State, action: Tensor, channels: Mapping[str, Tensor]) -> Frame:
        """Of a state, and of the action that led there."""
        poses = self.sim.poses(state.q.detach())
        none = state.q.new_zeros(self.sim.num_worlds, 0, 3)
        force = self.sim.contacts(state.detach()).force if self.sim.model.contact_candidates else none
        control = action.detach().cpu().float().clamp(self._low, self._high)
        share = (control - self._low) / (self._high - self._low)
        torques = {name: scale * control[:, k] for name, (k, scale) in self._torque.items()}
        return Frame(
            position=_array(poses.position),
            quaternion=from_matrix(_array(poses.rotation)),
            force=_array(force),
            activation=_array(share[:, self._muscles]),
            channels={name: _array(x) for name, x in {**channels, **torques}.items()},
        )


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy().astype(np.float32)


def _pushed(model: Model, v: Tensor) -> Tensor:
    """Velocities after a kick of the root along the ground."""
    level = [
        joint.v
        for joint in model.links[0].joints
        if joint.kind is JointKind.SLIDE and abs(joint.axis[2]) < np.sqrt(0.5)
    ]
    if not level:
        raise InputError(f"{model.name} cannot be pushed: its root does not move along the ground")
    kicked, angle = v.clone(), 2.0 * np.pi * torch.rand(()).item()
    for part, k in zip((np.cos(angle), np.sin(angle)), level, strict=False):
        kicked[:, k] += PUSH * part
    return kicked
