"""Rollouts: what they contain, where they are cut, and where gradients flow."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ahac.envs import VecEnv, make
from ahac.rl.rollout import Rollout, StiffnessMonitor, roll_out
from support.episodes import outcomes, random_actions, set_time_left

WORLDS, STEPS = 4, 12


@pytest.fixture(scope="module", params=["hopper", "cartpole"])
def either(request: pytest.FixtureRequest, device: torch.device) -> VecEnv:
    return make(request.param, num_envs=WORLDS, device=device)


@pytest.fixture(scope="module")
def made(device: torch.device) -> VecEnv:
    return make("hopper", num_envs=WORLDS, device=device)


@pytest.fixture
def hopper(made: VecEnv) -> VecEnv:
    """Falling robots, before they touch the ground."""
    made.reset(seed=1)
    outcomes(made, random_actions(made, 5, seed=2))
    return made


def feedback(env: VecEnv, commands: Tensor) -> Callable[[Tensor], Tensor]:
    """A policy of [T, N, action] commands plus feedback, so that gradients also flow through observations."""
    queue, shape = iter(commands), (env.spec.obs_size, env.spec.action_size)
    gain = 0.05 * torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(env.spec.device, env.spec.dtype)
    return lambda obs: torch.tanh(next(queue) + obs @ gain)


def halved(obs: Tensor) -> Tensor:
    return 0.5 * obs


def rolled(env: VecEnv, gauge: StiffnessMonitor | None = None, steps: int = STEPS) -> tuple[Rollout, Tensor]:
    """Return a rollout and its commands, and restore the environment's state."""
    saved = env.state_dict()
    commands = random_actions(env, steps, seed=4).requires_grad_()
    rollout = roll_out(env, feedback(env, commands), halved, steps, gauge)
    env.load_state_dict(saved)
    return rollout, commands


def gradient(of: Tensor, commands: Tensor) -> Tensor:
    (actual,) = torch.autograd.grad(of.sum(), commands, retain_graph=True)
    return actual


def between(values: Tensor) -> float:
    """A level that half of the four worlds exceed."""
    ordered = values.detach().amax(dim=0).sort().values
    assert ordered[1] < ordered[2]
    return float(ordered[1:3].mean())


# ------------------------------------------------------------------------------------------------------- contents


def test_shapes(either: VecEnv) -> None:
    rollout, _ = rolled(either)
    obs = (STEPS, WORLDS, either.spec.obs_size)
    assert rollout.raw_obs.shape == rollout.obs.shape == rollout.final_critic_obs.shape == obs
    for flat in (rollout.reward, rollout.terminated, rollout.cut, rollout.stiff):
        assert flat.shape == (STEPS, WORLDS)
    assert len(rollout.steps) == STEPS
    assert rollout.stiffness is None
    assert not rollout.stiff.any()


def test_observations_are_those_before_the_action_and_those_after(either: VecEnv) -> None:
    first = either.obs.clone()
    rollout, _ = rolled(either)
    assert torch.equal(rollout.raw_obs[0], first)
    for before, step in zip(rollout.raw_obs[1:], rollout.steps, strict=False):
        assert torch.equal(before, step.obs)
    assert torch.equal(rollout.obs, halved(rollout.raw_obs))
    assert torch.equal(rollout.final_critic_obs, halved(torch.stack([step.final_obs for step in rollout.steps])))


def test_gradients_are_carried_by_rewards_and_last_observations_alone(either: VecEnv) -> None:
    rollout, _ = rolled(either)
    assert not rollout.raw_obs.requires_grad
    assert not rollout.obs.requires_grad
    assert rollout.final_critic_obs.requires_grad
    assert rollout.reward.requires_grad


def test_the_trajectory_is_cut_at_the_last_step(either: VecEnv) -> None:
    rollout, _ = rolled(either)
    assert rollout.cut[-1].all()
    assert torch.equal(rollout.cut[:-1], torch.stack([step.done for step in rollout.steps])[:-1])
    assert not rollout.terminated[-1].all()


def test_a_time_out_cuts_and_does_not_terminate(hopper: VecEnv) -> None:
    set_time_left(hopper, [0], 3)
    rollout, commands = rolled(hopper)
    assert rollout.cut[:, 0].nonzero().flatten().tolist() == [2, STEPS - 1]
    assert not rollout.terminated[2, 0]
    # What follows is another episode.
    assert (gradient(rollout.reward[3:, 0], commands)[:3] == 0.0).all()
    assert (gradient(rollout.final_critic_obs[2, 0], commands)[0, 0] != 0.0).any()


def test_a_rollout_is_cut_off_from_the_one_before(hopper: VecEnv) -> None:
    one, other = (random_actions(hopper, 3, seed).requires_grad_() for seed in (5, 6))
    roll_out(hopper, feedback(hopper, one), halved, 3)
    second = roll_out(hopper, feedback(hopper, other), halved, 3)
    actual = torch.autograd.grad(second.reward.sum() + second.final_critic_obs.sum(), [one, other], allow_unused=True)
    assert actual[0] is None
    assert (actual[1] != 0.0).any()


# --------------------------------------------------------------------------------------------------------- stiffness


@pytest.mark.parametrize("signal", ["force", "contact", "contact_normalized"])
def test_stiffness_is_recorded_step_by_step_and_changes_nothing(hopper: VecEnv, signal: str) -> None:
    plain, _ = rolled(hopper)
    rollout, _ = rolled(hopper, StiffnessMonitor(signal=signal))
    assert rollout.stiffness is not None
    assert torch.equal(rollout.stiffness, torch.stack([hopper.stiffness(step, signal) for step in rollout.steps]))
    assert (rollout.stiffness > 0.0).any()
    assert rollout.stiffness.requires_grad
    assert not rollout.stiff.any()
    assert torch.equal(rollout.reward, plain.reward)
    assert torch.equal(rollout.cut, plain.cut)


def test_probed_dynamics_has_no_gradient(hopper: VecEnv) -> None:
    rollout, _ = rolled(hopper, StiffnessMonitor(signal="dynamics", probes=1), steps=3)
    assert rollout.stiffness is not None
    assert (rollout.stiffness > 0.0).all()
    assert not rollout.stiffness.requires_grad


def test_no_gradient_crosses_a_stiff_step_and_other_worlds_are_unaffected(hopper: VecEnv) -> None:
    plain, plain_commands = rolled(hopper, StiffnessMonitor(signal="force"))
    assert plain.stiffness is not None
    limit = between(plain.stiffness[:-1])
    rollout, commands = rolled(hopper, StiffnessMonitor(signal="force", truncate_above=limit))
    assert torch.equal(rollout.reward, plain.reward)
    assert torch.equal(rollout.stiff, plain.stiffness > limit)
    assert torch.equal(rollout.cut[:-1], rollout.stiff[:-1])
    whole = gradient(rollout.reward, commands)
    whole_plain = gradient(plain.reward, plain_commands)
    stiff_worlds = rollout.stiff[:-1].any(dim=0)
    assert stiff_worlds.sum() == 2
    assert torch.equal(whole[:, ~stiff_worlds], whole_plain[:, ~stiff_worlds])
    for world in stiff_worlds.nonzero().flatten().tolist():
        end = int(rollout.stiff[:, world].nonzero()[0]) + 1
        assert (gradient(plain.reward[end:, world], plain_commands)[:end, world] != 0.0).any()
        assert (gradient(rollout.reward[end:, world], commands)[:end] == 0.0).all()
        assert (gradient(rollout.final_critic_obs[end:, world], commands)[:end] == 0.0).all()
        # Before the cut nothing changes, and the value there still depends on all actions.
        last = gradient(rollout.final_critic_obs[end - 1, world], commands)
        assert torch.equal(last, gradient(plain.final_critic_obs[end - 1, world], plain_commands))
        assert (last[:end, world] != 0.0).any(dim=-1).all()


def test_stiffness_of_later_steps_does_not_depend_on_actions_before_the_cut(hopper: VecEnv) -> None:
    rollout, commands = rolled(hopper, StiffnessMonitor(signal="force", truncate_above=-1.0, min_steps=3))
    assert rollout.stiffness is not None
    assert (gradient(rollout.stiffness[3:], commands)[:3] == 0.0).all()
    assert (gradient(rollout.stiffness[3:], commands)[3:] != 0.0).any()


def test_trajectories_have_min_steps_before_they_may_be_truncated(hopper: VecEnv) -> None:
    set_time_left(hopper, [0], 2)
    rollout, _ = rolled(hopper, StiffnessMonitor(signal="force", truncate_above=-1.0, min_steps=3))
    # Every step would be stiff enough: each third ends a trajectory; in world 0 an episode ends at its second step.
    assert rollout.stiff[:, 1].nonzero().flatten().tolist() == [2, 5, 8, 11]
    assert rollout.stiff[:, 0].nonzero().flatten().tolist() == [4, 7, 10]
    assert rollout.cut[:, 0].nonzero().flatten().tolist() == [1, 4, 7, 10, 11]


def test_without_min_steps_any_step_may_end_a_trajectory(hopper: VecEnv) -> None:
    rollout, _ = rolled(hopper, StiffnessMonitor(signal="force", truncate_above=-1.0))
    assert rollout.stiff.all()
