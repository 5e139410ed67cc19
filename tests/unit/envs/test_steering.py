"""Velocity commands that are set by hand: held between episodes, observed exactly, and released again."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import ahac
from ahac.core.errors import InputError
from ahac.envs import (
    Task,
    VecEnv,
    VelocityCommand,
    command_ranges,
    hold_command,
    make_task,
    release_command,
    set_command,
)
from ahac.envs.components.steering import outside_ranges
from support import components

COMMAND = (0.75, -0.25, 0.5)


@pytest.fixture(scope="module")
def task() -> Task:
    return replace(make_task("go1"), episode_steps=3)


def observed(env: VecEnv) -> Tensor:
    """Return the commands that the policy sees."""
    parts = torch.split(env.obs, list(env.obs_layout.values()), dim=-1)
    return dict(zip(env.obs_layout, parts, strict=True))["command"]


def advance(env: VecEnv, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(env.spec.num_envs, env.spec.action_size))


def test_a_held_command_is_observed_from_the_first_step_and_lasts_across_episodes(task: Task) -> None:
    env = ahac.make(hold_command(task), num_envs=2, device="cpu")
    assert observed(env).tolist() == [[0.0, 0.0, 0.0]] * 2
    set_command(env, *COMMAND)
    env.reset()
    assert observed(env).tolist() == [list(COMMAND)] * 2
    for _ in range(8):
        advance(env, 1)
        assert observed(env).tolist() == [list(COMMAND)] * 2
    env.reset(seed=1)
    assert observed(env).tolist() == [[0.0, 0.0, 0.0]] * 2


def test_a_command_of_another_task_lasts_until_the_episode_ends(task: Task) -> None:
    env = ahac.make(task, num_envs=2, device="cpu", seed=3)
    before = observed(env).clone()
    set_command(env, *COMMAND)
    advance(env, 1)
    assert observed(env).tolist() == [list(COMMAND)] * 2
    advance(env, 2)
    assert (observed(env) != torch.tensor(COMMAND)).any(), "a new episode draws its own"
    assert not torch.equal(observed(env), before)


def test_after_a_release_a_new_command_is_drawn() -> None:
    env = ahac.make("go1", num_envs=2, device="cpu")
    set_command(env, *COMMAND)
    advance(env, 2)
    release_command(env)
    advance(env, 1)
    assert (observed(env) != torch.tensor(COMMAND)).any(dim=1).all()
    assert (env.memory["command"][:, -1] < 10.0).all(), "the next change is due"


def test_a_released_command_is_not_one_that_is_held(task: Task) -> None:
    env = ahac.make(hold_command(task), num_envs=1, device="cpu")
    with pytest.raises(InputError, match="go1 is a task of hold_command, whose command never varies"):
        release_command(env)


def test_the_level_of_a_curriculum_does_not_scale_a_command_that_was_set() -> None:
    env = ahac.make(hold_command(components.make_task()), num_envs=3, device="cpu")
    set_command(env, *COMMAND)
    env.reset()
    for _ in range(2 * components.EPISODE):
        assert observed(env).tolist() == [list(COMMAND)] * 3
        advance(env, 1)
    assert (env.memory["level"][:, 0] < 1.0).any(), "levels below 1 scale the commands that are drawn"


def test_commands_outside_the_ranges_of_training_are_named() -> None:
    task = make_task("go1")
    assert outside_ranges(task, 1.0, -0.4, 0.8) == []
    assert outside_ranges(task, 2.0, 0.0, -1.0) == [
        "lin_vel_x = 2, in training within [-0.5, 1]",
        "ang_vel_z = -1, in training within [-0.8, 0.8]",
    ]
    fixed = replace(task, memory={**VelocityCommand(lin_vel_x=0.5).memory})
    assert outside_ranges(fixed, 0.5, 0.0, 0.0) == []
    assert outside_ranges(fixed, 0.25, 0.0, 0.0) == ["lin_vel_x = 0.25, in training always 0.5"]
    assert outside_ranges(fixed, 0.0, 0.0, 0.0) == [], "a tenth of the commands are zero"
    moving = replace(task, memory={**VelocityCommand(lin_vel_x=(0.5, 1.0), standing=0.0).memory})
    assert outside_ranges(moving, 0.0, 0.0, 0.0) == ["lin_vel_x = 0, in training within [0.5, 1]"]


def test_a_command_that_never_ends_cannot_be_mistaken_for_one_that_was_set() -> None:
    with pytest.raises(InputError, match="resample_every must be less than"):
        VelocityCommand(resample_every=(1.0, 1e9))
    VelocityCommand(resample_every=1e8)


def test_ranges_are_extended_to_zero() -> None:
    assert command_ranges(make_task("go1")) == ((-0.5, 1.0), (-0.4, 0.4), (-0.8, 0.8))
    memory = {**VelocityCommand(lin_vel_x=(0.5, 1.0)).memory, **VelocityCommand(lin_vel_x=-2.0, name="other").memory}
    assert command_ranges(replace(make_task("go1"), memory=memory)) == ((-2.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    assert command_ranges(make_task("cartpole")) == ()


def test_invalid_commands_and_tasks_without_one_are_refused() -> None:
    env = ahac.make("go1", num_envs=1, device="cpu")
    with pytest.raises(InputError, match="lin_vel_y must be a finite number, got nan"):
        set_command(env, 0.0, float("nan"), 0.0)
    with pytest.raises(InputError, match=r"the command must be finite as torch\.float32, got \[1e\+39"):
        set_command(env, 1e39, 0.0, 0.0)
    with pytest.raises(InputError, match="cartpole follows no velocity commands; tasks with a VelocityCommand do"):
        hold_command(make_task("cartpole"))
    with pytest.raises(InputError, match="follows no velocity commands"):
        release_command(ahac.make("cartpole", num_envs=1, device="cpu"))
    name: Any = "go1"
    with pytest.raises(InputError, match=r"expected a task, got 'go1'; use ahac\.envs\.make_task\(name\)"):
        hold_command(name)
    wrapper: Any = ahac.make_gym("cartpole", num_envs=1)
    with pytest.raises(InputError, match=r"expected an environment of ahac\.make, got GymVectorEnv; .* pass `\.env`"):
        set_command(wrapper, *COMMAND)
