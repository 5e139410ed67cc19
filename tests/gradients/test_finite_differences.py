"""Every derivative of a step, output by output and input by input, against central differences.

The derivative of one output group by one input group is compared along random directions, together as one vector, so
that a direction along which it happens to vanish does not spoil the ratio. A difference counts only if the perturbed
runs take the same side of every minimum, maximum, comparison and absolute value in every substep as the run between
them: there the step is smooth, and no state needs to be kept away from kinks by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.physics.substep import ForceLaws
from gradients.cases import JOINTS, SUBSTEP, Case
from gradients.chains import INPUTS, OUTPUTS, Chain, Groups, Run, relative
from gradients.contact_cases import CONTACTS
from support.marks import keep

EPS = np.array([1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 3e-7])
"""Truncation error dominates on the left and rounding on the right; the best lies between."""

DIRECTIONS = 2
TOLERANCE = 1e-6
"""Relative. At the best eps, truncation (eps²) and rounding (1e-16 / eps) leave 7e-8 at most, 1e-9 as a rule."""

ACTIVE = 1e-6
"""Relative change of the outcome by which a feature shows; rounding would leave 1e-13."""

Pairs = dict[tuple[str, str], np.ndarray]
"""By output and input."""


@dataclass(frozen=True)
class Directions:
    """Unit directions [directions, size] in every input group that is not empty."""

    along: Groups

    def around(self, x: Groups) -> Groups:
        """`x` itself, then `x` ± eps along every direction, one row each."""
        shape = self.shape
        batch = {}
        for name in INPUTS:
            rows = np.broadcast_to(x[name], (*shape, len(x[name]))).copy()
            if name in self.along:
                signed = np.stack([EPS, -EPS])[:, :, None, None]
                rows[:, :, list(self.along).index(name)] += signed * self.along[name]
            batch[name] = np.concatenate([x[name][None], rows.reshape(np.prod(shape), len(x[name]))])
        return batch

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return 2, len(EPS), len(self.along), DIRECTIONS

    def differences(self, run: Run, weights: Groups) -> Pairs:
        """[eps, directions] of every weighted output by every input, where no kink was crossed."""
        smooth = (run.branches[1:] == run.branches[0]).all(axis=-1).reshape(self.shape).all(axis=(0, 2, 3))
        found = {}
        for out in OUTPUTS:
            plus, minus = (run.end[out][1:] @ weights[out]).reshape(self.shape)
            for i, name in enumerate(self.along):
                found[out, name] = ((plus - minus)[:, i] / (2.0 * EPS[:, None]))[smooth]
        return found

    def derivatives(self, chain: Chain, x: Groups, run: Run, weights: Groups) -> Pairs:
        """[directions] of every weighted output by every input."""
        alone = {out: np.outer(np.arange(len(OUTPUTS)) == k, weights[out]) for k, out in enumerate(OUTPUTS)}
        bars = chain.pull(x, run, alone)
        return {(out, name): d @ bars[name][k] for k, out in enumerate(OUTPUTS) for name, d in self.along.items()}


def first(rows: Groups) -> Groups:
    """The unperturbed world."""
    return {name: value[0] if value.ndim > 1 else value for name, value in rows.items()}


def unit_directions(x: Groups, rng: np.random.Generator) -> Directions:
    drawn = {name: rng.standard_normal((DIRECTIONS, len(x[name]))) for name in INPUTS if len(x[name])}
    return Directions({name: d / np.linalg.norm(d, axis=-1, keepdims=True) for name, d in drawn.items()})


def error(analytic: np.ndarray, numeric: np.ndarray) -> float:
    """Relative to the best difference; absolute where all differences are exactly zero."""
    if not np.any(numeric):
        return float(np.abs(analytic).max())
    return min(relative(analytic, row) for row in numeric)


LONG = 0.01
"""Seconds of a single implicit substep, so that what it adds to the mass matrix shows."""

IMPLICIT = [case.implicit for case in (*JOINTS, *CONTACTS)]
QUICK = ("hinges", "servos within bounds", "ball beyond its limit", "connected branches", "sphere sticking")
"""Situations that run for 64 implicit substeps in every test run."""

STIFF = ("coupled joints", "locked joint", "branch connected to the world", "two trees welded", "servo across branches")
"""Situations whose 64 explicit substeps show nothing that one does not."""

EVERY = [
    *((case, 1) for case in (*JOINTS, *CONTACTS)),
    *((case, 64) for case in (*JOINTS, *CONTACTS) if case.name not in STIFF),
    *((case, 1) for case in IMPLICIT),
    *((case, 64) for case in IMPLICIT if case.name.removesuffix(", implicit") in QUICK),
]
REST = [(case, 64) for case in JOINTS if case.name in STIFF] + [
    (case, 64) for case in IMPLICIT if case.name.removesuffix(", implicit") not in QUICK
]


@pytest.mark.parametrize(
    ("case", "steps"), keep(len(EVERY), EVERY + REST), ids=lambda value: getattr(value, "name", str(value))
)
def test_every_derivative_matches_central_differences(case: Case, steps: int) -> None:
    rng = np.random.default_rng(case.seed + 1)
    chain, x = case.chain, case.state()
    directions = unit_directions(x, rng)
    h = LONG if case.laws.implicit and steps == 1 else SUBSTEP
    runs = chain.run(directions.around(x), h, steps)
    weights = {out: rng.standard_normal(runs.end[out].shape[-1]) for out in OUTPUTS}
    numeric = directions.differences(runs, weights)
    assert all(len(rows) >= 2 for rows in numeric.values()), "every difference crosses a kink"
    run = replace(runs, end=first(runs.end), states=[first(state) for state in runs.states])
    analytic = directions.derivatives(chain, x, run, weights)
    errors = {pair: error(analytic[pair], rows) for pair, rows in numeric.items()}
    assert max(errors.values()) < TOLERANCE, errors
    if case.holds is not None:
        states = {name: np.stack([state[name] for state in run.states]) for name in ("q", "v", "u")}
        assert case.holds(case.model, states).all(), "the situation is not the named one in every substep"


@pytest.mark.parametrize(
    "case", [case for case in JOINTS if case.feature or case.laws.extra], ids=lambda case: case.name
)
def test_the_named_feature_makes_a_difference(case: Case) -> None:
    """The derivatives above are of a step in which the feature acts."""
    assert case.feature in case.xml
    without = load_model(case.xml.replace(case.feature, ""))
    x = case.state()
    plain = Chain(without, ForceLaws()).run(x, SUBSTEP, 1).end["v"]
    assert relative(case.chain.run(x, SUBSTEP, 1).end["v"], plain) > ACTIVE


def test_a_control_beyond_its_range_has_no_derivative() -> None:
    [case] = [case for case in JOINTS if case.name == "control beyond its range"]
    chain, x = case.chain, case.state()
    run = chain.run(x, SUBSTEP, 4)
    bars = chain.pull(x, run, {"q": np.ones(3), "v": np.ones(3), "read_0": np.zeros(run.end["read_0"].shape)})
    assert bars["u"][-1] == 0.0
    assert np.all(bars["u"][:-1] != 0.0)
