"""Vectorized environment: N worlds of a task, stepped, reset and differentiated together.

A step is one kernel launch forward and one backward: observation, reward, termination and reset are traced with the
physics. On CUDA nothing here synchronizes with the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.checks import check_int, check_tensor, describe_type, is_dense
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.core.rng import is_generator_state, restore_generator
from ahac.envs import stiffness, tracing
from ahac.envs.bundle import BundledSimulator, StepInputs, require_bundling
from ahac.envs.planning import plan
from ahac.envs.protocols import EnvProtocols
from ahac.envs.state import TaskState, select
from ahac.envs.task import Task
from ahac.sim import Simulator, State

__all__ = ["VecEnv"]

PROBE_SEED = 0x5EED
"""XORed into the seed of the probe generator, so that probes and branches draw different numbers than resets."""
BUFFERS = (
    "q", "v", "obs", "clock", "noise", "act", "critic_obs", "step_noise", "memory", "parameters", "past_controls"
)  # fmt: skip
"""Names of the per-world tensors in a saved state, in the order of `VecEnv.buffers`; those after "noise" only if the
task has them."""
CONSTANT = ("clock", "noise", "step_noise", "parameters")
"""Buffers to which no gradient flows."""


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


class VecEnv(EnvProtocols):
    """N worlds of one task."""

    _simulator: Callable[..., Simulator] = BundledSimulator

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
            seed: Random seed of all that the task draws, and of stiffness probes and branches.
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
        counts = plan(task)
        self._random = counts.random_inputs
        """Sizes of the groups of random numbers."""
        self.sim = self._simulator(
            task.model,
            num_worlds=num_envs,
            device=device,
            dtype=dtype,
            num_threads=num_threads,
            context={"clock": tracing.CLOCK, **self._random},
            readouts={"step": lambda world: tracing.step_outputs(task, world, early_termination)},
            **tracing.physics(task),
        )
        self.obs_layout = dict(counts.policy)
        """Size of each observation term of the policy, in order."""
        self.critic_obs_layout = self.obs_layout if counts.critic is None else dict(counts.critic)
        """Size of each observation term of critics, in order."""
        self.spec = counts.spec(task, num_envs, self.sim.device, self.sim.dtype)
        self._reset_function = self.sim.compile_function(
            "episode reset",
            partial(tracing.reset_outputs, task),
            {**self._random, **({"memory": sum(self.sim.memory.values())} if task.memory else {})},
        )
        # Probes and branches use a separate generator: they do not change the resets.
        self._generator, self._probe_generator = (torch.Generator(self.sim.device) for _ in range(2))
        self.reset(check_int("seed", seed, 0))

    @property
    def obs(self) -> Tensor:
        """Current observation, [N, obs]: the policy's input for the next action."""
        return self._buffers["obs"]

    @property
    def critic_obs(self) -> Tensor:
        """Current observation of critics, [N, critic_obs]; `obs` itself with one observation group."""
        return self._buffers.get("critic_obs", self.obs)

    @property
    def state(self) -> TaskState:
        """Positions, velocities and activations of all worlds."""
        return TaskState.of(self._buffers)

    @property
    def memory(self) -> dict[str, Tensor]:
        """Memory of all worlds by name, [N, size] each; the next step uses it."""
        sizes = [entry.size for entry in self.task.memory.values()]
        parts = self._buffers["memory"].split(sizes, dim=-1) if sizes else ()
        return dict(zip(self.task.memory, parts, strict=True))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Randomized parameters of all worlds by name, [N, size] each; the next step uses them."""
        randomization = self.task.randomization
        if randomization is None:
            return {}
        sizes = randomization.parameters.sizes
        return dict(zip(sizes, self._buffers["parameters"].split(list(sizes.values()), dim=-1), strict=True))

    def set_parameters(self, values: Tensor) -> None:
        """Use these values [N, P] of the randomized parameters, in the order of `parameters`, in the next step.

        Gradients flow to them. After the step they stay, without gradients; new episodes draw new ones.
        """
        if self.task.randomization is None:
            raise InputError(f"{self.spec.name} has no parameters: set Task(randomize={{'body_mass:*': uniform(...)}})")
        shape = (self.spec.num_envs, self.task.randomization.parameters.size)
        self._buffers["parameters"] = check_tensor("values", values, shape, self.spec.dtype, self.spec.device)

    @_outside_inference_mode
    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world and return its first observation.

        Args:
            seed: If given, both random generators are reseeded first, and the task's memory begins from zero.
        """
        last = None
        if seed is not None:
            seed = check_int("seed", seed, 0)
            if seed >= 2**63:
                raise InputError(f"seed must be below 2**63, got {seed}")
            self._generator.manual_seed(seed)
            self._probe_generator.manual_seed(seed ^ PROBE_SEED)
        else:
            last = self._buffers.get("memory")
        new = self._new_episodes(last)
        self._buffers = {**new, "clock": self._zeros(tracing.CLOCK), **self._draw()}
        return self.obs

    @_outside_inference_mode
    def reset_worlds(self, worlds: Tensor) -> None:
        """Start a new episode in some worlds.

        Args:
            worlds: [N] bool mask of the worlds to reset.
        """
        self._check_worlds(worlds)
        new = self._new_episodes(self._buffers.get("memory"))
        new |= {"clock": torch.zeros_like(self._buffers["clock"])} | {
            name: self._buffers[name] for name in self._random
        }
        self._buffers = {name: select(worlds, new[name], old) for name, old in self._buffers.items()}

    def _new_episodes(self, memory: Tensor | None) -> dict[str, Tensor]:
        """Return the first state, observation and memory of new episodes, given the memory at the end of the last."""
        inputs = list(self._draw().values())
        if self.task.memory:
            inputs.append(self._zeros(sum(self.sim.memory.values())) if memory is None else memory.detach())
        new = self._reset_function(*inputs)
        if depth := self.sim.num_past_controls:
            new["past_controls"] = self._zeros(depth, self.spec.action_size)
        return new

    @_outside_inference_mode
    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step, and reset the worlds whose episode ended.

        Args:
            action: [N, action]; entries are clipped to [-1, 1].
        """
        return self._advance(action, None)

    @_outside_inference_mode
    def bundled_step(self, action: Tensor, config: BundleConfig) -> Step:
        """Advance every world by one control step, in hard contact by the mean of several branches.

        Args:
            action: [N, action]; entries are clipped to [-1, 1].
            config: Number of branches, their noise, and where to use them; see `ahac.envs.bundle`.
        """
        return self._advance(action, config if config.enabled else None)

    def _advance(self, action: Tensor, bundle: BundleConfig | None) -> Step:
        spec, old = self.spec, self._buffers
        action = check_tensor("action", action, (spec.num_envs, spec.action_size), spec.dtype, spec.device)
        start = TaskState.of(old)
        control = action if start.past_controls is None else _clipped(action)
        context = {name: old[name] for name in self.sim.context}
        further = {"context": context, "parameters": start.parameters, "memory": start.memory}
        end, bundled = self.sim.step(start, control, **further), None
        if bundle is not None:
            draw = partial(self._sample, self._probe_generator, distribution=torch.randn)
            inputs = StepInputs(start, control, **further)
            end, bundled = require_bundling(self.sim).bundled_step(end, inputs, bundle, draw)
        read = end.readouts
        terminated, truncated, diverged = (read["step.flags"].detach() > 0.5).unbind(dim=-1)
        # Reading a flag is cheap on the CPU and mostly saves a draw; on CUDA it would synchronize with the device.
        on_cpu = self.spec.device.type == "cpu"
        if on_cpu and bool(diverged.any()):
            _check_finite_action(action)
        drawn = ["step_noise"] if "step_noise" in self._random else []
        if not on_cpu or bool(self.ranks.any((terminated | truncated).any())):
            drawn.insert(0, "noise")
        new = {name: read.get(f"step.{name}", old[name]) for name in old} | self._draw(drawn)
        new |= {name: new[name].detach() for name in ("clock", "parameters") if name in new}
        if end.past_controls is not None:
            new["past_controls"] = torch.where((terminated | truncated)[:, None, None], 0.0, end.past_controls)
        self._buffers = new
        length, total = read["step.episode"].detach().unbind(dim=-1)
        final_obs = read["step.final_obs"]
        return Step(
            obs=self.obs,
            critic_obs=self.critic_obs,
            final_obs=final_obs,
            final_critic_obs=read.get("step.final_critic_obs", final_obs),
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
            bundled=bundled,
        )

    def detach(self, worlds: Tensor | None = None) -> None:
        """Cut the autograd graph: no gradient flows back through the current state, memory and `env.obs`.

        Args:
            worlds: [N] bool mask of the worlds to detach; all by default.
        """
        if worlds is None:
            self._buffers = {name: x.detach() for name, x in self._buffers.items()}
            return
        self._check_worlds(worlds)
        self._buffers = {
            name: x if name in CONSTANT else select(worlds, x.detach(), x) for name, x in self._buffers.items()
        }

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """Return the stiffness of a step, [N]; see `ahac.envs.stiffness` for the signals.

        Args:
            step: Result of `step`.
            signal: "dynamics", "contact", "contact_normalized" or "force".
            probes: Number of random probes that estimate "dynamics"; by default the norm is exact.
        """
        context = {name: self._buffers[name] for name in self.sim.context}
        draw = partial(self._sample, self._probe_generator)
        return stiffness.stiffness(self.sim, step, signal, probes, draw, context)

    @property
    def buffers(self) -> list[Tensor]:
        """Tensors that determine future steps, apart from the random generators."""
        return [self._buffers[name] for name in BUFFERS if name in self._buffers]

    def set_buffers(self, memory: list[Tensor]) -> None:
        """Continue from these tensors without copying them; they keep their autograd graph."""
        self._buffers = dict(zip((name for name in BUFFERS if name in self._buffers), memory, strict=True))

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Random generators of resets, and of stiffness probes and branches."""
        return self._generator, self._probe_generator

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that determines future steps, for the worlds of all ranks.

        This is the physics state, memory, randomized parameters, observations, episode lengths and returns so far,
        random numbers for the next step and RNG states.
        """
        worlds = zip((name for name in BUFFERS if name in self._buffers), self.buffers, strict=True)
        return {name: self.ranks.gather(x.detach().clone()) for name, x in worlds} | self._rng_state()

    def _rng_state(self) -> dict[str, Tensor]:
        return {"generator": self._generator.get_state(), "probe_generator": self._probe_generator.get_state()}

    @_outside_inference_mode
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state exactly, without its autograd graph."""
        buffers = self._buffers
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
        self._buffers = {
            name: local[name].detach().to(value.device, value.dtype, copy=True) for name, value in buffers.items()
        }
        restore_generator(self._generator, state["generator"])
        restore_generator(self._probe_generator, state["probe_generator"])

    def _draw(self, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Draw groups of uniform noise for the next step, [N, size]; all by default."""
        return {
            name: self._sample(self._generator, self._random[name])
            for name in (self._random if names is None else names)
        }

    def _zeros(self, *sizes: int) -> Tensor:
        return torch.zeros(self.spec.num_envs, *sizes, dtype=self.spec.dtype, device=self.spec.device)

    def _sample(
        self, generator: torch.Generator, count: int, distribution: Callable[..., Tensor] = torch.rand
    ) -> Tensor:
        """Draw uniform or other numbers for this rank's worlds, [N, count].

        Every rank draws for the worlds of all ranks, so that the generators stay in sync.
        """
        size = (self.spec.num_envs * self.ranks.size, count)
        return self.ranks.local_slice(
            distribution(size, generator=generator, device=self.spec.device, dtype=self.spec.dtype)
        )

    def _check_worlds(self, worlds: Tensor) -> None:
        check_tensor("worlds", worlds, (self.spec.num_envs,), torch.bool, self.spec.device)


def _clipped(action: Tensor) -> Tensor:
    """Return actions clipped to [-1, 1], for delays; infinite ones become NaN, which makes a world diverge."""
    return action.masked_fill(action.isinf(), math.nan).clamp(-1.0, 1.0)


def _check_finite_action(action: Tensor) -> None:
    """Raise on a non-finite action. CPU only: on CUDA this would synchronize, and the world just diverges."""
    bad = ~torch.isfinite(action)
    if bool(bad.any()):
        world, entry = bad.nonzero()[0].tolist()
        raise InputError(
            f"action [{world}, {entry}] is {action[world, entry].item()}; actions must be finite. "
            "The environment is unchanged: step again with a valid action"
        )
