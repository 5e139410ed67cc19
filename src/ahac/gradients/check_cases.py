"""What a check of gradients is of: a simulator, states of it worth looking at, and names for all numbers involved."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.envs import Task, make, tasks
from ahac.gradients.policies import find_task
from ahac.sim import Model, Simulator, State, load_model
from ahac.sim.model.files import ROBOT_SUFFIXES

__all__ = ["CheckCase", "build_check_case"]

DT, SUBSTEPS = 1.0 / 60.0, 16
"""Of a robot without a task."""
STATE_NOISE = 0.1
"""Noise of the velocities with which a robot without a task begins [m/s] or [rad/s]."""
PUSH = 0.9
"""Largest action: at its bound an action is clipped, and has no derivative on one side."""
HELD = 10
"""Steps for which an action is held: a robot that trembles does not fall."""
TWICE = 2
"""States in which a contact point shall touch, if there are any."""

Inputs = tuple[Tensor, Tensor, Tensor]
"""Positions [S, nq], velocities [S, nv] and controls [S, nu]."""


@dataclass(frozen=True, eq=False)
class CheckCase:
    """S states of a robot, a world each, in float64."""

    name: str
    sim: Simulator
    inputs: Inputs
    outcome: Callable[[Tensor, Tensor, Tensor], Tensor]
    """All that a control step gives, [S, outputs], from the inputs."""
    outputs: Mapping[str, int]
    """How many of these each output has, in order."""

    @property
    def coordinates(self) -> list[str]:
        """What each of the nq + nv + nu input numbers belongs to."""
        m = self.sim.model
        q, v = [""] * m.nq, [""] * m.nv
        for joint in m.joints:
            width = len(joint.dofs) + (len(joint.dofs) == 3)  # a ball has four positions and three velocities
            q[joint.q : joint.q + width] = [f"position of {joint.name}"] * width
            v[joint.v : joint.dofs.stop] = [f"velocity of {joint.name}"] * len(joint.dofs)
        return [*q, *v, *(f"control of {actuator.name}" for actuator in m.actuators)]

    def contact_forces(self, q: Tensor, v: Tensor) -> Tensor:
        """[S, 3 points] on every point that may touch."""
        return self.sim.contacts(State(q, v)).force.flatten(1)


def build_check_case(what: str | os.PathLike[str] | Task | Model, states: int, steps: int, seed: int) -> CheckCase:
    """States out of `steps` control steps under random actions, chosen so that many contacts are among them.

    Args:
        what: A task by name, as FILE.py:NAME or as it is; or a robot, as an MJCF or URDF file or as a `Model`.
        states: How many.
        steps: On the way.
        seed: Of starts, actions and choice.
    """
    if isinstance(what, Model):
        return _model_case(what, states, steps, seed)
    if not isinstance(what, Task) and Path(what).suffix in ROBOT_SUFFIXES:
        if not Path(what).is_file():
            raise InputError(
                f"there is no file {str(what)!r}; wanted the MJCF or URDF file of a robot, or a task: "
                f"{', '.join(tasks())}, or one of your own as FILE.py:NAME"
            )
        return _model_case(load_model(what, ground=True), states, steps, seed)
    if isinstance(what, Task) or str(what) in tasks() or ".py:" in str(what):
        return _task_case(what if isinstance(what, Task) else find_task(str(what)), states, steps, seed)
    raise InputError(
        f"{str(what)!r} is neither a task nor the file of a robot ({', '.join(ROBOT_SUFFIXES)}); tasks: "
        f"{', '.join(tasks())}, or one of your own as FILE.py:NAME"
    )


def _task_case(task: Task, states: int, steps: int, seed: int) -> CheckCase:
    env = make(task, num_envs=states, seed=seed, dtype=torch.float64, early_termination=False)
    rng = torch.Generator().manual_seed(seed)

    def advance(state: State, action: Tensor) -> State:
        env.step(action)
        return env.state

    found = _collect_states(env.sim, env.state, advance, steps, rng)
    context = {name: torch.full((states, size), 0.5, dtype=torch.float64) for name, size in env.sim.context.items()}
    outputs = {"positions": env.sim.model.nq, "velocities": env.sim.model.nv}
    outputs |= {f"observation: {name}": size for name, size in env.obs_layout.items()}
    outputs |= {f"reward: {name}": 1 for name in task.reward}

    def outcome(q: Tensor, v: Tensor, u: Tensor) -> Tensor:
        end = env.sim.step(State(q, v), u, context=context)
        return torch.cat([end.q, end.v, end.readouts["step.final_obs"], end.readouts["step.reward_terms"]], dim=-1)

    return CheckCase(task.name, env.sim, found, outcome, outputs)


def _model_case(model: Model, states: int, steps: int, seed: int) -> CheckCase:
    sim = Simulator(model, num_worlds=states, dt=DT, substeps=SUBSTEPS, dtype=torch.float64)
    rng = torch.Generator().manual_seed(seed)
    rest = sim.rest_state()
    start = State(rest.q, rest.v + STATE_NOISE * torch.randn(rest.v.shape, generator=rng, dtype=torch.float64))

    def advance(state: State, action: Tensor) -> State:
        end = sim.step(state, action)
        lost = ~sim.is_finite(end)[:, None]
        return State(torch.where(lost, start.q, end.q), torch.where(lost, start.v, end.v))

    def outcome(q: Tensor, v: Tensor, u: Tensor) -> Tensor:
        end = sim.step(State(q, v), u)
        return torch.cat([end.q, end.v], dim=-1)

    found = _collect_states(sim, start, advance, steps, rng)
    return CheckCase(model.name, sim, found, outcome, {"positions": model.nq, "velocities": model.nv})


@torch.no_grad()
def _collect_states(
    sim: Simulator, state: State, advance: Callable[[State, Tensor], State], steps: int, rng: torch.Generator
) -> Inputs:
    """States and controls met on the way, one for each world."""
    scale = torch.tensor([max(map(abs, a.control_range or (1.0,))) for a in sim.model.actuators], dtype=torch.float64)
    met = []
    touching = []
    action = torch.zeros(0)
    for k in range(steps):
        if k % HELD == 0:
            drawn = 2.0 * torch.rand(sim.num_worlds, sim.model.nu, generator=rng, dtype=torch.float64) - 1.0
            action = PUSH * scale * drawn
        met.append((state.q, state.v, action))
        touching.append(
            sim.contacts(state).depth > 0.0 if sim.model.contact_candidates else torch.zeros(sim.num_worlds, 0) > 0.0
        )
        state = advance(state, action)
    chosen = _choose_covering(torch.cat(touching), sim.num_worlds, rng)
    q, v, u = (torch.cat(column)[chosen] for column in zip(*met, strict=True))
    return q, v, u


def _choose_covering(touching: Tensor, count: int, rng: torch.Generator) -> list[int]:
    """Rows of [R, P] bool: in turn the one with most points that were not seen often enough, then any."""
    wanted, chosen = torch.full((touching.shape[1],), TWICE), list[int]()
    order = torch.randperm(len(touching), generator=rng)
    while len(chosen) < count // 2:
        gain = (touching[order] & (wanted > 0)).sum(dim=1)
        if touching.shape[1] == 0 or int(gain.max()) == 0:
            break
        best = int(order[int(gain.argmax())])
        chosen.append(best)
        wanted = wanted - touching[best].long()
    rest = [int(k) for k in order if int(k) not in set(chosen)]
    return [*chosen, *rest[: count - len(chosen)]]
