"""⟨J a, w⟩ = ⟨a, Jᵀ w⟩ for one substep, and the symmetry of its second derivatives.

The adjoint program computes Jᵀ w, which is linear in w. Its own adjoint with respect to w is therefore J a: exact, with
no difference quotient, and made by rules that never saw the first transposition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ahac.sim.compiler.program import Program, adjoint, evaluate
from gradients.cases import JOINTS, SUBSTEP, Case
from gradients.chains import INPUTS, Chain, Groups, relative
from gradients.contact_cases import CONTACTS, standing
from support.marks import keep

STATE = ("q", "v")
IDENTITY = 1e-10
"""Relative. Both sides are sums of the same products in another order; rounding leaves 1e-15."""

SYMMETRY = 1e-8
"""Relative. Rounding leaves 1e-15."""

DIFFERENCES = 1e-6
"""Relative; truncation and rounding at the best eps leave 1e-9, also for second derivatives."""

EPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


@dataclass(frozen=True)
class Substep:
    """A substep, its adjoint, and the state they are taken at."""

    program: Program
    back: Program
    at: Groups


def substep_of(case: Case | str) -> Substep:
    """Of one of the small models, or of one of Gymnasium's robots, by name."""
    if isinstance(case, Case):
        chain, x = case.chain, case.state()
    else:
        model, x = standing(case, np.random.default_rng(3))
        chain = Chain(model)
    still = {f"{name}_bar": np.zeros_like(value) for name, value in chain.act.items()}
    return Substep(chain.substep, chain.substep_back, {**chain.start(x, SUBSTEP), **still})


def draw(at: Groups, names: tuple[str, ...], rng: np.random.Generator) -> Groups:
    return {name: rng.standard_normal(at[name].shape) for name in names}


def bars(values: Groups, suffix: str = "_bar") -> Groups:
    return {name + suffix: value for name, value in values.items()}


def flat(values: Groups) -> np.ndarray:
    return np.concatenate(list(values.values()))


def outcome(values: Groups) -> np.ndarray:
    """All but activations."""
    return flat({name: value for name, value in values.items() if name != "act"})


def difference(program: Program, at: Groups, along: Groups, eps: float) -> np.ndarray:
    """Central difference of all outputs along a direction in the inputs."""
    ends = [outcome(evaluate(program, {**at, **{k: at[k] + e * d for k, d in along.items()}})) for e in (eps, -eps)]
    return (ends[0] - ends[1]) / (2.0 * eps)


IMPLICIT = [case.implicit for case in (*JOINTS, *CONTACTS)]
QUICK = ("two trees welded", "dry friction", "ellipsoid sliding", "cylinder sticking", "contact law")
FIRST = [case for case in IMPLICIT if case.name.removesuffix(", implicit") in QUICK]
ALL = [*JOINTS, *CONTACTS, "ant", "humanoid", *FIRST, *(case for case in IMPLICIT if case not in FIRST)]


@pytest.mark.parametrize(
    "case", keep(len(ALL) - len(IMPLICIT) + len(FIRST), ALL), ids=lambda case: getattr(case, "name", case)
)
def test_the_adjoint_is_the_transposed_derivative(case: Case | str) -> None:
    step, rng = substep_of(case), np.random.default_rng(7)
    forth = adjoint(step.back, ["q_bar", "v_bar"])
    a, w = draw(step.at, INPUTS, rng), draw(step.at, STATE, rng)
    pulled = flat(evaluate(step.back, {**step.at, **bars(w)}))
    # J a does not depend on w; any will do.
    pushed = flat(evaluate(forth, {**step.at, **bars(draw(step.at, STATE, rng)), **bars(a, "_bar_bar")}))
    scale = np.linalg.norm(pulled) * np.linalg.norm(flat(a))
    assert abs(pushed @ flat(w) - pulled @ flat(a)) < IDENTITY * scale
    assert min(relative(difference(step.program, step.at, a, eps), pushed) for eps in EPS) < DIFFERENCES


CURVED = (
    "balls", "muscles", "ball springs", "fluid", "sphere sticking", "ellipsoid sliding", "box sliding", "contact law",
)  # fmt: skip


SECOND = [case for case in (*JOINTS, *CONTACTS) if case.name in CURVED]


@pytest.mark.parametrize(
    "case", keep(len(SECOND), [*SECOND, *(case.implicit for case in SECOND)]), ids=lambda case: case.name
)
def test_second_derivatives_are_symmetric(case: Case) -> None:
    """With y the substep's outcome, H = ∂²(w·y)/∂x∂x: an adjoint of the adjoint, through the solve of the substep."""
    step, rng = substep_of(case), np.random.default_rng(9)
    again = adjoint(step.back, INPUTS)
    w = draw(step.at, STATE, rng)
    a = draw(step.at, INPUTS, rng)
    b = draw(step.at, INPUTS, rng)
    at = {**step.at, **bars(w)}
    curved_a, curved_b = (flat(evaluate(again, {**at, **bars(along, "_bar_bar")})) for along in (a, b))
    scale = np.linalg.norm(curved_a) * np.linalg.norm(flat(b))
    assert abs(curved_a @ flat(b) - curved_b @ flat(a)) < SYMMETRY * scale
    assert min(relative(difference(step.back, at, a, eps), curved_a) for eps in EPS) < DIFFERENCES
