"""The environment: N worlds of a task, stepped, reset and differentiated together.

A step is one launch forward and one backward: observation, reward, termination and reset are traced with the physics.
On CUDA nothing here waits for the device.
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
"""Sets the seed of probes apart from that of starts: the two must not draw the same numbers."""
BUFFERS = ("q", "v", "obs", "clock", "noise")
"""What there is of every world, by name."""


Args = ParamSpec("Args")
Result = TypeVar("Result")


def _outside_inference_mode(method: Callable[Args, Result]) -> Callable[Args, Result]:
    """What a method keeps must serve steps with gradients later on, also when it is called in inference mode."""

    @wraps(method)
    def outside(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if not torch.is_inference_mode_enabled():
            return method(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return method(*args, **kwargs)

    return outside


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
            task: What `ahac.make` knows by name, or a `Task` of your own.
            num_envs: How many worlds run side by side, on this rank.
            device: "cpu" or a CUDA device.
            seed: Of all chance in the environment.
            dtype: torch.float32 or torch.float64.
            early_termination: Whether the task may end episodes before their time is up. Lost worlds are always reset.
            num_threads: CPU threads; all cores by default.
            ranks: Processes that have as many worlds each; together they are what one with all of them would be.
        """
        if not isinstance(task, Task):
            raise InputError(f"task must be a Task, or a name out of ahac.tasks(), got {type(task).__name__}")
        num_envs = check_int("num_envs", num_envs, 1)
        self.task = task
        self.ranks = ranks
        draws = max(tracing.num_noise_inputs(task), 1)
        self.sim = Simulator(
            task.model,
            num_worlds=num_envs,
            dt=task.dt,
            substeps=task.substeps,
            device=device,
            dtype=dtype,
            num_threads=num_threads,
            context={"clock": tracing.CLOCK, "noise": draws},
            readouts={"step": lambda world: tracing.step_outputs(task, world, early_termination)},
        )
        self.obs_layout = tracing.observation_sizes(task)
        """How many numbers each part of an observation has, in order."""
        self.spec = EnvSpec(
            name=task.name,
            num_envs=num_envs,
            obs_size=sum(self.obs_layout.values()),
            action_size=task.model.nu,
            episode_steps=task.episode_steps,
            dt=task.dt,
            device=self.sim.device,
            dtype=dtype,
            reward_terms=tuple(task.reward),
        )
        self._reset_function = self.sim.compile_function(
            "start of an episode", lambda noise: tracing.reset_outputs(task, noise), {"noise": draws}
        )
        # Probes have a generator of their own: whether stiffness is measured does not change how episodes begin.
        self._generator, self._probe_generator = (torch.Generator(self.sim.device) for _ in range(2))
        self.reset(check_int("seed", seed, 0))

    @property
    def obs(self) -> Tensor:
        """[N, obs] what the next action is chosen from."""
        return self._obs

    @property
    def state(self) -> State:
        """Positions and velocities of all worlds."""
        return self._state

    @_outside_inference_mode
    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world; with a seed, all chance starts anew as well."""
        if seed is not None:
            seed = check_int("seed", seed, 0)
            if seed >= 2**63:
                raise InputError(f"seed must be below 2**63, got {seed}")
            self._generator.manual_seed(seed)
            self._probe_generator.manual_seed(seed ^ PROBE_SEED)
        new = self._reset_function(self._draw())
        self._state = State(new["q"], new["v"])
        self._obs = new["obs"]
        self._clock = torch.zeros(self.spec.num_envs, tracing.CLOCK, dtype=self.spec.dtype, device=self.spec.device)
        self._noise = self._draw()
        return self._obs

    @_outside_inference_mode
    def reset_worlds(self, worlds: Tensor) -> None:
        """Start a new episode in some worlds.

        Args:
            worlds: [N] bool, which.
        """
        self._check_worlds(worlds)
        new, over = self._reset_function(self._draw()), worlds[:, None]
        self._state = State(torch.where(over, new["q"], self._state.q), torch.where(over, new["v"], self._state.v))
        self._obs = torch.where(over, new["obs"], self._obs)
        self._clock = torch.where(over, 0.0, self._clock)

    @_outside_inference_mode
    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step; a new episode begins where one is over.

        Args:
            action: [N, action]; entries outside [-1, 1] act as if they were clipped.
        """
        spec = self.spec
        action = check_tensor("action", action, (spec.num_envs, spec.action_size), spec.dtype, spec.device)
        start = self._state
        end = self.sim.step(start, action, context={"clock": self._clock, "noise": self._noise})
        read = end.readouts
        terminated, truncated, lost = (read["step.flags"].detach() > 0.5).unbind(dim=-1)
        # On a CPU looking is cheap, and mostly there is nothing to do; on CUDA it would have to be waited for.
        on_cpu = self.spec.device.type == "cpu"
        if on_cpu and bool(lost.any()):
            _refuse_non_finite(action)
        if not on_cpu or bool(self.ranks.any((terminated | truncated).any())):
            self._noise = self._draw()
        self._state = State(read["step.q"], read["step.v"])
        self._obs = read["step.obs"]
        self._clock = read["step.clock"].detach()
        length, total = read["step.episode"].detach().unbind(dim=-1)
        return Step(
            obs=self._obs,
            final_obs=read["step.final_obs"],
            reward=read["step.reward"],
            terminated=terminated,
            truncated=truncated,
            diverged=lost,
            reward_terms=read["step.reward_terms"].detach(),
            episode_return=total,
            episode_length=length,
            action=action,
            state=start,
            next_state=State(end.q, end.v),
        )

    def detach(self, worlds: Tensor | None = None) -> None:
        """Cut the graph here: no gradient flows further back by way of `env.obs`, from which the next action is chosen.

        Args:
            worlds: [N] bool, to cut in these worlds only; by default in all.
        """
        if worlds is None:
            self._state = self._state.detach()
            self._obs = self._obs.detach()
            return
        self._check_worlds(worlds)
        cut = worlds[:, None]
        q, v, obs = (torch.where(cut, x.detach(), x) for x in (self._state.q, self._state.v, self._obs))
        self._state = State(q, v)
        self._obs = obs

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """[N] how stiff a step was; see `ahac.envs.stiffness` for the signals.

        Args:
            step: What `step` returned.
            signal: "dynamics", "contact", "contact_normalised" or "force".
            probes: For "dynamics": how many random probes estimate the norm; by default it is exact.
        """
        context = {"clock": self._clock, "noise": self._noise}
        draw = partial(self._uniform, self._probe_generator)
        return stiffness.stiffness(self.sim, step, signal, probes, draw, context)

    @property
    def buffers(self) -> list[Tensor]:
        """What the future depends on, but for chance."""
        return [self._state.q, self._state.v, self._obs, self._clock, self._noise]

    def set_buffers(self, memory: list[Tensor]) -> None:
        """Go on from these tensors, without copying them; the graph is theirs."""
        q, v, self._obs, self._clock, self._noise = memory
        self._state = State(q, v)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """All chance: of starts, and of probes."""
        return self._generator, self._probe_generator

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the future depends on: physics, clocks, returns so far, chance; worlds of all ranks."""
        worlds = dict(zip(BUFFERS, self.buffers, strict=True))
        return {name: self.ranks.gather(x.detach().clone()) for name, x in worlds.items()} | self._rng_state()

    def _rng_state(self) -> dict[str, Tensor]:
        return {"generator": self._generator.get_state(), "probe_generator": self._probe_generator.get_state()}

    @_outside_inference_mode
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state; the graph is cut."""
        own = dict(zip(BUFFERS, self.buffers, strict=True)) | self._rng_state()
        if odd := own.keys() ^ state.keys():
            wanted, differs = ", ".join(own), ", ".join(sorted(odd))
            raise InputError(f"a saved state has the entries {wanted}; this one differs in {differs}")
        worlds = {name: own[name] for name in BUFFERS}
        for name, value in worlds.items():
            wanted = [len(value) * self.ranks.size, *value.shape[1:]]
            got = list(state[name].shape) if is_dense(state[name]) else describe_type(state[name])
            if got != wanted:
                raise InputError(f"{name!r} of a saved {self.spec.name} must have shape {wanted}, got {got}")
            if state[name].dtype not in (torch.float32, torch.float64):
                got = state[name].dtype
                raise InputError(f"{name!r} of a saved {self.spec.name} must be torch.float32 or float64, got {got}")
        if odd := [name for name in own if name not in worlds and not is_generator_state(state[name])]:
            raise InputError(f"{odd[0]!r} of a saved {self.spec.name} must be the state of a torch.Generator")
        mine = {name: self.ranks.local_slice(state[name]) for name in BUFFERS}
        new = {name: mine[name].detach().to(value.device, value.dtype, copy=True) for name, value in worlds.items()}
        self._state = State(new["q"], new["v"])
        self._obs = new["obs"]
        self._clock = new["clock"]
        self._noise = new["noise"]
        restore_generator(self._generator, state["generator"])
        restore_generator(self._probe_generator, state["probe_generator"])

    def _draw(self) -> Tensor:
        """Uniform noise with which episodes begin."""
        return self._uniform(self._generator, self.sim.context["noise"])

    def _uniform(self, generator: torch.Generator, count: int) -> Tensor:
        """[N, count] of this rank's worlds; all ranks draw for all worlds, and so stay in step."""
        size = (self.spec.num_envs * self.ranks.size, count)
        return self.ranks.local_slice(
            torch.rand(size, generator=generator, device=self.spec.device, dtype=self.spec.dtype)
        )

    def _check_worlds(self, worlds: Tensor) -> None:
        check_tensor("worlds", worlds, (self.spec.num_envs,), torch.bool, self.spec.device)


def _refuse_non_finite(action: Tensor) -> None:
    """On the CPU only: on CUDA looking would have to be waited for, and worlds with such actions are lost."""
    bad = ~torch.isfinite(action)
    if bool(bad.any()):
        world, entry = bad.nonzero()[0].tolist()
        raise InputError(
            f"action [{world}, {entry}] is {action[world, entry].item()}; wanted finite numbers. "
            "The environment stays as it was before this step"
        )
