"""Substeps with loops over rows next to the same substeps written out."""

import numpy as np

from ahac.sim import Model
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs

__all__ = ["assert_same_results", "substep_and_adjoint"]

ROUNDING = 1e-11
"""Relative to the largest number; the same forces in another order in float64."""


def substep_and_adjoint(model: Model, laws: ForceLaws) -> tuple[Program, Program]:
    """Return a substep and its adjoint."""
    substep = Programs(model, laws, {}).step().substep
    return substep, adjoint(substep, ["q", "v", "u", "f"])


def assert_same_results(
    looped: tuple[Program, Program], unrolled: tuple[Program, Program], model: Model, spread: float
) -> None:
    """Compare a substep and its adjoint in three random states around the rest pose; only one of them has loops."""
    assert looped[0].graph.calls
    assert not unrolled[0].graph.calls
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(-spread, spread, (3, len(group))) for name, group in looped[1].inputs.items()}
    values["q"] += model.rest_q
    for loop, plain in zip(looped, unrolled, strict=True):
        found, wanted = evaluate(loop, values), evaluate(plain, values)
        for name, expected in wanted.items():
            np.testing.assert_allclose(found[name], expected, rtol=0.0, atol=ROUNDING * np.abs(expected).max())
