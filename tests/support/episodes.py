"""Helpers for random episodes: actions, their outcomes, and edited states."""

from collections.abc import Callable

import torch
from torch import Tensor

from ahac.envs import VecEnv

__all__ = ["OUTCOMES", "assert_same", "change", "outcomes", "random_actions", "set_time_left"]

OUTCOMES = (
    "obs", "final_obs", "reward", "terminated", "truncated", "diverged", "reward_terms",
    "episode_return", "episode_length",
)  # fmt: skip
"""Tensors of a `Step` that an algorithm uses."""


def random_actions(env: VecEnv, steps: int, seed: int, bound: float = 1.0) -> Tensor:
    """Draw actions [steps, N, action], uniform in ± bound."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, env.spec.num_envs, env.spec.action_size)
    uniform = torch.rand(shape, generator=generator, dtype=env.spec.dtype)
    return (bound * (2.0 * uniform - 1.0)).to(env.spec.device)


def outcomes(env: VecEnv, actions: Tensor) -> dict[str, Tensor]:
    """Apply actions without gradients and stack the outcomes, [steps, N, ...]; "q" and "v" are those after the step."""
    with torch.no_grad():
        steps = [env.step(action) for action in actions]
    stacked = {name: torch.stack([getattr(step, name) for step in steps]) for name in OUTCOMES}
    ends = {name: torch.stack([getattr(step.next_state, name) for step in steps]) for name in ("q", "v")}
    return {**stacked, **ends}


def assert_same(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Assert bit-exact equality."""
    for name, values in expected.items():
        assert torch.equal(got[name], values), name


def change(env: VecEnv, edit: Callable[[dict[str, Tensor]], None]) -> None:
    """Edit the environment's saved state in place and load it."""
    state = env.state_dict()
    edit(state)
    env.load_state_dict(state)


def set_time_left(env: VecEnv, worlds: slice | list[int], steps: int | Tensor) -> None:
    """Set the number of steps after which the episodes of these worlds are truncated."""

    def edit(state: dict[str, Tensor]) -> None:
        state["clock"][worlds, 0] = env.spec.episode_steps - torch.as_tensor(steps).to(state["clock"])

    change(env, edit)
