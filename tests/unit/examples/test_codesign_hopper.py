"""The co-design example: gradients with respect to motor strengths improve designs of a fixed total."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ahac
from ahac.envs import registry
from ahac.training.run import Run

SCRIPT = Path(__file__).parents[3] / "examples" / "codesign_hopper.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def run(example: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Train the policy for many designs a little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry._tasks, "_factories", dict(registry._tasks._factories))
        folder = str(tmp_path_factory.mktemp("runs"))
        yield example["train"]("hopper_designs", example["many_designs"](), 0, num_envs=16, env_steps=500, out=folder)


def test_strengths_keep_their_total_and_bounds(example: dict[str, Any]) -> None:
    strengths = example["divide"](torch.tensor([[0.0, 0.0, 0.0], [9.0, -9.0, -9.0], [-1.0, 0.5, 2.0]]))
    assert torch.allclose(strengths.sum(dim=-1), torch.tensor(3.0))
    assert torch.allclose(strengths[:2], torch.tensor([[1.0, 1.0, 1.0], [example["HIGH"], *[example["LOW"]] * 2]]))


def test_worlds_have_the_motors_of_their_design(example: dict[str, Any], run: Run) -> None:
    """Compare a step with that of a model whose motors have these strengths."""
    strengths = [0.6, 0.7, 1.7]
    step = example["Hoppers"](run, 2, copies=1).step(torch.tensor([strengths, [1.0, 1.0, 1.0]]))
    env = ahac.make(example["one_design"](strengths), num_envs=2, num_threads=1)
    env.set_buffers([step.state.q, step.state.v, *env.buffers[2:]])
    expected = env.step(step.action)
    same, other = (torch.cat([x.next_state.v, x.final_obs[:, :11]], dim=-1) for x in (step, expected))
    assert torch.allclose(same[0], other[0], rtol=1e-4, atol=1e-4)
    assert (same[1] - other[1]).abs().max() > 0.01


def test_the_policy_sees_the_design_also_after_a_reset(example: dict[str, Any], run: Run) -> None:
    hoppers, designs = example["Hoppers"](run, 1, copies=2), torch.tensor([[0.6, 0.7, 1.7]])
    seen = hoppers.step(designs).final_obs[:, -3:]
    inputs: list[Tensor] = []
    hoppers.normalize = lambda obs: (inputs.append(obs), obs)[1]
    hoppers.env.reset()
    hoppers.step(designs)
    assert torch.allclose(inputs[0][:, -3:], seen, atol=1e-6)


def test_the_gradient_is_that_of_the_value(example: dict[str, Any], run: Run) -> None:
    """Compare the derivative with central differences."""

    def value(design: Tensor) -> Tensor:
        return example["Hoppers"](run, 1, copies=4).values(design[None], window=8)[0]

    design = torch.tensor([0.8, 1.2, 1.0], requires_grad=True)
    (found,) = torch.autograd.grad(value(design), design)
    with torch.no_grad():
        expected = torch.stack([value(design + d) - value(design - d) for d in 0.005 * torch.eye(3)]) / 0.01
    assert found.norm() > 0.1
    assert torch.allclose(found, expected, rtol=0.05, atol=0.02 * found.norm().item())


@torch.no_grad()
def test_nothing_counts_after_a_fall(example: dict[str, Any], run: Run) -> None:
    first, others = (example["Hoppers"](run, 1, copies=1) for _ in range(2))
    for hoppers in (first, others):
        q, *rest = hoppers.env.buffers
        hoppers.env.set_buffers([q + torch.tensor([0.0, -0.5, 1.57, 0.0, 0.0, 0.0]), *rest])  # lie at 0.75 m
    step = first.step(torch.ones(1, 3))
    assert step.terminated.all()
    assert others.values(torch.ones(1, 3), window=3).item() == pytest.approx(step.reward.item(), rel=1e-5)


def test_gradient_ascent_raises_the_value(example: dict[str, Any], run: Run) -> None:
    starts = torch.tensor([[0.0, 0.0, 0.0], [0.5, -0.5, 0.0]])
    designs = [example["divide"](starts), example["improve"](run, starts, updates=4)]
    first, last = (example["Hoppers"](run, 2, seed=3).values(x) for x in designs)
    assert (last > first).all()
    assert torch.allclose(designs[1].sum(dim=-1), torch.tensor(3.0))


def test_returns_are_those_of_whole_episodes(example: dict[str, Any], run: Run) -> None:
    """Compare with a sum of rewards in a world that falls."""
    designs = torch.tensor([[0.4, 0.4, 2.2]])
    found = example["Hoppers"](run, 1, copies=1).returns(designs)
    hoppers, total, step = example["Hoppers"](run, 1, copies=1), 0.0, None
    hoppers.env.reset()
    while step is None or not step.done:
        with torch.no_grad():
            step = hoppers.step(designs)
        total += step.reward.item()
    assert found.item() == pytest.approx(total, rel=1e-3, abs=1e-3)
