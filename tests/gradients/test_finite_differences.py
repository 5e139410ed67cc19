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
from gradients.cases import CONTACTS, JOINTS, SUBSTEP, Case
from gradients.chains import INPUTS, OUTPUTS, Groups, relative

from ahac.sim import Model, load_model

STEPS = (1, 64)
EPS = np.array([1e-2, 1e-3, 1e-4, 1e-5, 3e-6, 1e-6, 3e-7])
"""Truncation error dominates on the left and rounding on the right; the best lies between."""

DIRECTIONS = 3
TOLERANCE = 1e-6
"""Relative. At the best eps, truncation (eps²) and rounding (1e-16 / eps) leave at most about 1e-8."""


@dataclass(frozen=True)
class Comparison:
    """Derivatives along directions, [directions] per pair of output and input."""

    analytic: dict[tuple[str, str], np.ndarray]
    numeric: dict[tuple[str, str], np.ndarray]
    """[eps, directions], only those that crossed no kink."""
    states: Groups
    """Of the unperturbed run, [substeps, size]."""


def compare(case: Case, steps: int, rng: np.random.Generator) -> Comparison:
    """Both derivatives of every output by every input; row 0 of the batch is the run they are taken at."""
    chain, x = case.chain(steps), case.state()
    named = [name for name in INPUTS if len(x[name])]
    along = {name: rng.standard_normal((DIRECTIONS, len(x[name]))) for name in named}
    along = {name: d / np.linalg.norm(d, axis=-1, keepdims=True) for name, d in along.items()}
    signed = np.stack([EPS, -EPS])[:, :, None, None]
    shape = (2, len(EPS), len(named), DIRECTIONS)
    batch = {}
    for name in INPUTS:
        rows = np.broadcast_to(x[name], (*shape, len(x[name]))).copy()
        if name in named:
            rows[:, :, named.index(name)] += signed * along[name]
        batch[name] = np.concatenate([x[name][None], rows.reshape(np.prod(shape), len(x[name]))])
    run = chain.run(batch)
    smooth = (run.branches[1:] == run.branches[0]).all(axis=-1).reshape(shape).all(axis=(0, 2, 3))
    weights = {out: rng.standard_normal(run.end[out].shape[-1]) for out in OUTPUTS}
    zero = {out: np.zeros((len(OUTPUTS), len(weights[out]))) for out in OUTPUTS}
    for k, out in enumerate(OUTPUTS):
        zero[out][k] = weights[out]
    base = replace(run, states=[{k: s[k][0] for k in s} for s in run.states], end={k: v[0] for k, v in run.end.items()})
    bars = chain.pull({k: v[0] for k, v in batch.items()}, base, zero)
    analytic, numeric = {}, {}
    for k, out in enumerate(OUTPUTS):
        plus, minus = (run.end[out][1:] @ weights[out]).reshape(shape)
        for i, name in enumerate(named):
            analytic[out, name] = along[name] @ bars[name][k]
            numeric[out, name] = ((plus - minus)[:, i] / (2.0 * EPS[:, None]))[smooth]
    states = {key: np.stack([s[key] for s in base.states]) for key in ("q", "v")}
    return Comparison(analytic, numeric, states)


def check(case: Case, steps: int) -> None:
    found = compare(case, steps, np.random.default_rng(case.seed + 1))
    assert min(len(n) for n in found.numeric.values()) >= 2, "every difference crosses a kink"
    errors = {
        pair: min(relative(found.analytic[pair], row) for row in rows) if np.any(rows) else np.abs(found.analytic[pair]).max()
        for pair, rows in found.numeric.items()
    }
    assert max(errors.values()) < TOLERANCE, errors
    if case.holds is not None:
        assert case.holds(case.model, found.states).all(), "the situation is not the named one in every substep"
