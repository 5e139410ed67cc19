"""The derived adjoint of one substep against the one written by hand in `closed_form`.

The derived one is ambient: four numbers per quaternion. Its part along the sphere of unit quaternions is what the
tangent-space one describes:  θ̄ = ½ (q⊗)ᵀ q̄  and back  q̄ = 2 q ⊗ (0, θ̄).
"""

from __future__ import annotations

import numpy as np
import pytest

from ahac.sim import Model
from ahac.sim.model.types import JointKind
from gradients import closed_form
from gradients.cases import JOINTS, Case
from gradients.chains import Chain, relative
from gradients.contact_cases import CONTACTS, standing

TOLERANCE = 1e-9
"""Relative. Two different orders of the same arithmetic; rounding through the solve leaves 6e-14."""

STEP = 0.05
"""Seconds; long, so that what the dynamics adds to an adjoint is as large as what is handed through."""

COVERED = (
    "hinges", "slides", "balls", "free", "several joints on one body", "two trees", "armature", "damping",
    "below limits", "above limits", "sphere sticking", "sphere sliding", "capsule sticking", "capsule sliding",
    "box sticking", "tilted plane",
)  # fmt: skip
"""Situations that consist of what `closed_form` knows."""


def flatten(model: Model, q: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """From an ambient adjoint of q to a tangent one, [nv]."""
    out = np.zeros(model.nv)
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            at = slice(joint.q, joint.q + 4)
            out[joint.v : joint.v + 3] = closed_form.tangent(q[at]).T @ bar[at]
        else:
            out[joint.v] = bar[joint.q]
    return out


def raise_up(model: Model, q: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """From a tangent adjoint to an ambient one that has no part along q, [nq]."""
    out = np.zeros(model.nq)
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            at = slice(joint.q, joint.q + 4)
            out[at] = 4.0 * closed_form.tangent(q[at]) @ bar[joint.v : joint.v + 3]
        else:
            out[joint.q] = bar[joint.v]
    return out


def lengths(model: Model, q: np.ndarray) -> np.ndarray:
    """[nq]: of each coordinate's quaternion; one elsewhere."""
    out = np.ones(model.nq)
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            out[joint.q : joint.q + 4] = np.linalg.norm(q[joint.q : joint.q + 4])
    return out


@pytest.mark.parametrize("seeded", ["q", "v"])
@pytest.mark.parametrize(
    "case",
    [*(c for c in (*JOINTS, *CONTACTS) if c.name in COVERED), "ant", "hopper"],
    ids=lambda case: getattr(case, "name", case),
)
def test_the_derived_adjoint_is_the_closed_form(case: Case | str, seeded: str) -> None:
    """From q̄' alone and from v̄' alone, so that neither hides behind the other."""
    rng = np.random.default_rng(11)
    model, x = standing(case, rng) if isinstance(case, str) else (case.model, case.state())
    chain = case.chain if isinstance(case, Case) else Chain(model)
    run = chain.run(x, STEP, 1)
    seeds = {name: rng.standard_normal(run.end[name].shape) * (name == seeded) for name in ("q", "v")}
    got = chain.pull(x, run, {**seeds, "read_0": np.zeros(run.end["read_0"].shape)})
    at = run.states[0]
    wanted = closed_form.adjoint(model, at, STEP, flatten(model, run.end["q"], seeds["q"]), seeds["v"])
    # A quaternion of another length makes the same rotation: its adjoint is that of the unit one, over the length.
    got["q"] = got["q"] * lengths(model, x["q"])
    wanted["q"] = raise_up(model, at["q"], wanted["q"])
    assert {name: error for name in got if (error := relative(got[name], wanted[name])) > TOLERANCE} == {}
