"""Twenty iterations of each algorithm give the numbers that were recorded.

A refactoring changes none of them. If an update is meant to change, record them again (see `traces.py`).
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from ahac.algos import short_horizon
from ahac.algos.config import CriticConfig, ShortHorizonConfig
from ahac.nets import optim
from learning.traces import CASES, MARKS, Trace, recorded, settings, trace

ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Relative tolerance. Twenty iterations amplify differences in rounding up to a thousand times."""
LAST_BIT = {torch.float64: 1e-15, torch.float32: 1e-7}
"""Relative perturbation of the weights."""
SOON = 5
"""The iteration after which a changed update is detected."""
ALMOST_ZERO = 1e-9
"""Absolute tolerance."""

Change = Callable[[ShortHorizonConfig], ShortHorizonConfig]


def critic_of(config: ShortHorizonConfig) -> CriticConfig:
    assert config.critic is not None
    return config.critic


CHANGES: dict[str, Change] = {
    "gamma": lambda c: replace(c, gamma=0.98),
    "lambda": lambda c: replace(c, td_lambda=0.949),
    "actor's rate": lambda c: replace(c, actor=replace(c.actor, learning_rate=1.01 * c.actor.learning_rate)),
    "actor's clip": lambda c: replace(c, actor=replace(c.actor, max_grad_norm=1.01 * c.actor.max_grad_norm)),
    "critic's rate": lambda c: replace(
        c, critic=replace(critic_of(c), learning_rate=1.01 * critic_of(c).learning_rate)
    ),
    "critic's clip": lambda c: replace(
        c, critic=replace(critic_of(c), max_grad_norm=1.01 * (critic_of(c).max_grad_norm or 0.0))
    ),
    "target": lambda c: replace(c, critic=replace(critic_of(c), target_alpha=0.21)),
}


def differences(actual: Trace, expected: Trace, rounding: float) -> list[str]:
    """Return the numbers that differ by more than rounding."""
    assert all(list(numbers) == list(expected[i]) for i, numbers in actual.items())
    pairs = {f"{name} at {i}": (x, expected[i][name]) for i, numbers in actual.items() for name, x in numbers.items()}
    return [name for name, (x, y) in pairs.items() if x != pytest.approx(y, rel=rounding, abs=ALMOST_ZERO)]


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_trace_is_unchanged(case: str, dtype: torch.dtype) -> None:
    actual = trace(settings(case), dtype)
    assert [int(i) for i in actual] == list(MARKS)
    assert differences(actual, recorded(case), ROUNDING[dtype]) == []


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
def test_a_changed_last_bit_is_tolerated(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    made, rng = short_horizon.shac_adam, torch.Generator().manual_seed(5)

    def disturbed(network: nn.Module, rate: float, weight_decay: float) -> torch.optim.Adam:
        with torch.no_grad():
            for x in network.parameters():
                x *= 1.0 + LAST_BIT[dtype] * torch.randn(x.shape, generator=rng, dtype=x.dtype)
        return made(network, rate, weight_decay)

    monkeypatch.setattr(short_horizon, "shac_adam", disturbed)
    actual, expected = trace(settings("ahac"), dtype), recorded("ahac")
    assert actual != expected
    assert differences(actual, expected, ROUNDING[dtype]) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_update_is_detected(change: str) -> None:
    actual = trace(CHANGES[change](settings("shac")), torch.float64, SOON)
    assert differences(actual, recorded("shac"), ROUNDING[torch.float64])


@pytest.mark.parametrize("betas", [(0.71, 0.95), (0.7, 0.951)])
def test_changed_adam_coefficients_are_detected(monkeypatch: pytest.MonkeyPatch, betas: tuple[float, float]) -> None:
    monkeypatch.setattr(optim, "BETAS", betas)
    actual = trace(settings("shac"), torch.float64, SOON)
    assert differences(actual, recorded("shac"), ROUNDING[torch.float64])
