"""The tasks as Gymnasium environments, for libraries that speak it: many worlds in numpy or torch, or a single one.

    env = ahac.make_gym("ant", num_envs=128)                    # gymnasium.vector.VectorEnv
    env = gymnasium.make_vec("ahac.envs.gym:ahac/Ant-v0", num_envs=128)
    env = gymnasium.make("ahac.envs.gym:ahac/Ant-v0")           # gymnasium.Env, one world

No gradients cross this door; `ahac.make` has them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from ahac.core.errors import InputError
from ahac.envs.registry import make, tasks
from ahac.envs.task import Task
from ahac.envs.vec_env import VecEnv

__all__ = ["GymEnv", "GymVectorEnv", "make_gym"]

Array = np.ndarray | Tensor
ARRAYS = ("numpy", "torch")
NUMPY_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class GymVectorEnv(VectorEnv):
    """N worlds behind Gymnasium's interface; finished ones are reset in the same step."""

    def __init__(self, env: VecEnv, arrays: str = "numpy") -> None:
        self.env = env
        self.arrays = arrays
        self.num_envs = env.spec.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": [], "render_fps": 1.0 / env.spec.dt}
        self.single_observation_space, self.single_action_space = _spaces(env)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start a new episode in every world."""
        super().reset(seed=seed, options=options)
        with torch.no_grad():
            return self._array(self.env.reset(seed)), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Advance every world; `infos["final_obs"]` holds what finished ones saw last, at `infos["_final_obs"]`."""
        given = actions if isinstance(actions, Tensor) else torch.from_numpy(np.array(actions))
        with torch.no_grad():
            step = self.env.step(given.to(self.env.spec.device, self.env.spec.dtype))
        found = {
            "final_obs": step.final_obs,
            "_final_obs": step.done,
            "diverged": step.diverged,
            "episode_return": step.episode_return,
            "episode_length": step.episode_length,
        }
        terms = dict(zip(self.env.task.reward, step.reward_terms.unbind(dim=-1), strict=True))
        infos: dict[str, Any] = {name: self._array(value) for name, value in found.items()}
        infos["reward_terms"] = {name: self._array(value) for name, value in terms.items()}
        outcome = (step.obs, step.reward, step.terminated, step.truncated)
        obs, reward, terminated, truncated = (self._array(value) for value in outcome)
        return obs, reward, terminated, truncated, infos

    def _array(self, tensor: Tensor) -> Array:
        return tensor.clone() if self.arrays == "torch" else tensor.cpu().numpy().copy()


class GymEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A single world, in numpy; it waits for `reset` when its episode is over."""

    def __init__(self, env: VecEnv) -> None:
        if env.spec.num_envs != 1:
            raise InputError(f"a single Gymnasium environment has one world, got {env.spec.num_envs}")
        self.env = env
        self._over = False
        self.metadata = {"render_modes": [], "render_fps": 1.0 / env.spec.dt}
        self.observation_space, self.action_space = _spaces(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        self._over = False
        with torch.no_grad():
            return _row(self.env.reset(seed)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance the world."""
        if self._over:
            raise InputError("this episode is over: call reset() before the next step()")
        given = torch.from_numpy(np.array(action)).to(self.env.spec.device, self.env.spec.dtype)
        with torch.no_grad():
            step = self.env.step(given[None])
        infos = {"reward_terms": dict(zip(self.env.task.reward, step.reward_terms[0].tolist(), strict=True))}
        ended = (bool(step.terminated.item()), bool(step.truncated.item()))
        self._over = any(ended)
        return _row(step.final_obs), float(step.reward.item()), *ended, infos


def make_gym(
    task: str | Task,
    num_envs: int | None = None,
    *,
    arrays: str = "numpy",
    **settings: Any,  # noqa: ANN401 - handed on
) -> GymVectorEnv | GymEnv:
    """A Gymnasium environment of a task.

    Args:
        task: A name out of `ahac.tasks()`, or a `Task` of your own.
        num_envs: How many worlds run side by side; without it, a single one as a plain `gymnasium.Env`.
        arrays: "numpy" or "torch", for several worlds.
        settings: Those of `ahac.make`.
    """
    if arrays not in ARRAYS:
        raise InputError(f"arrays must be one of {', '.join(ARRAYS)}, got {arrays!r}")
    # As Gymnasium has it: without a seed, every environment begins elsewhere.
    if settings.get("seed") is None:
        settings["seed"] = int(np.random.SeedSequence().generate_state(1)[0])
    if num_envs is None:
        if arrays != "numpy":
            raise InputError(f"a single Gymnasium environment speaks numpy, got arrays={arrays!r}; num_envs=1 has both")
        return GymEnv(make(task, num_envs=1, **settings))
    return GymVectorEnv(make(task, num_envs=num_envs, **settings), arrays)


def _spaces(env: VecEnv) -> tuple[Box, Box]:
    kind = NUMPY_TYPES[env.spec.dtype]
    return Box(-np.inf, np.inf, (env.spec.obs_size,), kind), Box(-1.0, 1.0, (env.spec.action_size,), kind)


def _row(tensor: Tensor) -> np.ndarray:
    return tensor[0].cpu().numpy().copy()


for _name in tasks():
    gymnasium.register(
        f"ahac/{''.join(part.capitalize() for part in _name.split('_'))}-v0",
        entry_point="ahac.envs.gym:make_gym",
        vector_entry_point="ahac.envs.gym:make_gym",
        kwargs={"task": _name},
    )
