"""The co-design example: strengths change under a fixed total, and only where they are trained."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "examples" / "codesign_hopper.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_strengths_are_trained_under_a_fixed_total(example: dict[str, Any]) -> None:
    trainer = example["Trainer"](seed=0, codesign=True, iterations=3)
    policy = [x.detach().clone() for x in trainer.actor.parameters()]
    trainer.train(3)
    strengths = example["divide"](trainer.logits.detach())
    assert strengths.sum().item() == pytest.approx(3.0, rel=1e-5)
    assert (strengths - 1.0).abs().max() > 1e-3
    assert any(not torch.equal(*pair) for pair in zip(policy, trainer.actor.parameters(), strict=True))


def test_strengths_of_the_control_run_stay(example: dict[str, Any]) -> None:
    trainer = example["Trainer"](seed=0, codesign=False, iterations=1)
    trainer.iterate()
    assert torch.equal(example["divide"](trainer.logits), torch.ones(3))


def test_the_gradient_of_strengths_is_that_of_the_rewards(example: dict[str, Any]) -> None:
    """Compare the derivative of the rewards of a few steps with central differences."""

    def total(strengths: torch.Tensor) -> torch.Tensor:
        worlds = example["Hoppers"](seed=0)
        rewards = [worlds.step(torch.full((example["WORLDS"], 3), 0.3), strengths)[0] for _ in range(4)]
        return torch.stack(rewards).mean()

    strengths = torch.ones(3, requires_grad=True)
    (found,) = torch.autograd.grad(total(strengths), strengths)
    for k, unit in enumerate(torch.eye(3)):
        with torch.no_grad():
            expected = (total(strengths + 0.02 * unit) - total(strengths - 0.02 * unit)) / 0.04
        assert found[k].item() == pytest.approx(expected.item(), rel=0.05, abs=2e-3)
