"""Environments on a GPU: no step synchronizes with the device, and the state round-trips exactly."""

import pytest
import torch

import ahac
from ahac.envs import Task, VecEnv, uniform
from ahac.runtime.cuda_graphs import make_executor
from ahac.runtime.stages import stage
from support.remembering import remembering_task

pytestmark = pytest.mark.gpu

WORLDS = 64


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def remembering() -> Task:
    """A task with memory, random numbers in every step, randomized parameters and delays."""
    return remembering_task(randomize={"body_mass:cart": uniform(0.5, 2.0), "actuator_delay": uniform(0.0, 0.07)})


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("task", ["hopper", "ant", remembering()], ids=["hopper", "ant", "remembering"])
def test_a_rollout_with_resets_and_stiffness_never_synchronizes(task: str | Task) -> None:
    env = ahac.make(task, num_envs=WORLDS, device="cuda", episode_steps=3)
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


@pytest.mark.parametrize("task", ["hopper", remembering()], ids=["hopper", "remembering"])
def test_state_round_trips_exactly(task: str | Task) -> None:
    env = ahac.make(task, num_envs=WORLDS, device="cuda", episode_steps=4)
    action = torch.zeros(WORLDS, env.spec.action_size, device="cuda")
    env.step(action)
    saved = env.state_dict()
    first = [env.step(action).obs for _ in range(6)]
    env.load_state_dict(saved)
    assert all(torch.equal(a, env.step(action).obs) for a in first)


class Rollouts:
    """Rollouts with gradients, eagerly or from a CUDA graph."""

    def __init__(self, graphs: bool) -> None:
        self.env = VecEnv(remembering(), num_envs=WORLDS, device="cuda", seed=5)
        self.actions = [torch.full((WORLDS, 1), 0.1 * k, device="cuda", requires_grad=True) for k in range(8)]
        self.executor = make_executor(self.env, [], graphs)

    @stage
    def rollout(self, env: VecEnv) -> tuple[torch.Tensor, ...]:
        env.detach()
        steps = [env.step(action) for action in self.actions]
        total = torch.stack([step.reward for step in steps]).sum() + steps[-1].final_critic_obs.sum()
        return (total.detach(), *torch.autograd.grad(total, self.actions))

    def results(self, count: int) -> list[list[torch.Tensor]]:
        return [[x.clone() for x in self.executor.call(self.rollout, self.env)] for _ in range(count)]


def test_graphs_replay_memory_and_random_numbers_exactly() -> None:
    eager, replayed = Rollouts(graphs=False), Rollouts(graphs=True)
    for wanted, found in zip(eager.results(4), replayed.results(4), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))
    saved = eager.env.state_dict()
    assert all(torch.equal(x, saved[name]) for name, x in replayed.env.state_dict().items())
