"""A ball thrown against a wall: gradients of its final position with respect to the throwing angle.

The policy is a = θ + w with w ~ N(0, σ²). The return is R_H = 1 / ‖s_H − target‖, H control steps after the throw.
World 0 has no noise; its return is the baseline. The model is `assets/ball.xml`, run in our simulator.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from importlib.resources import as_file, files

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_finite, check_int, check_non_empty, check_positive
from ahac.gradients import lemma
from ahac.gradients.estimators import agreement, estimate, gaussian_scores, zeroth_order
from ahac.gradients.progress import Track, silent
from ahac.gradients.study import Study
from ahac.sim import ContactConstants, Model, Simulator, State, load_model

__all__ = ["BallSettings", "ball_model", "study"]

KIND = "ball"
DT = 1.0 / 60.0
CONTACT_THRESHOLD = 1e-9
"""Velocity change per step beyond that of gravity [m/s], above which the ball is in contact."""
SHOWN = 32
"""Number of worlds whose paths are saved."""


@dataclass(frozen=True, kw_only=True)
class BallSettings:
    """Settings of the ball study."""

    samples: int = 1024
    """Number of throws N."""
    horizon: int = 40
    """Longest horizon H [control steps of 1/60 s]."""
    angle: float = -0.25 * math.pi
    """Throwing angle θ above the x axis [rad]."""
    speed: float = math.sqrt(50.0)
    """Initial speed [m/s]."""
    sigma: float = 0.1
    """Standard deviation σ of the angle [rad]."""
    stiffness: float = 1e5
    """Contact stiffness ke [N/m]; damping and viscosity scale with it."""
    substeps: int = 8
    """Integration steps per control step."""
    stiffnesses: tuple[float, ...] = (1e3, 3e3, 1e4, 3e4, 1e5, 3e5)
    """Contact stiffnesses of the stiffness sweep [N/m]."""
    refinements: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Numbers of substeps of the substep sweep, at the contact stiffness above."""
    seed: int = 0
    """Random seed of the noise."""

    def __post_init__(self) -> None:
        check_int("samples", self.samples, 2)
        check_int("horizon", self.horizon, 1)
        check_int("substeps", self.substeps, 1)
        for substeps in check_non_empty("refinements", self.refinements):
            check_int("refinements", substeps, 1)
        check_int("seed", self.seed, 0)
        check_finite("angle", self.angle)
        for name in ("speed", "sigma", "stiffness"):
            check_positive(name, getattr(self, name))
        for stiffness in check_non_empty("stiffnesses", self.stiffnesses):
            check_positive("stiffnesses", stiffness)


def ball_model(stiffness: float = 1e4) -> Model:
    """Return the ball with the given contact stiffness [N/m]; damping and viscosity scale with it."""
    with as_file(files("ahac.gradients") / "assets" / "ball.xml") as path:
        model = load_model(path)
    base = ContactConstants(**asdict(model.contact_candidates[0].material))
    scale = stiffness / base.stiffness
    material = replace(base, stiffness=stiffness, damping=base.damping * scale, viscosity=base.viscosity * scale)
    candidates = tuple(replace(candidate, material=material) for candidate in model.contact_candidates)
    return replace(model, contact_candidates=candidates)


def study(settings: BallSettings | None = None, track: Track = silent) -> Study:
    """Measure gradients against the horizon, the lemma's bound, and the effect of stiffness and substeps.

    Returns:
        Per horizon [H]: first, zeroth (the estimates), error (their distance), expected (the error expected from
        sampling noise alone), first_variance, zeroth_variance, first_esnr, zeroth_esnr, contact (fraction of throws in
        contact in that step), reward_norm and dynamics_norm (largest ‖∇r‖ and ‖∇f‖ over throws), gathered (largest
        product of ‖∇f‖ along one throw), bound (the lemma as printed), tight_bound (the bound from `gathered`) and
        zeroth_bound (of zeroth_variance).
        For the first worlds: paths [H + 1, 32, 2]; also target [2]. For the sweeps: sweep_error, sweep_expected,
        sweep_first_esnr, sweep_zeroth_esnr, sweep_tight_bound [S, H] by stiffness, and refined_error, ... [R, H] by
        substeps.
    """
    c = settings or BallSettings()
    arrays = simulate_throws(c)
    stiffer = [simulate_throws(replace(c, stiffness=x)) for x in track(c.stiffnesses, "ball by stiffness")]
    finer = [simulate_throws(replace(c, substeps=x)) for x in track(c.refinements, "ball by substeps")]
    for name in ("error", "expected", "first_esnr", "zeroth_esnr", "tight_bound"):
        arrays[f"sweep_{name}"] = np.array([result[name] for result in stiffer])
        arrays[f"refined_{name}"] = np.array([result[name] for result in finer])
    return Study(KIND, asdict(c), arrays)


def simulate_throws(c: BallSettings) -> dict[str, np.ndarray]:
    """Simulate all throws with one stiffness and one number of substeps, and return the arrays per horizon."""
    model = ball_model(c.stiffness)
    sim = Simulator(
        model, num_worlds=c.samples + 1, dt=DT, substeps=c.substeps, dtype=torch.float64, integrator="explicit"
    )
    rng = torch.Generator().manual_seed(c.seed)
    noise = c.sigma * torch.randn(c.samples, 1, generator=rng, dtype=torch.float64)
    angle = torch.full((c.samples + 1,), c.angle, dtype=torch.float64, requires_grad=True)
    a = angle + torch.cat([torch.zeros(1, dtype=torch.float64), noise[:, 0]])
    state = State(sim.rest_state().q, c.speed * torch.stack([a.cos(), a.sin()], dim=-1))
    start = _plane(model.links[0].position)
    target = _plane(model.sites["target"].position)
    # The action only sets the initial velocity, so it enters in the first step alone.
    by_action = c.speed * torch.stack([0.0 * a, 0.0 * a, -a.sin(), a.cos()], dim=-1).detach()
    gathered = torch.ones_like(a.detach())
    rows, paths = [], [state.q.detach()]
    for step in range(c.horizon):
        jacobian = _jacobian(sim, state.detach())
        norms = (jacobian @ by_action[..., None]).norm(dim=(1, 2)) if step == 0 else _norm(jacobian)
        gathered = gathered * norms
        before = state
        state = sim.step(state)
        reward = (start + state.q - target).norm(dim=-1).reciprocal()
        (slopes,) = torch.autograd.grad(reward.sum(), angle, retain_graph=True)
        velocity_change = (state.v - before.v).detach() - DT * _plane(model.gravity)
        rows.append(
            {
                **_compare_estimates(slopes[1:, None], reward.detach(), noise, c.sigma),
                "contact": float((velocity_change.norm(dim=-1) > CONTACT_THRESHOLD).double().mean()),
                "reward_norm": float(reward.detach().square().max()),  # the gradient of 1/d has norm 1/d²
                "dynamics_norm": float(norms.max()),
                "gathered": float(gathered.max()),
            }
        )
        paths.append(state.q.detach())
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    arrays["bound"] = lemma.bound_as_printed(arrays["reward_norm"], arrays["dynamics_norm"])
    arrays["zeroth_bound"] = lemma.zeroth_order_variance_bound(arrays["reward_norm"], c.sigma)
    arrays["tight_bound"] = lemma.bound_along_trajectory(arrays["reward_norm"], arrays["gathered"])
    return arrays | {"paths": (start + torch.stack(paths)[:, :SHOWN]).numpy(), "target": target.numpy()}


def _compare_estimates(slopes: Tensor, reward: Tensor, noise: Tensor, sigma: float) -> dict[str, float]:
    """Return statistics of both estimates at one horizon."""
    first = estimate(slopes)
    zeroth = estimate(zeroth_order(reward[1:], reward[0], gaussian_scores(noise, sigma)))
    both = agreement(first, zeroth)
    return {
        "first": float(first.mean),
        "zeroth": float(zeroth.mean),
        "error": both.error,
        "expected": both.expected,
        "first_variance": first.variance,
        "zeroth_variance": zeroth.variance,
        "first_esnr": first.esnr,
        "zeroth_esnr": zeroth.esnr,
    }


def _jacobian(sim: Simulator, state: State) -> Tensor:
    """Return the Jacobian [N, 4, 4] of the state after a step with respect to the state before it."""
    q, v = state.q.clone().requires_grad_(), state.v.clone().requires_grad_()
    end = sim.step(State(q, v))
    outputs = [*end.q.unbind(dim=-1), *end.v.unbind(dim=-1)]
    rows = [torch.cat(torch.autograd.grad(x.sum(), (q, v), retain_graph=True), dim=-1) for x in outputs]
    return torch.stack(rows, dim=1)


def _norm(matrices: Tensor) -> Tensor:
    """Return the spectral norms [N] of matrices [N, 4, 4]."""
    return torch.linalg.matrix_norm(matrices, ord=2)


def _plane(vector: tuple[float, float, float]) -> Tensor:
    """Return the x and z components."""
    return torch.tensor([vector[0], vector[2]], dtype=torch.float64)
