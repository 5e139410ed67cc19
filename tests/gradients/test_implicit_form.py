"""The traced implicit step, its sparse factor and its derived adjoint against the dense matrices of `implicit_form`."""

from __future__ import annotations

import numpy as np
import pytest

from ahac.sim.physics import implicit_contact
from gradients import implicit_form
from gradients.cases import JOINTS, Case, observe
from gradients.chains import Chain, relative
from gradients.contact_cases import CONTACTS, standing
from gradients.test_closed_form import flatten, lengths, raise_up
from support.integrators import IMPLICIT
from support.marks import keep

TOLERANCE = 1e-9
"""Relative, of accelerations and of λ: two orders of the same arithmetic. Rounding through the solve leaves 1e-12."""

DIFFERENCED = 1e-7
"""Relative, where the textbook's residual is differenced."""

STEP = 0.02
"""Seconds; long, so that h D + h² K is as large as the mass matrix or larger."""

COVERED = (
    "hinges", "balls", "free", "several joints on one body", "two trees", "armature", "damping", "below limits",
    "above limits", "inside limits", "springs", "ball springs", "free spring", "servos", "control beyond its range",
    "servos within bounds", "servo beyond its force range", "servos beyond a joint's range", "servos a little beyond",
    "servo across branches", "ball inside its limit", "ball beyond its limit", "dry friction",
    "dry friction, almost stuck", "coupled joints", "locked joint", "connected branches",
    "branch connected to the world", "two trees welded", "motors on ball and free joints", "fixed tendon",
    "sphere sticking", "sphere sliding", "capsule sticking", "capsule sliding", "box sticking", "box sliding",
    "mesh sticking", "tilted plane",
)  # fmt: skip
"""Situations that consist of what `implicit_form` knows."""

CASES = [case.implicit for case in (*JOINTS, *CONTACTS) if case.name in COVERED]
LOOPED = ("box sticking, implicit", "capsule sliding, implicit", "tilted plane, implicit")
QUICK = ("balls", "servo across branches", "two trees welded", "connected branches", "box sticking")
ADJOINTS = sorted(CASES, key=lambda case: case.name.removesuffix(", implicit") not in QUICK)


def situation(case: Case | str) -> tuple[Chain, dict[str, np.ndarray]]:
    """A chain and its start; of one of Gymnasium's robots on its default ground, by name."""
    if isinstance(case, Case):
        return case.chain, case.state()
    model, x = standing(case, np.random.default_rng(11), implicit=True)
    return Chain(model, IMPLICIT), x


@pytest.mark.parametrize("case", [*CASES, "ant", "hopper"], ids=lambda case: getattr(case, "name", case))
def test_acceleration_solves_the_dense_system(case: Case | str) -> None:
    chain, x = situation(case)
    run = chain.run(x, STEP, 1)
    at = run.states[0]
    found = (run.end["v"] - at["v"]) / STEP
    total = implicit_form.system(chain.model, at, STEP)
    assert relative(total.matrix @ found, total.force) < TOLERANCE
    assert relative(found, np.linalg.solve(total.matrix, total.force)) < TOLERANCE * np.linalg.cond(total.matrix)


@pytest.mark.parametrize(
    "case", keep(len(QUICK), [*ADJOINTS, "ant", "hopper"]), ids=lambda case: getattr(case, "name", case)
)
def test_the_derived_adjoint_is_that_of_the_dense_system(case: Case | str) -> None:
    chain, x = situation(case)
    model, rng = chain.model, np.random.default_rng(12)
    run = chain.run(x, STEP, 1)
    seeds = {name: rng.standard_normal(run.end[name].shape) for name in ("q", "v")}
    got = chain.pull(x, run, {**seeds, "read_0": np.zeros(run.end["read_0"].shape)})
    at = run.states[0]
    wanted = implicit_form.adjoint(model, at, STEP, flatten(model, run.end["q"], seeds["q"]), seeds["v"])
    got["q"] = got["q"] * lengths(model, x["q"])
    wanted["q"] = raise_up(model, at["q"], wanted["q"])
    assert relative(got["f"], wanted["f"]) < TOLERANCE
    assert {name: error for name in got if (error := relative(got[name], wanted[name])) > DIFFERENCED} == {}


@pytest.mark.parametrize("case", [case for case in CASES if case.name in LOOPED], ids=lambda case: case.name)
def test_points_in_a_loop_are_those_one_by_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots with many contact points add them up in a loop; here one with few does."""
    plain, x = Chain(case.model, case.laws, {"observed": observe}), case.state()
    monkeypatch.setattr(implicit_contact, "LOOPED_FROM", 1)
    looped = Chain(case.model, case.laws, {"observed": observe})
    assert looped.substep.graph.calls
    assert not plain.substep.graph.calls
    runs = [chain.run(x, STEP, 3) for chain in (looped, plain)]
    rng = np.random.default_rng(13)
    seeds = {name: rng.standard_normal(value.shape) for name, value in runs[0].end.items()}
    bars = [chain.pull(x, run, seeds) for chain, run in zip((looped, plain), runs, strict=True)]
    for got, wanted in ((runs[0].end, runs[1].end), bars):
        assert {name: error for name in got if (error := relative(got[name], wanted[name])) > TOLERANCE} == {}
