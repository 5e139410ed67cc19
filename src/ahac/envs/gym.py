"""Gymnasium environments of all tasks: many worlds with numpy or torch arrays, or a single world.

    env = ahac.make_gym("ant", num_envs=128)                    # gymnasium.vector.VectorEnv
    env = gymnasium.make_vec("ahac.envs.gym:ahac/Ant-v0", num_envs=128)
    env = gymnasium.make("ahac.envs.gym:ahac/Ant-v0")           # gymnasium.Env, one world

These environments are not differentiable; use `ahac.make` for gradients.
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
    """N worlds as a Gymnasium vector environment; finished worlds are reset in the same step."""

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
        """Advance every world by one control step.

        `infos["final_obs"]` holds the last observations of finished episodes; `infos["_final_obs"]` is their mask.
        """
        tensor = actions if isinstance(actions, Tensor) else torch.from_numpy(np.array(actions))
        with torch.no_grad():
            step = self.env.step(tensor.to(self.env.spec.device, self.env.spec.dtype))
        values = {
            "final_obs": step.final_obs,
            "_final_obs": step.done,
            "diverged": step.diverged,
            "episode_return": step.episode_return,
            "episode_length": step.episode_length,
        }
        terms = dict(zip(self.env.task.reward, step.reward_terms.unbind(dim=-1), strict=True))
        infos: dict[str, Any] = {name: self._array(value) for name, value in values.items()}
        infos["reward_terms"] = {name: self._array(value) for name, value in terms.items()}
        outcome = (step.obs, step.reward, step.terminated, step.truncated)
        obs, reward, terminated, truncated = (self._array(value) for value in outcome)
        return obs, reward, terminated, truncated, infos

    def _array(self, tensor: Tensor) -> Array:
        return tensor.clone() if self.arrays == "torch" else tensor.cpu().numpy().copy()


class GymEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A single world with numpy arrays; call `reset` after its episode has ended."""

    def __init__(self, env: VecEnv) -> None:
        if env.spec.num_envs != 1:
            raise InputError(f"a single Gymnasium environment has one world, got {env.spec.num_envs}")
        self.env = env
        self._done = False
        self.metadata = {"render_modes": [], "render_fps": 1.0 / env.spec.dt}
        self.observation_space, self.action_space = _spaces(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        self._done = False
        with torch.no_grad():
            return _row(self.env.reset(seed)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance the world by one control step."""
        if self._done:
            raise InputError("the episode is over: call reset() before the next step()")
        tensor = torch.from_numpy(np.array(action)).to(self.env.spec.device, self.env.spec.dtype)
        with torch.no_grad():
            step = self.env.step(tensor[None])
        infos = {"reward_terms": dict(zip(self.env.task.reward, step.reward_terms[0].tolist(), strict=True))}
        terminated = bool(step.terminated.item())
        truncated = bool(step.truncated.item())
        self._done = terminated or truncated
        return _row(step.final_obs), float(step.reward.item()), terminated, truncated, infos


def make_gym(
    task: str | Task,
    num_envs: int | None = None,
    *,
    arrays: str = "numpy",
    **settings: Any,  # noqa: ANN401 - passed to `make`
) -> GymVectorEnv | GymEnv:
    """Create a Gymnasium environment of a task.

    Args:
        task: A name from `ahac.tasks()`, or your own `Task`.
        num_envs: Number of worlds of a vector environment; None creates a plain `gymnasium.Env` of one world.
        arrays: "numpy" or "torch"; "torch" only with `num_envs`.
        settings: Further settings of `ahac.make`.
    """
    if arrays not in ARRAYS:
        raise InputError(f"arrays must be one of {', '.join(ARRAYS)}, got {arrays!r}")
    # Gymnasium's convention: without a seed, environments differ.
    if settings.get("seed") is None:
        settings["seed"] = int(np.random.SeedSequence().generate_state(1)[0])
    if num_envs is None:
        if arrays != "numpy":
            raise InputError(f"a single Gymnasium environment uses numpy, got arrays={arrays!r}; set num_envs=1")
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
