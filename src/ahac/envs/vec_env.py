"""Vectorized environment: N worlds of a task, stepped, reset and differentiated together.

A step is one kernel launch forward and one backward: observation, reward, termination and reset are traced with the
physics. On CUDA nothing here synchronizes with the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ahac.core.checks import check_int, check_tensor, describe_type, is_dense
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import EnvSpec, Step
from ahac.core.errors import InputError
from ahac.core.rng import is_generator_state, restore_generator
from ahac.envs import stiffness, tracing
from ahac.envs.task import Task
from ahac.sim import Simulator, State

__all__ = ["VecEnv"]

PROBE_SEED = 0x5EED
"""XORed into the seed of the probe generator, so that probes and resets draw different numbers."""
BUFFERS = ("q", "v", "obs", "clock", "noise", "act")
"""Names of the per-world tensors in a saved state, in the order of `VecEnv.buffers`; the last only if there are any."""


Args = ParamSpec("Args")
Result = TypeVar("Result")


def _outside_inference_mode(method: Callable[Args, Result]) -> Callable[Args, Result]:
    """Run a method outside inference mode: the tensors it stores must be usable in later steps with gradients."""

    @wraps(method)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if not torch.is_inference_mode_enabled():
            return method(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return method(*args, **kwargs)

    return wrapper


class VecEnv:
    """N worlds of one task."""

    def __init__(
        self,
        task: Task,
        *,
        num_envs: int,
        device: str | torch.device = "cpu",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        early_termination: bool = True,
        num_threads: int | None = None,
        ranks: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """Trace the task and start an episode in every world.

        Args:
            task: From `ahac.envs.make_task`, or your own.
            num_envs: Number of worlds on this rank.
            device: "cpu" or a CUDA device.
            seed: Random seed for episode resets and stiffness probes.
            dtype: torch.float32 or torch.float64.
            early_termination: Whether the task may end episodes before the time limit; diverged worlds always reset.
            num_threads: Number of CPU threads; all cores by default.
            ranks: Process group with `num_envs` worlds per rank; equivalent to one process with all worlds.
        """
        if not isinstance(task, Task):
            raise InputError(f"task must be a Task or a name from ahac.tasks(), got {type(task).__name__}")
        num_envs = check_int("num_envs", num_envs, 1)
        self.task = task
        self.ranks = ranks
        noise_size = max(tracing.num_noise_inputs(task), 1)
        self.sim = Simulator(
            task.model,
            num_worlds=num_envs,
            dt=task.dt,
            substeps=task.substeps,
            integrator=task.integrator,
            device=device,
            dtype=dtype,
            num_threads=num_threads,
            context={"clock": tracing.CLOCK, "noise": noise_size},
            readouts={"step": lambda world: tracing.step_outputs(task, world, early_termination)},
        )
        self.obs_layout = tracing.observation_sizes(task)
        """Size of each observation term, in order."""
        self.spec = _spec(task, self.sim, sum(self.obs_layout.values()))
        self._reset_function = self.sim.compile_function(
            "episode reset", lambda noise: tracing.reset_outputs(task, noise), {"noise": noise_size}
        )
        # Probes use a separate generator: measuring stiffness does not change the resets.
        self._generator, self._probe_generator = (torch.Generator(self.sim.device) for _ in range(2))
        self.reset(check_int("seed", seed, 0))

    @property
    def obs(self) -> Tensor:
        """Current observation, [N, obs]: the policy's input for the next action."""
        return self._obs

    @property
    def critic_obs(self) -> Tensor:
        """Current observation of the critics, [N, critic_obs]."""
        return self._obs

    @property
    def state(self) -> State:
        """Positions and velocities of all worlds."""
        return self._state

    @_outside_inference_mode
    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world and return its first observation.

        Args:
            seed: If given, both random generators are reseeded first.
        """
        if seed is not None:
            seed = check_int("seed", seed, 0)
            if seed >= 2**63:
                raise InputError(f"seed must be below 2**63, got {seed}")
            self._generator.manual_seed(seed)
            self._probe_generator.manual_seed(seed ^ PROBE_SEED)
        new = self._reset_function(self._draw())
        self._state = State(new["q"], new["v"], act=new.get("act"))
        self._obs = new["obs"]
        self._clock = torch.zeros(self.spec.num_envs, tracing.CLOCK, dtype=self.spec.dtype, device=self.spec.device)
        self._noise = self._draw()
        return self._obs

    @_outside_inference_mode
    def reset_worlds(self, worlds: Tensor) -> None:
        """Start a new episode in some worlds.

        Args:
            worlds: [N] bool mask of the worlds to reset.
        """
        self._check_worlds(worlds)
        new = self._reset_function(self._draw())
        mask = worlds[:, None]
        self._state = State(new["q"], new["v"], act=new.get("act")).where(worlds, self._state)
        self._obs = torch.where(mask, new["obs"], self._obs)
        self._clock = torch.where(mask, 0.0, self._clock)

    @_outside_inference_mode
    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step, and reset the worlds whose episode ended.

        Args:
            action: [N, action]; entries are clipped to [-1, 1].
        """
        spec = self.spec
        action = check_tensor("action", action, (spec.num_envs, spec.action_size), spec.dtype, spec.device)
        start = self._state
        end = self.sim.step(start, action, context={"clock": self._clock, "noise": self._noise})
        read = end.readouts
        terminated, truncated, diverged = (read["step.flags"].detach() > 0.5).unbind(dim=-1)
        # Reading a flag is cheap on the CPU and mostly saves a draw; on CUDA it would synchronize with the device.
        on_cpu = self.spec.device.type == "cpu"
        if on_cpu and bool(diverged.any()):
            _check_finite_action(action)
        if not on_cpu or bool(self.ranks.any((terminated | truncated).any())):
            self._noise = self._draw()
        self._state = State(read["step.q"], read["step.v"], act=read.get("step.act"))
        self._obs = read["step.obs"]
        self._clock = read["step.clock"].detach()
        length, total = read["step.episode"].detach().unbind(dim=-1)
        return Step(
            obs=self._obs,
            critic_obs=self._obs,
            final_obs=read["step.final_obs"],
            final_critic_obs=read["step.final_obs"],
            reward=read["step.reward"],
            terminated=terminated,
            truncated=truncated,
            diverged=diverged,
            reward_terms=read["step.reward_terms"].detach(),
            episode_return=total,
            episode_length=length,
            action=action,
            state=start,
            next_state=State(end.q, end.v, act=end.act),
        )

    def detach(self, worlds: Tensor | None = None) -> None:
        """Cut the autograd graph: no gradient flows back through the current state and `env.obs`.

        Args:
            worlds: [N] bool mask of the worlds to detach; all by default.
        """
        if worlds is None:
            self._state = self._state.detach()
            self._obs = self._obs.detach()
            return
        self._check_worlds(worlds)
        mask = worlds[:, None]
        self._state = self._state.detach().where(worlds, self._state)
        self._obs = torch.where(mask, self._obs.detach(), self._obs)

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """Return the stiffness of a step, [N]; see `ahac.envs.stiffness` for the signals.

        Args:
            step: Result of `step`.
            signal: "dynamics", "contact", "contact_normalized" or "force".
            probes: Number of random probes that estimate "dynamics"; by default the norm is exact.
        """
        context = {"clock": self._clock, "noise": self._noise}
        draw = partial(self._uniform, self._probe_generator)
        return stiffness.stiffness(self.sim, step, signal, probes, draw, context)

    @property
    def buffers(self) -> list[Tensor]:
        """Tensors that determine future steps, apart from the random generators."""
        act = [] if self._state.act is None else [self._state.act]
        return [self._state.q, self._state.v, self._obs, self._clock, self._noise, *act]

    def set_buffers(self, memory: list[Tensor]) -> None:
        """Continue from these tensors without copying them; they keep their autograd graph."""
        q, v, self._obs, self._clock, self._noise, *act = memory
        self._state = State(q, v, act=act[0] if act else None)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Random generators of resets and of stiffness probes."""
        return self._generator, self._probe_generator

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that determines future steps, for the worlds of all ranks.

        This is the physics state, observations, episode lengths and returns so far, reset noise and RNG states.
        """
        worlds = dict(zip(BUFFERS, self.buffers, strict=False))
        return {name: self.ranks.gather(x.detach().clone()) for name, x in worlds.items()} | self._rng_state()

    def _rng_state(self) -> dict[str, Tensor]:
        return {"generator": self._generator.get_state(), "probe_generator": self._probe_generator.get_state()}

    @_outside_inference_mode
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state exactly, without its autograd graph."""
        buffers = dict(zip(BUFFERS, self.buffers, strict=False))
        current = buffers | self._rng_state()
        if differing := current.keys() ^ state.keys():
            expected = ", ".join(current)
            raise InputError(
                f"a saved state must have the entries {expected}; this one differs in {', '.join(sorted(differing))}"
            )
        for name, value in buffers.items():
            shape = [len(value) * self.ranks.size, *value.shape[1:]]
            got = list(state[name].shape) if is_dense(state[name]) else describe_type(state[name])
            if got != shape:
                raise InputError(f"{name!r} of a saved {self.spec.name} must have shape {shape}, got {got}")
            if state[name].dtype not in (torch.float32, torch.float64):
                got = state[name].dtype
                raise InputError(f"{name!r} of a saved {self.spec.name} must be torch.float32 or float64, got {got}")
        if invalid := [name for name in current if name not in buffers and not is_generator_state(state[name])]:
            raise InputError(f"{invalid[0]!r} of a saved {self.spec.name} must be the state of a torch.Generator")
        local = {name: self.ranks.local_slice(state[name]) for name in buffers}
        new = {name: local[name].detach().to(value.device, value.dtype, copy=True) for name, value in buffers.items()}
        self._state = State(new["q"], new["v"], act=new.get("act"))
        self._obs = new["obs"]
        self._clock = new["clock"]
        self._noise = new["noise"]
        restore_generator(self._generator, state["generator"])
        restore_generator(self._probe_generator, state["probe_generator"])

    def _draw(self) -> Tensor:
        """Draw the uniform noise of the next resets, [N, noise]."""
        return self._uniform(self._generator, self.sim.context["noise"])

    def _uniform(self, generator: torch.Generator, count: int) -> Tensor:
        """Draw uniform numbers for this rank's worlds, [N, count].

        Every rank draws for the worlds of all ranks, so that the generators stay in sync.
        """
        size = (self.spec.num_envs * self.ranks.size, count)
        return self.ranks.local_slice(
            torch.rand(size, generator=generator, device=self.spec.device, dtype=self.spec.dtype)
        )

    def _check_worlds(self, worlds: Tensor) -> None:
        check_tensor("worlds", worlds, (self.spec.num_envs,), torch.bool, self.spec.device)


def _check_finite_action(action: Tensor) -> None:
    """Raise on a non-finite action. CPU only: on CUDA this would synchronize, and the world just diverges."""
    bad = ~torch.isfinite(action)
    if bool(bad.any()):
        world, entry = bad.nonzero()[0].tolist()
        raise InputError(
            f"action [{world}, {entry}] is {action[world, entry].item()}; actions must be finite. "
            "The environment is unchanged: step again with a valid action"
        )


def _spec(task: Task, sim: Simulator, obs_size: int) -> EnvSpec:
    return EnvSpec(
        name=task.name,
        num_envs=sim.num_worlds,
        obs_size=obs_size,
        critic_obs_size=obs_size,
        action_size=task.model.nu,
        episode_steps=task.episode_steps,
        dt=task.dt,
        device=sim.device,
        dtype=sim.dtype,
        reward_terms=tuple(task.reward),
    )
