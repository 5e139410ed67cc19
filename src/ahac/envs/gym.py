"""Gymnasium environments of all tasks: many worlds with numpy or torch arrays, or a single world.

    env = ahac.make_gym("ant", num_envs=128)                    # gymnasium.vector.VectorEnv
    env = gymnasium.make_vec("ahac.envs.gym:ahac/Ant-v0", num_envs=128)
    env = gymnasium.make("ahac.envs.gym:ahac/Ant-v0")           # gymnasium.Env, one world

Importing this module registers the names; the part before the colon makes Gymnasium import it. These environments are
not differentiable; use `ahac.make` for gradients.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from ahac.core.checks import check_tensor
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs.protocols import Uncopyable
from ahac.envs.registry import make, tasks
from ahac.envs.state import TaskState, select
from ahac.envs.task import Task
from ahac.envs.vec_env import VecEnv
from ahac.view.frames import FrameRenderer

__all__ = ["GymEnv", "GymVectorEnv", "make_gym"]

Array = np.ndarray | Tensor
ARRAYS = ("numpy", "torch")
NUMPY_TYPES = {torch.float32: np.float32, torch.float64: np.float64}
RENDER_MODES = ("rgb_array",)
RESET_MASK = "reset_mask"
"""Option of `GymVectorEnv.reset`, as in Gymnasium."""


class _GymBase(Uncopyable):
    """What the environment of one world and that of many have in common: rendering."""

    _copying = "make a new one with ahac.make_gym(...) and call new.env.load_state_dict(old.env.state_dict())"

    def __init__(self, env: VecEnv, render_mode: str | None, size: tuple[int, int]) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise InputError(
                f"render_mode must be {' or '.join(map(repr, RENDER_MODES))} or None, got {render_mode!r}; `ahac play` "
                "shows tasks and policies in a window"
            )
        self.env = env
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1.0 / env.spec.dt}
        self._ended = torch.zeros(env.spec.num_envs, dtype=torch.bool, device=env.spec.device)
        """Worlds whose episode is over, and whose next one has begun in `env` but has not been shown yet."""
        self._last: Step | None = None
        self._renderer = FrameRenderer(env.task.model, size)

    def _images(self) -> list[np.ndarray]:
        """Return one image per world; of an episode that is over, the last state."""
        if self.render_mode is None:
            raise InputError("this environment cannot render: make it with render_mode='rgb_array'")
        state = self.env.state
        q, parameters = state.q, state.parameters
        if self._last is not None:
            final, before = self._last.next_state.q, self._last.state
            over = self._ended & final.isfinite().all(dim=-1)
            q = select(over, final, q)
            if parameters is not None and isinstance(before, TaskState) and before.parameters is not None:
                parameters = select(over, before.parameters, parameters)
        with torch.no_grad():
            poses = self.env.sim.poses(q, parameters)
        return self._renderer.render(_numpy(poses.position), _numpy(poses.rotation))


class GymVectorEnv(_GymBase, VectorEnv):
    """N worlds as a Gymnasium vector environment."""

    def __init__(
        self,
        env: VecEnv,
        arrays: str = "numpy",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 480),
    ) -> None:
        """Wrap an environment.

        Args:
            env: The worlds.
            arrays: "numpy" or "torch".
            autoreset_mode: When a world whose episode is over starts a new one: SAME_STEP, in the step that ends it;
                NEXT_STEP, in the next step, which ignores its action; DISABLED, when `reset` is called for it.
            render_mode: "rgb_array", or None.
            size: Width and height of images [pixels].
        """
        super().__init__(env, render_mode, size)
        self.arrays = arrays
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.num_envs = env.spec.num_envs
        self.metadata["autoreset_mode"] = self.autoreset_mode
        self.single_observation_space, self.single_action_space = _spaces(env)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start a new episode in every world, or in those of the bool array `options["reset_mask"]` [N].

        A seed with a mask reseeds the random generator that all worlds share.
        """
        VectorEnv.reset(self, seed=seed, options=options)
        mask = self._reset_mask(options)
        with torch.no_grad():
            if mask is None and (seed is not None or not bool(self._ended.any())):
                self.env.reset(seed)
            elif seed is not None:
                self.env.generators[0].manual_seed(seed)
                self.env.reset_worlds(self._all(mask))
            else:
                self.env.reset_worlds(self._all(mask) & ~self._ended)  # `env` has reset those that ended
            self._ended = self._ended & ~self._all(mask)
            return self._array(self._obs()), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Advance every world by one control step.

        With SAME_STEP, `infos["final_obs"]` holds the last observations of finished episodes, and
        `infos["_final_obs"]` is their mask. With the other modes, the observations themselves do.
        """
        spec = self.env.spec
        tensor = actions if isinstance(actions, Tensor) else torch.from_numpy(np.array(actions))
        shape = (spec.num_envs, spec.action_size)
        action = check_tensor("action", tensor.to(spec.device, spec.dtype), shape, spec.dtype, spec.device)
        resetting = self._ended
        if self.autoreset_mode is AutoresetMode.DISABLED and bool(resetting.any()):
            raise InputError(
                f"the episodes of worlds {resetting.nonzero().flatten().tolist()} are over: start new ones with "
                'reset(options={"reset_mask": terminated | truncated}) before the next step()'
            )
        with torch.no_grad():
            step = self._advance(action, resetting)
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        if not same_step:
            self._ended, self._last = step.done & ~resetting, step
        values = {"final_obs": step.final_obs, "_final_obs": step.done} if same_step else {}
        values |= {
            "diverged": step.diverged & ~resetting,
            "episode_return": step.episode_return.masked_fill(resetting, 0.0),
            "episode_length": step.episode_length.masked_fill(resetting, 0.0),
        }
        rewards = step.reward_terms.masked_fill(resetting[:, None], 0.0)
        terms = dict(zip(self.env.task.reward, rewards.unbind(dim=-1), strict=True))
        infos: dict[str, Any] = {name: self._array(value) for name, value in values.items()}
        infos["reward_terms"] = {name: self._array(value) for name, value in terms.items()}
        ends = (step.terminated & ~resetting, step.truncated & ~resetting)
        outcome = (self._obs(), step.reward.masked_fill(resetting, 0.0), *ends)
        obs, reward, terminated, truncated = (self._array(value) for value in outcome)
        return obs, reward, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...]:
        """Return a uint8 image [H, W, 3] of every world."""
        return tuple(self._images())

    def close_extras(self, **_: object) -> None:
        """End the process that renders."""
        self._renderer.close()

    def _advance(self, action: Tensor, resetting: Tensor) -> Step:
        """Step the worlds, except those whose new episode begins in this step."""
        if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            return self.env.step(action)
        before = self.env.buffers
        step = self.env.step(action.masked_fill(resetting[:, None], 0.0))
        after = self.env.buffers
        self.env.set_buffers([select(resetting, old, new) for old, new in zip(before, after, strict=True)])
        return step

    def _obs(self) -> Tensor:
        """Return the current observations; of episodes that are over, the last ones."""
        return self.env.obs if self._last is None else select(self._ended, self._last.final_obs, self.env.obs)

    def _reset_mask(self, options: dict[str, Any] | None) -> Tensor | None:
        mask = (options or {}).get(RESET_MASK)
        if mask is None:
            return None
        if not isinstance(mask, Array) or tuple(mask.shape) != (self.num_envs,) or "bool" not in str(mask.dtype):
            got = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Array) else type(mask).__name__
            raise InputError(f"options['{RESET_MASK}'] must be a bool array of shape [{self.num_envs}], got {got}")
        if not bool(mask.any()):
            raise InputError(f"options['{RESET_MASK}'] must be True for at least one world, got all False")
        return torch.as_tensor(mask, device=self.env.spec.device)

    def _all(self, mask: Tensor | None) -> Tensor:
        return torch.ones_like(self._ended) if mask is None else mask

    def _array(self, tensor: Tensor) -> Array:
        return tensor.clone() if self.arrays == "torch" else _numpy(tensor).copy()


class GymEnv(_GymBase, gymnasium.Env[np.ndarray, np.ndarray]):
    """A single world with numpy arrays; call `reset` after its episode has ended."""

    def __init__(self, env: VecEnv, render_mode: str | None = None, size: tuple[int, int] = (480, 480)) -> None:
        """Wrap an environment.

        Args:
            env: An environment of one world.
            render_mode: "rgb_array", or None.
            size: Width and height of images [pixels].
        """
        if env.spec.num_envs != 1:
            raise InputError(f"a single Gymnasium environment has one world, got {env.spec.num_envs}")
        super().__init__(env, render_mode, size)
        self.observation_space, self.action_space = _spaces(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode."""
        gymnasium.Env.reset(self, seed=seed)
        with torch.no_grad():
            begun = seed is None and bool(self._ended.any())  # `env` has reset it when its last episode ended
            self._ended = torch.zeros_like(self._ended)
            return _row(self.env.obs if begun else self.env.reset(seed)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance the world by one control step."""
        if bool(self._ended.any()):
            raise InputError("the episode is over: call reset() before the next step()")
        tensor = torch.from_numpy(np.array(action)).to(self.env.spec.device, self.env.spec.dtype)
        with torch.no_grad():
            step = self.env.step(tensor[None])
        infos = {"reward_terms": dict(zip(self.env.task.reward, step.reward_terms[0].tolist(), strict=True))}
        terminated = bool(step.terminated.item())
        truncated = bool(step.truncated.item())
        self._ended, self._last = step.done, step
        return _row(step.final_obs), float(step.reward.item()), terminated, truncated, infos

    def render(self) -> np.ndarray:
        """Return a uint8 image [H, W, 3]."""
        return self._images()[0]

    def close(self) -> None:
        """End the process that renders."""
        self._renderer.close()


def make_gym(
    task: str | Task,
    num_envs: int | None = None,
    *,
    arrays: str = "numpy",
    autoreset_mode: AutoresetMode | str | None = None,
    render_mode: str | None = None,
    width: int = 480,
    height: int = 480,
    **settings: Any,  # noqa: ANN401 - passed to `make`
) -> GymVectorEnv | GymEnv:
    """Create a Gymnasium environment of a task.

    Args:
        task: A name from `ahac.tasks()`, or your own `Task`.
        num_envs: Number of worlds of a vector environment; None creates a plain `gymnasium.Env` of one world.
        arrays: "numpy" or "torch"; "torch" only with `num_envs`.
        autoreset_mode: When worlds whose episode is over start a new one (`gymnasium.vector.AutoresetMode`), SAME_STEP
            by default; only with `num_envs`.
        render_mode: "rgb_array" for images from `render()`.
        width: Width of images [pixels].
        height: Height of images [pixels].
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
        if autoreset_mode is not None:
            raise InputError(f"a single world has no autoreset_mode, got {autoreset_mode}; omit it, or set num_envs=1")
        return GymEnv(make(task, num_envs=1, **settings), render_mode, (width, height))
    mode = _autoreset_mode(AutoresetMode.SAME_STEP if autoreset_mode is None else autoreset_mode)
    return GymVectorEnv(make(task, num_envs=num_envs, **settings), arrays, mode, render_mode, (width, height))


def _autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(repr(known.value) for known in AutoresetMode)
        raise InputError(f"autoreset_mode must be a gymnasium.vector.AutoresetMode or {known}, got {mode!r}") from error


def _spaces(env: VecEnv) -> tuple[Box, Box]:
    kind = NUMPY_TYPES[env.spec.dtype]
    return Box(-np.inf, np.inf, (env.spec.obs_size,), kind), Box(-1.0, 1.0, (env.spec.action_size,), kind)


def _row(tensor: Tensor) -> np.ndarray:
    return _numpy(tensor[0]).copy()


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


for _name in tasks():
    gymnasium.register(
        f"ahac/{''.join(part.capitalize() for part in _name.split('_'))}-v0",
        entry_point="ahac.envs.gym:make_gym",
        vector_entry_point="ahac.envs.gym:make_gym",
        kwargs={"task": _name},
    )
