"""No setting of any algorithm may be infinite or NaN."""

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from ahac.algos.config import ActorConfig, CriticConfig, HorizonConfig, ShortHorizonConfig, StiffnessConfig
from ahac.algos.ppo import PPOConfig
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from ahac.core.errors import InputError

KINDS = (ActorConfig, CriticConfig, HorizonConfig, StiffnessConfig, ShortHorizonConfig, PPOConfig, SACConfig, SVGConfig)
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
