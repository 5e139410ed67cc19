"""The part of an algorithm's state that acting needs, saved and loaded on its own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ahac.algos.algorithm import Algorithm
from ahac.algos.finite_checks import check_policy
from ahac.nets.state_dicts import check_state

__all__ = ["load_policy_state"]


def load_policy_state(algo: Algorithm, state: Mapping[str, Tensor]) -> None:
    """Load saved tensors of `algo.policy_state`, and leave critics, optimizers and the generator as they are.

    Raises and changes nothing if the state does not fit or is not finite.
    """
    check_state(algo.policy_state, state)
    check_policy(state)
    for name, value in algo.policy_state.items():
        value.copy_(state[name])
