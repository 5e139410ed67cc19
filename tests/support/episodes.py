"""Random episodes through an environment's door: actions, what comes of them, and states changed by hand."""

from collections.abc import Callable

import torch
from torch import Tensor

from ahac.envs import VecEnv

__all__ = ["OUTCOMES", "assert_same", "change", "outcomes", "random_actions", "set_time_left"]

OUTCOMES = (
    "obs", "final_obs", "reward", "terminated", "truncated", "diverged", "reward_terms", "episode_return", "episode_length",
)  # fmt: skip
"""The tensors of a `Step` that have to do with learning."""


def random_actions(env: VecEnv, steps: int, seed: int, bound: float = 1.0) -> Tensor:
    """[steps, N, action], uniform in ± bound."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, env.spec.num_envs, env.spec.action_size)
    drawn = torch.rand(shape, generator=generator, dtype=env.spec.dtype)
    return (bound * (2.0 * drawn - 1.0)).to(env.spec.device)


def outcomes(env: VecEnv, actions: Tensor) -> dict[str, Tensor]:
    """[steps, N, ...] all that comes of a sequence of actions, without gradients; "q" and "v" are those reached."""
    with torch.no_grad():
        steps = [env.step(action) for action in actions]
    found = {name: torch.stack([getattr(step, name) for step in steps]) for name in OUTCOMES}
    ends = {name: torch.stack([getattr(step.next_state, name) for step in steps]) for name in ("q", "v")}
    return {**found, **ends}


def assert_same(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Bit by bit."""
    for name, values in wanted.items():
        assert torch.equal(got[name], values), name


def change(env: VecEnv, edit: Callable[[dict[str, Tensor]], None]) -> None:
    """Edit the environment's saved state in place, and go on from there."""
    state = env.state_dict()
    edit(state)
    env.load_state_dict(state)


def set_time_left(env: VecEnv, worlds: slice | list[int], steps: int | Tensor) -> None:
    """Let so many steps be left until the episodes of these worlds are cut off, the last one included."""

    def edit(state: dict[str, Tensor]) -> None:
        state["clock"][worlds, 0] = env.spec.episode_steps - torch.as_tensor(steps).to(state["clock"])

    change(env, edit)
