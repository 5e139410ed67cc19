"""A first trace of a task without the physics: it counts observations and random numbers, and finds errors early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ahac.core.env import EnvSpec
from ahac.envs.draws import UniformInputs
from ahac.envs.memory import MemoryValues
from ahac.envs.task import Task
from ahac.envs.tracing import CLOCK, Draws, controller, first_world, forces, observation_terms, step_outputs
from ahac.sim import Real, Scalar, World, trace
from ahac.sim.programs import checked_controls

__all__ = ["Plan", "observation_sizes", "plan"]


@dataclass(frozen=True)
class Plan:
    """What an environment must know of a task before it is traced with the physics."""

    policy: Mapping[str, int]
    """Size of each observation term of the policy, in order."""
    critic: Mapping[str, int] | None
    """Size of each observation term of critics; None if they see what the policy sees."""
    noise: int
    """Number of random numbers that a reset draws."""
    step_noise: int
    """Number of random numbers that memory and observations draw in every step."""

    @property
    def random_inputs(self) -> dict[str, int]:
        """Groups of random numbers that a step takes, and their sizes."""
        return {"noise": max(self.noise, 1), **({"step_noise": self.step_noise} if self.step_noise else {})}

    def spec(self, task: Task, num_envs: int, device: torch.device, dtype: torch.dtype) -> EnvSpec:
        """Return the sizes and names of an environment of the task."""
        return EnvSpec(
            name=task.name,
            num_envs=num_envs,
            obs_size=sum(self.policy.values()),
            critic_obs_size=sum((self.critic or self.policy).values()),
            asymmetric=self.critic is not None,
            action_size=task.model.nu,
            episode_steps=task.episode_steps,
            dt=task.dt,
            device=device,
            dtype=dtype,
            reward_terms=tuple(task.reward),
        )


def plan(task: Task) -> Plan:
    """Call all functions of a task, to count observations and random numbers; errors name the function or term."""
    sizes: list[dict[str, int]] = []
    counts: dict[str, int] = {}

    def begin(noise: list[Scalar]) -> dict[str, list[Real]]:
        groups = {name: UniformInputs(noise[0], name) for name in ("noise", "step_noise")}
        draws = Draws.of(groups)
        last = MemoryValues(task.memory, ((name, [0.0] * entry.size) for name, entry in task.memory.items()))
        world = first_world(task, draws.reset, last)
        for terms in observation_terms(task, world, [0.0] * task.model.nu, draws.observation()).values():
            sizes.append({name: len(values) for name, values in terms.items()})
        counts.update({name: group.count for name, group in groups.items()})
        return {}

    trace(begin, {"noise": 1})
    return Plan(sizes[0], sizes[1] if len(sizes) > 1 else None, counts["noise"], _trace_step(task))


def observation_sizes(task: Task) -> dict[str, int]:
    """Return the size of each observation term of the policy, in order."""
    return dict(plan(task).policy)


def _trace_step(task: Task) -> int:
    """Call the functions of a step; return how many random numbers memory and observations draw."""
    m = task.model
    parameters = None if task.randomization is None else task.randomization.parameters
    counted: list[int] = []

    def step(clock: list[Scalar], memory: list[Scalar], u: list[Scalar], **rest: list[Scalar]) -> dict[str, list[Real]]:
        groups = {name: UniformInputs(clock[0], name) for name in ("noise", "step_noise")}
        robot = m if parameters is None else parameters.apply(m, rest["p"])

        def make_world(suffix: str, before: World | None = None) -> World:
            world = World(
                robot, rest[f"q{suffix}"], rest[f"v{suffix}"], u, before=before, act=rest.get(f"act{suffix}", ())
            )
            if parameters is not None:
                world.parameters = parameters.by_name(rest["p"])
            numbers = iter(memory)
            world.memory = {name: [next(numbers) for _ in range(entry.size)] for name, entry in task.memory.items()}
            world.context = {"clock": clock, **groups}  # pyright: ignore[reportAttributeAccessIssue]
            return world

        control = controller(task)
        controls = u if control is None else checked_controls(control(make_world("0")), m)
        for law in forces(task):
            list(law(make_world("0")))
        step_outputs(task, make_world("1", before=make_world("0")), early_termination=True, controls=controls)
        counted.append(groups["step_noise"].count)
        return {}

    state = {f"{name}{k}": size for k in "01" for name, size in (("q", m.nq), ("v", m.nv), ("act", m.na))}
    memory, p = sum(entry.size for entry in task.memory.values()), 0 if parameters is None else parameters.size
    trace(step, {"clock": CLOCK, "memory": memory, "u": m.nu, **state, "p": p})
    return counted[0]
