"""The environment: N worlds of a task, stepped, reset and differentiated together.

A step is one launch forward and one backward: observation, reward and termination are traced with the physics. Worlds
whose episode ended are reset within the step. On CUDA nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ahac.core.env import EnvSpec, Step
from ahac.core.errors import InputError
from ahac.envs import stiffness, tracing
from ahac.envs.task import Task
from ahac.sim import Simulator, State

__all__ = ["VecEnv"]


class VecEnv:
    """N worlds of one task."""

    def __init__(  # noqa: PLR0913 - settings of the public door, keyword-only
        self,
        task: Task,
        *,
        num_envs: int,
        device: str | torch.device = "cpu",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        early_termination: bool = True,
        num_threads: int | None = None,
    ) -> None:
        """Trace the task and start an episode in every world.

        Args:
            task: What `ahac.make` knows by name, or a `Task` of your own.
            num_envs: How many worlds run side by side.
            device: "cpu" or a CUDA device.
            seed: Of all chance in the environment.
            dtype: torch.float32 or torch.float64.
            early_termination: Whether the task may end episodes before their time is up. Lost worlds are always reset.
            num_threads: CPU threads; all cores by default.
        """
        if not isinstance(task, Task):
            raise InputError(f"task must be a Task, got {type(task).__name__}")
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise InputError(f"num_envs must be a whole number of at least 1, got {num_envs!r}")
        self.task = task
        self.sim = Simulator(
            task.model, num_worlds=num_envs, dt=task.dt, substeps=task.substeps, device=device, dtype=dtype,
            num_threads=num_threads, readouts=tracing.readouts(task, early_termination),
        )  # fmt: skip
        self.layout = tracing.observation_sizes(task)
        """How many numbers each part of an observation has, in order."""
        self.spec = EnvSpec(
            name=task.name, num_envs=num_envs, obs_size=sum(self.layout.values()), action_size=task.model.nu,
            episode_steps=task.episode_steps, dt=task.dt, device=self.sim.device, dtype=dtype,
        )  # fmt: skip
        self._draws = max(tracing.draws(task), 1)
        self._begin = self.sim.compiled(
            "start of an episode", lambda noise: tracing.begin(task, noise), {"noise": self._draws}
        )
        # Probes have a generator of their own: whether stiffness is measured does not change how episodes begin.
        self._generator, self._probe_generator = (torch.Generator(self.sim.device) for _ in range(2))
        self.reset(seed)

    @property
    def obs(self) -> Tensor:
        """[N, obs] what the next action is chosen from."""
        return self._obs

    @property
    def state(self) -> State:
        """Positions and velocities of all worlds."""
        return self._state

    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world; with a seed, all chance starts anew as well."""
        if seed is not None:
            if isinstance(seed, bool) or not isinstance(seed, int):
                raise InputError(f"seed must be a whole number, got {seed!r}")
            self._generator.manual_seed(seed)
            self._probe_generator.manual_seed(seed)
        self._state, self._obs = self._fresh()
        self._steps = torch.zeros(self.spec.num_envs, dtype=torch.int64, device=self.spec.device)
        self._return = torch.zeros(self.spec.num_envs, dtype=self.spec.dtype, device=self.spec.device)
        return self._obs

    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step.

        Args:
            action: [N, action]; entries outside [-1, 1] act as if they were clipped.
        """
        start = self._state
        self._check_action(action)
        end = self.sim.step(start, action)
        read, steps = end.readouts, self._steps + 1
        # Not "< 0": what is not a number is not alive.
        terminated = ~(read["alive"] >= 0.0)
        timeout = steps >= self.spec.episode_steps
        done, total = terminated | timeout, self._return + read["reward"].detach()
        # On a CPU looking is cheap, and mostly there is nothing to do.
        if self.spec.device.type == "cpu" and not bool(done.any()):
            self._state, self._obs, self._steps, self._return = State(end.q, end.v), read["obs"], steps, total
            return Step(
                obs=self._obs, final_obs=self._obs, reward=read["reward"], terminated=terminated, truncated=timeout,
                lost=terminated, terms=read["terms"].detach(), episode_return=total, episode_length=steps,
                action=action, start=start, end=end,
            )  # fmt: skip
        lost = ~(read["size"] <= tracing.LOST)
        self._check_finite(action, lost)
        final_obs = torch.where(lost[:, None], 0.0, read["obs"])
        reward = torch.where(lost, 0.0, read["reward"])
        total = self._return + reward.detach()
        self._begin_again(done, end, final_obs)
        self._steps, self._return = steps * ~done, total * ~done
        return Step(
            obs=self._obs, final_obs=final_obs, reward=reward, terminated=terminated, truncated=timeout & ~terminated,
            lost=lost, terms=read["terms"].detach(), episode_return=total, episode_length=steps, action=action,
            start=start, end=end,
        )  # fmt: skip

    def detach(self) -> None:
        """Cut the graph here: no gradient flows further back."""
        self._state, self._obs = self._state.detach(), self._obs.detach()

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """[N] how stiff a step was; see `ahac.envs.stiffness` for the signals.

        Args:
            step: What `step` returned.
            signal: "dynamics", "contact", "contact_normalised" or "force".
            probes: For "dynamics": how many random probes estimate the norm; by default it is exact.
        """
        return stiffness.measure(self.sim, step, signal, probes, self._probe_generator)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the future depends on: physics, clocks, returns so far, generator."""
        return {
            "q": self._state.q.detach().clone(),
            "v": self._state.v.detach().clone(),
            "obs": self._obs.detach().clone(),
            "steps": self._steps.clone(),
            "return": self._return.clone(),
            "generator": self._generator.get_state(),
            "probe_generator": self._probe_generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state; the graph is cut."""
        own = self.state_dict()
        if missing := own.keys() ^ state.keys():
            raise InputError(f"a saved state has the entries {', '.join(own)}; this one differs in {', '.join(missing)}")
        for name, value in own.items():
            if not name.endswith("generator") and state[name].shape != value.shape:
                got, wanted = list(state[name].shape), list(value.shape)
                raise InputError(f"{name!r} of a saved {self.spec.name} has shape {got}, wanted {wanted}")
        new = {name: state[name].to(value.device, value.dtype, copy=True) for name, value in own.items()}
        self._state, self._obs = State(new["q"], new["v"]), new["obs"]
        self._steps, self._return = new["steps"], new["return"]
        self._generator.set_state(new["generator"])
        self._probe_generator.set_state(new["probe_generator"])

    def _fresh(self) -> tuple[State, Tensor]:
        """A new episode's state and first observation, for every world."""
        size = (self.spec.num_envs, self._draws)
        noise = torch.rand(size, generator=self._generator, device=self.spec.device, dtype=self.spec.dtype)
        new = self._begin(noise)
        return State(new["q"], new["v"]), new["obs"]

    def _begin_again(self, done: Tensor, end: State, final_obs: Tensor) -> None:
        """Go on from `end`, but with a new episode where one is over: no gradient crosses into it."""
        fresh, first_obs = self._fresh()
        over = done[:, None]
        self._state = State(torch.where(over, fresh.q, end.q), torch.where(over, fresh.v, end.v))
        self._obs = torch.where(over, first_obs, final_obs)

    def _check_action(self, action: Tensor) -> None:
        spec = self.spec
        wanted = (spec.num_envs, spec.action_size)
        if not isinstance(action, Tensor):
            raise InputError(f"action must be a torch tensor of shape {list(wanted)}, got {type(action).__name__}")
        if action.shape != wanted or action.dtype != spec.dtype or action.device != spec.device:
            raise InputError(
                f"action must be a {spec.dtype} tensor of shape {list(wanted)} on {spec.device}, got {action.dtype} "
                f"{list(action.shape)} on {action.device}"
            )

    def _check_finite(self, action: Tensor, lost: Tensor) -> None:
        """On the CPU, refuse actions that are not numbers; on CUDA, where looking would wait, such worlds are lost."""
        if self.spec.device.type != "cpu" or not bool(lost.any()) or bool(torch.isfinite(action).all()):
            return
        world, entry = (~torch.isfinite(action)).nonzero()[0].tolist()
        raise InputError(
            f"action [{world}, {entry}] is {action[world, entry].item()}; wanted finite numbers. "
            "The environment stays as it was before this step"
        )
