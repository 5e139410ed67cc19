"""Environments on a GPU: no step synchronizes with the device, and the state round-trips exactly."""

import pytest
import torch

import ahac

pytestmark = pytest.mark.gpu

WORLDS = 64


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", ["hopper", "ant"])
def test_a_rollout_with_resets_and_stiffness_never_synchronizes(name: str) -> None:
    env = ahac.make(name, num_envs=WORLDS, device="cuda", episode_steps=3)
    action = torch.zeros(WORLDS, env.spec.action_size, device="cuda", requires_grad=True)

    def rollout() -> torch.Tensor:
        env.detach()
        total = torch.zeros((), device="cuda")
        for _ in range(5):
            step = env.step(action)
            total = total + step.reward.sum() + env.stiffness(step, "contact").sum() * 1e-6
            env.detach(step.done)
        env.stiffness(step, "dynamics", probes=1)
        return total

    rollout().backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        rollout().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert action.grad is not None
    assert torch.isfinite(action.grad).all()


def test_a_non_finite_action_makes_only_its_own_world_diverge() -> None:
    env = ahac.make("hopper", num_envs=WORLDS, device="cuda")
    action = torch.zeros(WORLDS, 3, device="cuda")
    action[7, 1] = float("nan")
    step = env.step(action)
    assert step.diverged.nonzero().flatten().tolist() == [7]
    assert torch.isfinite(step.obs).all()
    assert torch.isfinite(env.step(torch.zeros_like(action)).obs).all()


def test_state_round_trips_exactly() -> None:
    env = ahac.make("hopper", num_envs=WORLDS, device="cuda", episode_steps=4)
    action = torch.zeros(WORLDS, 3, device="cuda")
    env.step(action)
    saved = env.state_dict()
    first = [env.step(action).obs for _ in range(6)]
    env.load_state_dict(saved)
    assert all(torch.equal(a, env.step(action).obs) for a in first)
