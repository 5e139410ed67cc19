"""What Python asks of environments: a repr, and an error with advice for copies and pickles."""

import copy
import pickle
from collections.abc import Callable

import gymnasium
import pytest
import torch

import ahac
from ahac.sim import InputError

COPIES = [copy.copy, copy.deepcopy, pickle.dumps]


def test_the_repr_shows_task_worlds_device_and_sizes() -> None:
    assert repr(ahac.make("hopper", num_envs=3, dtype=torch.float64, episode_steps=7)) == (
        "VecEnv('hopper', num_envs=3, device='cpu', dtype=float64, obs_size=11, action_size=3, episode_steps=7)"
    )


def test_the_repr_shows_the_observation_of_critics_if_it_differs() -> None:
    env = ahac.make("go1", num_envs=1)
    assert f"obs_size={env.spec.obs_size}, critic_obs_size={env.spec.critic_obs_size}, action_size=12" in repr(env)


@pytest.mark.parametrize("attempt", COPIES)
def test_copies_of_an_environment_are_refused_with_an_alternative_that_works(attempt: Callable[..., object]) -> None:
    env = ahac.make("cartpole", num_envs=2, seed=3)
    with pytest.raises(InputError, match=r"a VecEnv cannot be copied or pickled.*new.load_state_dict\(old.state_dict"):
        attempt(env)
    new = ahac.make("cartpole", num_envs=2)
    new.load_state_dict(env.state_dict())
    assert torch.equal(new.obs, env.obs)


@pytest.mark.parametrize("attempt", COPIES)
@pytest.mark.parametrize("num_envs", [None, 2])
def test_copies_of_gymnasium_environments_are_refused(attempt: Callable[..., object], num_envs: int | None) -> None:
    env = ahac.make_gym("cartpole", num_envs)
    with pytest.raises(InputError, match=r"cannot be copied or pickled.*new.env.load_state_dict\(old.env.state_dict"):
        attempt(env)


def test_a_copy_of_a_wrapped_environment_is_refused() -> None:
    env = gymnasium.make("ahac.envs.gym:ahac/Cartpole-v0")
    with pytest.raises(InputError, match="a GymEnv cannot be copied or pickled"):
        copy.deepcopy(env)
