"""Cases for gradient checks: a simulator, a choice of states, and names of all inputs and outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.task_names import is_task_file
from ahac.envs import Task, make, tasks
from ahac.envs.state import TaskState
from ahac.gradients.policies import find_task
from ahac.sim import Contacts, Model, Simulator, State, load_model
from ahac.sim.model.files import ROBOT_SUFFIXES

__all__ = ["CheckCase", "build_check_case"]

DT = 1.0 / 60.0
"""Control step of a robot without a task [s]."""
SUBSTEPS = 16
"""Substeps per control step of a robot without a task."""
STATE_NOISE = 0.1
"""Standard deviation of the initial velocities of a robot without a task [m/s] or [rad/s]."""
MAX_ACTION = 0.9
"""Largest action, as a fraction of its range; at the bound, clipping makes the derivative one-sided."""
HOLD_STEPS = 10
"""Steps for which an action is held; with new noise every step, a robot trembles but does not fall."""
STATES_PER_CONTACT = 2
"""Number of states in which each contact point should be in contact, if such states occur."""

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
"""Positions [S, nq], velocities [S, nv], controls [S, nu] and activations [S, na]."""


@dataclass(frozen=True, eq=False)
class CheckCase:
    """S states of a robot, one per world, in float64."""

    name: str
    sim: Simulator
    inputs: Inputs
    outcome: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    """Function from the inputs to all outputs of a control step, [S, outputs]."""
    outputs: Mapping[str, int]
    """Size of each output, in order."""
    parameters: Tensor | None = None
    """[S, P] values of the parameters that the simulator takes."""

    @property
    def coordinates(self) -> list[str]:
        """Names of the nq + nv + nu + na input coordinates."""
        m = self.sim.model
        q, v = [""] * m.nq, [""] * m.nv
        for joint in m.joints:
            width = len(joint.dofs) + (len(joint.dofs) == 3)  # a ball joint has four positions and three velocities
            q[joint.q : joint.q + width] = [f"position of {joint.name}"] * width
            v[joint.v : joint.dofs.stop] = [f"velocity of {joint.name}"] * len(joint.dofs)
        act = ["unused activation"] * m.na
        for actuator in m.actuators:
            if actuator.activation is not None:
                act[actuator.activation.index] = f"activation of {actuator.name}"
        return [*q, *v, *(f"control of {actuator.name}" for actuator in m.actuators), *act]

    def contacts(self, q: Tensor, v: Tensor) -> Contacts:
        """Return the contacts of all states."""
        return self.sim.contacts(State(q, v), self.parameters)

    def contact_forces(self, q: Tensor, v: Tensor) -> Tensor:
        """Return the forces on all P contact points, [S, 3 P]."""
        return self.contacts(q, v).force.flatten(1)


def build_check_case(what: str | os.PathLike[str] | Task | Model, states: int, steps: int, seed: int) -> CheckCase:
    """Choose states from a rollout with random actions so that they cover many contacts.

    Args:
        what: A task as a name, FILE.py:NAME or `Task`; or a robot as an MJCF or URDF file or `Model`.
        states: Number of states.
        steps: Length of the rollout [control steps].
        seed: Random seed of initial states, actions and the choice of states.
    """
    if isinstance(what, Model):
        return _model_case(what, states, steps, seed)
    if not isinstance(what, Task) and Path(what).suffix in ROBOT_SUFFIXES:
        if not Path(what).is_file():
            raise InputError(
                f"no file {str(what)!r}; expected the MJCF or URDF file of a robot, or a task: "
                f"{', '.join(tasks())}, or your own as FILE.py:NAME"
            )
        return _model_case(load_model(what, ground=True), states, steps, seed)
    if isinstance(what, Task) or str(what) in tasks() or is_task_file(str(what)):
        return _task_case(what if isinstance(what, Task) else find_task(str(what)), states, steps, seed)
    raise InputError(
        f"{str(what)!r} is neither a task nor a robot file ({', '.join(ROBOT_SUFFIXES)}); tasks: {', '.join(tasks())}, "
        "or your own as FILE.py:NAME"
    )


def _task_case(task: Task, states: int, steps: int, seed: int) -> CheckCase:
    env = make(task, num_envs=states, seed=seed, dtype=torch.float64, early_termination=False)
    rng = torch.Generator().manual_seed(seed)

    def advance(state: State, action: Tensor) -> State:
        env.step(action)
        return env.state

    inputs = _collect_states(env.sim, env.state, advance, steps, rng)
    context = {name: torch.full((states, size), 0.5, dtype=torch.float64) for name, size in env.sim.context.items()}
    last = env.state.detach()  # whose memory, parameters and past controls all states get
    outputs = _state_outputs(env.sim.model)
    outputs |= {f"observation: {name}": size for name, size in env.obs_layout.items()}
    groups = ["final_obs", "reward_terms"]
    if env.spec.asymmetric:
        outputs |= {f"critic observation: {name}": size for name, size in env.critic_obs_layout.items()}
        groups.insert(1, "final_critic_obs")
    outputs |= {f"reward: {name}": 1 for name in task.reward}

    def outcome(q: Tensor, v: Tensor, u: Tensor, act: Tensor) -> Tensor:
        start = State(q, v, act=act, past_controls=last.past_controls)
        end = env.sim.step(start, u, context=context, parameters=last.parameters, memory=last.memory)
        return torch.cat([*_state_tensors(end), *(end.readouts[f"step.{name}"] for name in groups)], dim=-1)

    return CheckCase(task.name, env.sim, inputs, outcome, outputs, last.parameters)


def _model_case(model: Model, states: int, steps: int, seed: int) -> CheckCase:
    sim = Simulator(model, num_worlds=states, dt=DT, substeps=SUBSTEPS, dtype=torch.float64)
    rng = torch.Generator().manual_seed(seed)
    rest = sim.rest_state()
    start = replace(rest, v=rest.v + STATE_NOISE * torch.randn(rest.v.shape, generator=rng, dtype=torch.float64))

    def advance(state: State, action: Tensor) -> State:
        end = sim.step(state, action)
        return end.where(sim.is_finite(end), start)

    def outcome(q: Tensor, v: Tensor, u: Tensor, act: Tensor) -> Tensor:
        return torch.cat(_state_tensors(sim.step(State(q, v, act=act), u)), dim=-1)

    inputs = _collect_states(sim, start, advance, steps, rng)
    return CheckCase(model.name, sim, inputs, outcome, _state_outputs(model))


def _state_outputs(model: Model) -> dict[str, int]:
    """Return the size of each part of a state that the model has."""
    sizes = {"positions": model.nq, "velocities": model.nv, "activations": model.na}
    return {name: size for name, size in sizes.items() if size}


def _state_tensors(state: State) -> list[Tensor]:
    """Return positions, velocities and activations, [S, 0] if there are none."""
    return [state.q, state.v, state.q[:, :0] if state.act is None else state.act]


@torch.no_grad()
def _collect_states(
    sim: Simulator, state: State, advance: Callable[[State, Tensor], State], steps: int, rng: torch.Generator
) -> Inputs:
    """Roll out random actions and return one visited state and control per world."""
    scale = torch.tensor([max(map(abs, a.control_range or (1.0,))) for a in sim.model.actuators], dtype=torch.float64)
    visited = []
    touching = []
    action = torch.zeros(0)
    for k in range(steps):
        if k % HOLD_STEPS == 0:
            noise = 2.0 * torch.rand(sim.num_worlds, sim.model.nu, generator=rng, dtype=torch.float64) - 1.0
            action = MAX_ACTION * scale * noise
        q, v, act = _state_tensors(state)
        visited.append((q, v, action, act))
        parameters = state.parameters if isinstance(state, TaskState) else None
        touching.append(
            sim.contacts(state, parameters).depth > 0.0
            if sim.model.contact_candidates
            else torch.zeros(sim.num_worlds, 0) > 0.0
        )
        state = advance(state, action)
    selection = _choose_covering(torch.cat(touching), sim.num_worlds, rng)
    q, v, u, act = (torch.cat(column)[selection] for column in zip(*visited, strict=True))
    return q, v, u, act


def _choose_covering(touching: Tensor, count: int, rng: torch.Generator) -> list[int]:
    """Choose rows of [R, P] bool: greedily those that add most insufficiently covered points, then random ones."""
    missing = torch.full((touching.shape[1],), STATES_PER_CONTACT)
    selection = list[int]()
    order = torch.randperm(len(touching), generator=rng)
    while len(selection) < count // 2:
        gain = (touching[order] & (missing > 0)).sum(dim=1)
        if touching.shape[1] == 0 or int(gain.max()) == 0:
            break
        best = int(order[int(gain.argmax())])
        selection.append(best)
        missing = missing - touching[best].long()
    rest = [int(k) for k in order if int(k) not in set(selection)]
    return [*selection, *rest[: count - len(selection)]]
