"""The co-design example: gradients of the return with respect to motor strengths improve designs of a fixed total."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import ahac
from ahac.training.run import Run

SCRIPT = Path(__file__).parents[3] / "examples" / "codesign_hopper.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def run(example: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = str(tmp_path_factory.mktemp("runs"))
    return example["train"]("hopper_designs", example["many_designs"](), 0, num_envs=16, iterations=2, out=folder)


def test_strengths_keep_their_total(example: dict[str, Any]) -> None:
    strengths = example["divide"](torch.tensor([[0.0, 0.0, 0.0], [2.0, -1.0, 0.5]]))
    assert torch.allclose(strengths.sum(dim=-1), torch.tensor(3.0))
    assert torch.allclose(strengths[0], torch.ones(3))
    assert strengths.min() > example["LOW"]


def test_the_gradient_is_that_of_rewards_and_value(example: dict[str, Any], run: Run) -> None:
    """Compare the derivative of the value of a window with central differences."""

    def value(design: torch.Tensor) -> torch.Tensor:
        return example["Designs"](run, 8).value(design.expand(8, 3)).mean()

    design = torch.tensor([0.8, 1.2, 1.0], requires_grad=True)
    (found,) = torch.autograd.grad(value(design), design)
    for k, unit in enumerate(torch.eye(3)):
        with torch.no_grad():
            expected = (value(design + 0.01 * unit) - value(design - 0.01 * unit)) / 0.02
        assert found[k].item() == pytest.approx(expected.item(), rel=0.05, abs=5e-3)


def test_gradient_ascent_raises_the_value(example: dict[str, Any], run: Run) -> None:
    starts = torch.zeros(2, 3)
    designs = example["improve"](run, starts, updates=5, copies=8)
    first, last = (
        example["Designs"](run, 16).value(x.repeat_interleave(8, dim=0)).mean() for x in (torch.ones(2, 3), designs)
    )
    assert last > first
    assert torch.allclose(designs.sum(dim=-1), torch.tensor(3.0))


def test_worlds_have_the_motors_of_their_design(example: dict[str, Any], run: Run) -> None:
    """Compare a step with that of a model whose motors are of this strength."""
    strengths = [0.6, 0.7, 1.7]
    worlds = example["Designs"](run, 2)
    step = worlds.step(torch.tensor([strengths, [1.0, 1.0, 1.0]]))
    env = ahac.make(example["one_design"](strengths), num_envs=2, num_threads=1)
    env.set_buffers([step.state.q, step.state.v, *env.buffers[2:]])
    expected = env.step(step.action)
    for x, y in ((step.next_state.v, expected.next_state.v), (step.reward, expected.reward)):
        assert torch.allclose(x[0], y[0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(step.next_state.v[1], expected.next_state.v[1], rtol=1e-2, atol=1e-3)
    assert (worlds.returns(torch.ones(2, 3)) != 0.0).all()
