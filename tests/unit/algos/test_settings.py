"""No setting of any algorithm may be infinite or NaN, and those of SAPO, reuse and mixing are checked."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from ahac.algos.config import (
    ActorConfig,
    CriticConfig,
    EntropyConfig,
    HorizonConfig,
    ShortHorizonConfig,
    StiffnessConfig,
    UpdateConfig,
)
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPOConfig
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from ahac.core.bundle import BundleConfig
from ahac.core.errors import InputError

FIRST_ORDER = (
    ActorConfig, CriticConfig, HorizonConfig, StiffnessConfig, UpdateConfig, EntropyConfig, BundleConfig,
    ShortHorizonConfig,
)  # fmt: skip
KINDS = (*FIRST_ORDER, PPOConfig, SACConfig, SVGConfig, FastTD3Config)
NON_FINITE = [float("nan"), float("inf"), -float("inf")]


def numbers(kind: type) -> list[str]:
    """Names of the settings that are numbers, or may be."""
    hints = get_type_hints(kind)
    return [item.name for item in fields(kind) if {int, float} & {hints[item.name], *get_args(hints[item.name])}]


CASES = [(kind, name) for kind in KINDS for name in numbers(kind)]


@pytest.mark.parametrize("value", NON_FINITE)
@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_number_that_is_not_finite_is_refused_by_name(kind: type, name: str, value: float) -> None:
    default = getattr(kind(), name)
    many = isinstance(default, tuple) or "hidden" in name
    for given in [(value, 2.0), (-5.0, value)] if many else [value]:
        with pytest.raises(InputError, match=name if "hidden" not in name else "hidden layer"):
            kind(**{name: given})


def test_all_numbers_are_checked() -> None:
    assert {"target_entropy", "log_std_bounds", "init_alpha"} <= set(numbers(SACConfig))
    assert {"learning_rate", "plateau_tolerance", "target_alpha", "max_grad_norm"} <= set(numbers(CriticConfig))
    assert len(CASES) > 60


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (ActorConfig, {"activation": "relu"}, r'actor\.activation must be "elu" or "silu", got \'relu\''),
        (ActorConfig, {"weight_decay": -0.1}, r"actor\.weight_decay"),
        (
            ActorConfig,
            {"log_std_bounds": (1.0, 1.0)},
            r"actor\.log_std_bounds must be two different numbers, the smaller",
        ),
        (
            ActorConfig,
            {"log_std_bounds": (2.0, 1.0)},
            r"actor\.log_std_bounds must be two different numbers, .* got \(2",
        ),
        (ActorConfig, {"log_std_bounds": 3}, r"actor\.log_std_bounds must be two numbers, .* got 3"),
        (SACConfig, {"log_std_bounds": (1.0, 1.0)}, r"log_std_bounds must be two different numbers"),
        (SACConfig, {"log_std_bounds": (1.0,)}, r"log_std_bounds must be two numbers, .* got \(1.0,\)"),
        (FastTD3Config, {"exploration_std": ("a", "b")}, r"exploration_std must be a finite number"),
        (StiffnessConfig, {"signal": [[1]]}, r"no stiffness signal named \[\[1\]\]"),
        (ActorConfig, {"state_std": True, "init_log_std": 2.5}, r"actor\.init_log_std must be within .* -5\.0 to 2\.0"),
        (ActorConfig, {"hidden": 8}, r"actor\.hidden must be the widths of the hidden layers, .* got 8"),
        (CriticConfig, {"activation": "relu"}, r"critic\.activation"),
        (HorizonConfig, {"speed": 0.0}, r"horizon\.speed must be more than 0"),
        (CriticConfig, {"actor_value": "max"}, r'critic\.actor_value must be "min" or "mean", got \'max\''),
        (UpdateConfig, {"epochs": 0}, r"update\.epochs"),
        (UpdateConfig, {"gradient": "both"}, r'update\.gradient must be "analytic" or "mixed", got \'both\''),
        (UpdateConfig, {"clip_low": 1.5}, r"update\.clip_low"),
        (UpdateConfig, {"kl_coef": -1.0}, r"update\.kl_coef"),
        (EntropyConfig, {"init_temperature": 0.0}, r"entropy\.init_temperature must be more than 0"),
        (EntropyConfig, {"target": 0.0}, r"entropy\.target must not be 0"),
        (BundleConfig, {"branches": 3}, r"bundle\.branches must be even, .* got 3; use for example 8"),
        (BundleConfig, {"branches": -2}, r"bundle\.branches"),
        (BundleConfig, {"load": -1.0}, r"bundle\.load"),
        (BundleConfig, {"branches": 2, "position_noise": 0.0, "velocity_noise": 0.0}, r"are both 0"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(kind: type, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**given)


def test_a_constant_standard_deviation_has_no_bounds() -> None:
    assert ActorConfig(init_log_std=3.0).init_log_std == 3.0
