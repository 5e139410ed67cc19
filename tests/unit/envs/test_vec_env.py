"""`VecEnv`: ends and resets of episodes, rewards against hand-written formulas, and where gradients flow."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make
from support.episodes import assert_same, change, outcomes, random_actions, set_time_left

WORLDS = 6
TORSO_HEIGHT = 1.25
"""Height of the hopper's torso when its slide along z is at zero [m]."""

EXACT = 1e-12
"""Relative to the largest number; the same float64 formula in another order."""


@pytest.fixture(scope="module")
def made(device: torch.device) -> VecEnv:
    return make("hopper", num_envs=WORLDS, dtype=torch.float64, device=device)


@pytest.fixture
def hopper(made: VecEnv) -> VecEnv:
    """Hoppers some steps into an episode."""
    made.reset(seed=1)
    outcomes(made, random_actions(made, 5, seed=2))
    return made


@pytest.fixture(scope="module")
def tireless(device: torch.device) -> VecEnv:
    return make("hopper", num_envs=WORLDS, dtype=torch.float64, device=device, early_termination=False)


@pytest.fixture(scope="module")
def short(device: torch.device) -> VecEnv:
    """Cartpoles with episodes of five steps, in float32."""
    return make("cartpole", num_envs=WORLDS, device=device, episode_steps=5)


def lay_down(env: VecEnv, worlds: list[int]) -> None:
    """Place hoppers horizontally in the air, with their torso too low."""

    def edit(state: dict[str, Tensor]) -> None:
        state["q"][worlds, 1], state["q"][worlds, 2] = 0.5 - TORSO_HEIGHT, 0.5 * math.pi

    change(env, edit)


def record(env: VecEnv, steps: int, seed: int = 3) -> tuple[list[Tensor], list[Step]]:
    """Take random steps and return the actions, each a separate leaf, and the steps."""
    actions = [action.clone().requires_grad_() for action in random_actions(env, steps, seed, bound=0.9)]
    return actions, [env.step(action) for action in actions]


def gradient(value: Tensor, action: Tensor) -> Tensor:
    """Gradient of a sum by an action; zero if the graph does not reach it."""
    (found,) = torch.autograd.grad(value.sum(), action, retain_graph=True, allow_unused=True)
    return torch.zeros_like(action) if found is None else found


# ------------------------------------------------------------------------------------------------------- episodes


def test_the_time_limit_truncates_and_a_new_episode_begins_in_the_same_step(short: VecEnv) -> None:
    short.reset(seed=4)
    actions = random_actions(short, 12, seed=5)
    total = torch.zeros(WORLDS)
    for i, action in enumerate(actions):
        step = short.step(action)
        over, total = i % 5 == 4, total + step.reward.cpu()
        assert step.truncated.tolist() == step.done.tolist() == [over] * WORLDS
        assert not step.terminated.any()
        assert step.episode_length.tolist() == [i % 5 + 1] * WORLDS
        assert torch.equal(step.episode_return.cpu(), total)
        assert torch.equal(short.obs, step.obs)
        assert (step.obs == step.final_obs).all(dim=-1).tolist() == [not over] * WORLDS
        if over:
            assert len(step.obs.unique(dim=0)) == WORLDS, "worlds start in the same state"
            total = torch.zeros(WORLDS)
    assert short.spec.episode_steps == 5


def test_a_reset_restarts_all_clocks(short: VecEnv) -> None:
    short.reset()
    outcomes(short, random_actions(short, 3, seed=6))
    short.reset()
    found = outcomes(short, random_actions(short, 5, seed=6))
    assert found["truncated"].any(dim=-1).tolist() == [False] * 4 + [True]
    assert torch.equal(found["episode_return"][2], found["reward"][:3].sum(dim=0))


def test_final_obs_is_of_the_state_reached_and_obs_of_the_new_one(hopper: VecEnv) -> None:
    set_time_left(hopper, [1, 4], 1)
    step = hopper.step(random_actions(hopper, 1, seed=7)[0])
    assert step.done.tolist() == [i in (1, 4) for i in range(WORLDS)]
    for obs, state in ((step.final_obs, step.next_state), (step.obs, hopper.state)):
        assert torch.equal(obs, torch.cat([state.q[:, 1:], state.v], dim=-1))


def test_a_fallen_robot_is_terminated_and_not_truncated(hopper: VecEnv) -> None:
    lay_down(hopper, [2, 3])
    set_time_left(hopper, [3, 4], 1)
    step = hopper.step(random_actions(hopper, 1, seed=8)[0])
    assert step.terminated.tolist() == [i in (2, 3) for i in range(WORLDS)]
    assert step.truncated.tolist() == [i == 4 for i in range(WORLDS)]
    assert step.done.tolist() == [i in (2, 3, 4) for i in range(WORLDS)]
    assert not step.diverged.any()
    assert ((step.next_state.q[:, 1] + TORSO_HEIGHT < 0.8) == step.terminated).all()
    assert (hopper.state.q[:, 1].abs() < 0.1).all()


def test_without_early_termination_only_time_ends_episodes(tireless: VecEnv) -> None:
    tireless.reset(seed=9)
    lay_down(tireless, [2, 3])
    set_time_left(tireless, [3, 4], 1)
    step = tireless.step(random_actions(tireless, 1, seed=8)[0])
    assert not step.terminated.any()
    assert step.truncated.tolist() == [i in (3, 4) for i in range(WORLDS)]
    assert tireless.state.q[2, 1] + TORSO_HEIGHT < 0.8


def test_the_seed_of_the_constructor_is_that_of_a_reset(short: VecEnv, device: torch.device) -> None:
    first = short.reset(seed=10)
    assert torch.equal(make("cartpole", num_envs=WORLDS, device=device, episode_steps=5, seed=10).obs, first)
    assert not torch.equal(short.reset(), first)
    assert torch.equal(short.reset(seed=10), first)


def test_without_gradient_nothing_is_recorded(hopper: VecEnv) -> None:
    action = random_actions(hopper, 1, seed=11)[0].requires_grad_()
    with torch.no_grad():
        step = hopper.step(action)
    assert not any(x.requires_grad for x in (step.obs, step.final_obs, step.reward, hopper.state.q, hopper.state.v))
    again = hopper.step(action.detach())
    assert not any(x.requires_grad for x in (again.obs, again.final_obs, again.reward, again.next_state.q))


@pytest.mark.parametrize("use", ["step", "reset", "load_state_dict"])
def test_an_environment_used_in_inference_mode_has_gradients_afterwards(use: str, hopper: VecEnv) -> None:
    action, saved = random_actions(hopper, 1, seed=11)[0], hopper.state_dict()
    with torch.inference_mode():
        if use == "step":
            hopper.step(action)
        elif use == "reset":
            hopper.reset()
        else:
            hopper.load_state_dict(saved)
    (first, _), (_, step) = record(hopper, 2)
    assert (gradient(step.reward, first) != 0.0).any()


# -------------------------------------------------------------------------------------------------------- rewards


ByHand = Callable[[Tensor, Tensor, Tensor, str], list[Tensor]]
"""Reward terms computed from positions, velocities, action and variant."""


def hopper_rewards(q: Tensor, v: Tensor, action: Tensor, variant: str) -> list[Tensor]:
    height, tilt = q[:, 1] + TORSO_HEIGHT, q[:, 2]
    d = height - 0.8 if variant == "paper" else (height - 0.95).clamp(-1.0, 0.3)
    return [v[:, 0], torch.where(d < 0.0, -200.0 * d**2, d), 1.0 - (tilt / 0.524) ** 2, -0.1 * action.square().sum(-1)]


def ant_rewards(q: Tensor, v: Tensor, action: Tensor, variant: str) -> list[Tensor]:
    d, (_, x, y, z) = q[:, 2] - 0.27, (q[:, 3:7] / q[:, 3:7].norm(dim=-1, keepdim=True)).unbind(dim=-1)
    upright, heading = 1.0 - 2.0 * (x**2 + y**2), 1.0 - 2.0 * (y**2 + z**2)
    if variant == "paper":
        height = torch.where(d < 0.0, -200.0 * d**2, d)
        effort = -0.01 * action.square().sum(-1)
    else:
        height, effort = d, torch.zeros_like(d)
    return [v[:, 0], height, 0.1 * upright, heading, effort]


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize(("task", "by_hand"), [("hopper", hopper_rewards), ("ant", ant_rewards)])
def test_reward_is_of_the_state_before_the_step_and_the_clipped_action(
    task: str, by_hand: ByHand, variant: str, device: torch.device
) -> None:
    env = make(task, num_envs=32, dtype=torch.float64, variant=variant, device=device)
    drawn = torch.Generator().manual_seed(12)

    def scatter(state: dict[str, Tensor]) -> None:
        height = 1 if task == "hopper" else 2
        state["q"] += 0.5 * torch.randn(state["q"].shape, generator=drawn, dtype=torch.float64).to(device)
        state["v"] += torch.randn(state["v"].shape, generator=drawn, dtype=torch.float64).to(device)
        # From below any target height to above any bound.
        low = -TORSO_HEIGHT if task == "hopper" else 0.0
        state["q"][:, height] = low + torch.linspace(0.1, 1.6, 32).to(state["q"])

    change(env, scatter)
    before, action = env.state, random_actions(env, 1, seed=13, bound=1.5)[0]
    step = env.step(action)
    wanted = torch.stack(by_hand(before.q, before.v, action.clamp(-1.0, 1.0), variant), dim=-1)
    assert (step.reward_terms - wanted).abs().max() < EXACT * wanted.abs().max()
    assert (step.reward - wanted.sum(dim=-1)).abs().max() < EXACT * wanted.abs().max()


# ------------------------------------------------------------------------------------------------------ gradients


def test_no_gradient_crosses_a_reset(hopper: VecEnv) -> None:
    set_time_left(hopper, [1], 2)
    actions, steps = record(hopper, 4)
    assert steps[1].done.tolist() == [i == 1 for i in range(WORLDS)]
    later = steps[2].reward + steps[3].reward + steps[1].obs.sum(-1) + steps[3].final_obs.sum(-1)
    for action in actions[:2]:
        found = gradient(later, action)
        assert (found[1] == 0.0).all()
        assert (found.abs().sum(dim=-1) > 0.0).tolist() == [i != 1 for i in range(WORLDS)]
    assert (gradient(steps[3].reward, actions[2]).abs().sum(dim=-1) > 0.0).all()


def test_the_final_observation_of_an_episode_carries_gradients(hopper: VecEnv) -> None:
    lay_down(hopper, [2])
    set_time_left(hopper, [1], 1)
    (action,), (step,) = record(hopper, 1)
    assert step.done.tolist() == [i in (1, 2) for i in range(WORLDS)]
    assert (gradient(step.final_obs, action).abs().sum(dim=-1) > 0.0).all()
    assert (gradient(step.obs, action).abs().sum(dim=-1) > 0.0).tolist() == (~step.done).tolist()


def test_no_gradient_crosses_a_detach(hopper: VecEnv) -> None:
    (first,), _ = record(hopper, 1)
    hopper.detach()
    assert not any(x.requires_grad for x in (hopper.obs, hopper.state.q, hopper.state.v))
    (second,), (step,) = record(hopper, 1, seed=14)
    assert torch.autograd.grad(step.final_obs.sum(), first, retain_graph=True, allow_unused=True) == (None,)
    assert (gradient(step.final_obs, second) != 0.0).any()


def test_a_detach_of_some_worlds_leaves_the_gradients_of_the_others(hopper: VecEnv) -> None:
    saved = hopper.state_dict()

    def found(worlds: Tensor | None) -> Tensor:
        hopper.load_state_dict(saved)
        (first,), _ = record(hopper, 1)
        if worlds is not None:
            hopper.detach(worlds)
        _, (step,) = record(hopper, 1, seed=14)
        return gradient(step.final_obs + hopper.obs, first)

    cut = torch.tensor([i in (0, 3) for i in range(WORLDS)], device=hopper.spec.device)
    some, none = found(cut), found(None)
    assert (some[cut] == 0.0).all()
    assert (none[cut] != 0.0).any()
    assert torch.equal(some[~cut], none[~cut])


@pytest.mark.parametrize("cut", ["reset", "load_state_dict"])
def test_no_gradient_crosses_a_reset_or_a_loaded_state(cut: str, hopper: VecEnv) -> None:
    saved = hopper.state_dict()
    (first,), _ = record(hopper, 1)
    hopper.reset() if cut == "reset" else hopper.load_state_dict(saved)
    _, (step,) = record(hopper, 1)
    assert torch.autograd.grad(step.final_obs.sum(), first, retain_graph=True, allow_unused=True) == (None,)


def test_a_world_has_no_gradient_in_the_actions_of_another(hopper: VecEnv) -> None:
    actions, steps = record(hopper, 3)
    for world in range(WORLDS):
        for value in (steps[2].reward, steps[2].final_obs, steps[2].obs):
            found = gradient(value[world], actions[0]).abs().sum(dim=-1) > 0.0
            assert found.tolist() == [i == world for i in range(WORLDS)]


def test_actions_out_of_range_act_as_clipped_ones_and_have_no_gradient(hopper: VecEnv) -> None:
    saved = hopper.state_dict()
    action = random_actions(hopper, 1, seed=15, bound=3.0)[0].requires_grad_()
    beyond = action.abs() > 1.0
    assert beyond.any()
    assert not beyond.all()
    step = hopper.step(action)
    found = gradient(step.reward, action).abs() + gradient(step.final_obs, action).abs()
    assert torch.equal(found == 0.0, beyond)
    hopper.load_state_dict(saved)
    clipped = hopper.step(action.detach().clamp(-1.0, 1.0))
    assert torch.equal(clipped.final_obs, step.final_obs)
    assert torch.equal(clipped.reward, step.reward)
    assert torch.equal(step.action, action)


@pytest.mark.parametrize("size", [1e3, 1e20, 3e38])
def test_huge_actions_of_float32_act_as_clipped_ones(size: float, short: VecEnv) -> None:
    action = torch.linspace(-1.0, 1.0, WORLDS, device=short.spec.device)[:, None]
    short.reset(seed=20)
    found = outcomes(short, (size * action)[None])
    short.reset(seed=20)
    assert_same(found, outcomes(short, action.sign()[None]))
    assert not found["diverged"].any()


# ------------------------------------------------------------------------------------------------------ diverged worlds

FALL = {"height": 2000.0, "speed": -1e5}
"""In the air for the first step; in the second it hits the ground, where forces and velocities exceed all bounds."""


def throw(env: VecEnv, world: int) -> None:
    """Drop a hopper so fast that its contact cannot be integrated."""

    def edit(state: dict[str, Tensor]) -> None:
        state["q"][world, 1], state["v"][world, 1] = FALL["height"], FALL["speed"]

    change(env, edit)


@pytest.mark.parametrize("value", [1e9, -1e30, math.inf, math.nan])
@pytest.mark.parametrize("group", ["q", "v"])
def test_a_diverged_world_is_terminated_and_reset(group: str, value: float, hopper: VecEnv) -> None:
    def edit(state: dict[str, Tensor]) -> None:
        state[group][3, 2] = value

    change(hopper, edit)
    set_time_left(hopper, [3], 1)
    step = hopper.step(random_actions(hopper, 1, seed=16)[0])
    for flags in (step.diverged, step.terminated, step.done):
        assert flags.tolist() == [i == 3 for i in range(WORLDS)]
    assert not step.truncated.any()
    assert (step.final_obs[3] == 0.0).all()
    assert step.reward[3] == 0.0
    assert (step.reward_terms[3] == 0.0).all()
    assert torch.isfinite(torch.cat([step.obs, step.final_obs, hopper.state.q, hopper.state.v], dim=-1)).all()
    following = outcomes(hopper, random_actions(hopper, 3, seed=17))
    assert not following["diverged"].any()
    assert following["episode_length"][:, 3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_diverged_world_leaves_the_gradients_of_all_others_alone(dtype: torch.dtype, device: torch.device) -> None:
    env = make("hopper", num_envs=WORLDS, dtype=dtype, device=device)

    def gradients(diverged: bool) -> list[Tensor]:
        env.reset(seed=18)
        if diverged:
            throw(env, 3)
        actions, steps = record(env, 4)
        assert [step.diverged.tolist() for step in steps] == [
            [diverged and t == 1 and i == 3 for i in range(6)] for t in range(4)
        ]
        total = sum(step.reward.sum() + step.final_obs.sum() + step.obs.sum() for step in steps)
        assert isinstance(total, Tensor)
        return list(torch.autograd.grad(total, actions))

    others = [i for i in range(WORLDS) if i != 3]
    found, wanted = gradients(diverged=True), gradients(diverged=False)
    for got, without in zip(found, wanted, strict=True):
        assert torch.isfinite(got).all()
        assert torch.equal(got[others], without[others])
    assert (found[1][3] == 0.0).all(), "no reward or observation depends on the action in which a world diverges"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_actions_are_refused_or_make_their_world_diverge(value: float, hopper: VecEnv) -> None:
    before, action = hopper.state_dict(), random_actions(hopper, 1, seed=19)[0]
    action[4, 1] = value
    if hopper.spec.device.type == "cpu":
        with pytest.raises(ValueError, match=rf"action \[4, 1\] is {value}; actions must be finite"):
            hopper.step(action)
        assert_same(hopper.state_dict(), before)
    else:
        assert hopper.step(action).diverged.tolist() == [i == 4 for i in range(WORLDS)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_a_saved_state_of_another_type_is_refused(dtype: torch.dtype) -> None:
    env = make("cartpole", num_envs=2)
    saved = env.state_dict()
    with pytest.raises(InputError, match=f"'q' of a saved cartpole must be torch.float32 or float64, got {dtype}"):
        env.load_state_dict({**saved, "q": saved["q"].to(dtype)})
