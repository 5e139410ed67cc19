"""Gradients of what the simulator answers besides steps: compiled, in float64, against central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from ahac.sim import AhacError, Simulator, State, load_model, penalty
from gradients import models
from gradients.contact_cases import contacts, soft_law

WORLDS = 6
EPS = (1e-3, 1e-4, 1e-5, 1e-6)
TOLERANCE = 1e-6
"""Relative; truncation and rounding at the best eps leave 1e-8."""

TINY = 1e-30
"""Keeps a ratio of two zeros at zero."""

FIELDS = ("depth", "velocity", "force", "force_by_depth", "force_by_velocity")
LAST = "body#2"
Answer = Callable[[Simulator, Tensor, Tensor, Tensor], Tensor]

ANSWERS: Mapping[str, Answer] = {
    "mass matrix": lambda sim, q, v, tau: sim.mass_matrix(q),
    "bias force": lambda sim, q, v, tau: sim.bias_force(q, v),
    "acceleration": lambda sim, q, v, tau: sim.acceleration(q, v, tau),
    "acceleration in contact": lambda sim, q, v, tau: sim.acceleration(q, v, tau, contact=True),
    "positions": lambda sim, q, v, tau: sim.poses(q).position,
    "rotations": lambda sim, q, v, tau: sim.poses(q).rotation,
    "readouts": lambda sim, q, v, tau: sim.evaluate_readouts(State(q, v), tau[:, :1])["spin"],
    **{field: lambda sim, q, v, tau, field=field: getattr(sim.contacts(State(q, v)), field) for field in FIELDS},
}
UNUSED = {
    "mass matrix": (1, 2),
    "positions": (1, 2),
    "rotations": (1, 2),
    "bias force": (2,),
    **dict.fromkeys(FIELDS, (2,)),
}
"""Inputs that an answer does not take."""


@pytest.fixture(scope="module")
def sim(device: torch.device) -> Simulator:
    """A capsule with a hinged tail over the ground."""
    motor = '<actuator><motor joint="hinge"/></actuator></mujoco>'
    model = load_model(models.touching("capsule", friction=0.75).replace("</mujoco>", motor))
    return Simulator(
        model,
        num_worlds=WORLDS,
        dt=1e-3,
        substeps=1,
        device=device,
        dtype=torch.float64,
        readouts={"spin": lambda world: world.rotation(LAST) @ world.velocity(LAST) * world.control[0]},
    )


@pytest.fixture
def sample(sim: Simulator) -> list[Tensor]:
    """q, v and generalised forces; in every world the lowest point is 1 cm in the ground, and in some it slides."""
    rng, m = torch.Generator().manual_seed(8), sim.model

    def noise(width: int) -> Tensor:
        return torch.randn(WORLDS, width, generator=rng, dtype=torch.float64)

    q, v = torch.tensor(m.rest_q) + 0.1 * noise(m.nq), 0.3 * noise(m.nv)
    q[:, 2] += torch.from_numpy(contacts(m, {"q": q.numpy(), "v": v.numpy()})["depth"]) - 0.01
    v[::2] *= 10.0
    found = contacts(m, {"q": q.numpy(), "v": v.numpy()})
    assert 0 < (found["drag"] > found["bound"]).sum() < WORLDS
    return [x.to(sim.device).requires_grad_() for x in (q, v, noise(m.nv))]


def best_error(slope: Tensor, difference: Callable[[float], Tensor]) -> float:
    """Relative distance of a derivative from the best central difference."""
    quotients = [(difference(eps) - difference(-eps)) / (2.0 * eps) for eps in EPS]
    return min(float((slope - q).norm() / (q.norm() + TINY)) for q in quotients)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_gradient_of_an_answer_matches_central_differences(name: str, sim: Simulator, sample: list[Tensor]) -> None:
    rng, answer = torch.Generator().manual_seed(9), ANSWERS[name]
    value = answer(sim, *sample)
    weights = torch.randn(value.shape, generator=rng, dtype=torch.float64).to(value)
    gradients = torch.autograd.grad((value * weights).sum(), sample, allow_unused=True)
    for k, gradient in enumerate(gradients):
        if k in UNUSED.get(name, ()):
            assert gradient is None
            continue
        assert gradient is not None
        along = torch.randn(gradient.shape, generator=rng, dtype=torch.float64).to(value)

        def moved(eps: float, k: int = k, along: Tensor = along) -> Tensor:
            inputs = [x.detach() + eps * along if i == k else x.detach() for i, x in enumerate(sample)]
            return (answer(sim, *inputs) * weights).flatten(1).sum(-1)

        assert best_error((gradient * along).sum(-1), moved) < TOLERANCE


@pytest.fixture(scope="module", params=[penalty, soft_law], ids=["penalty", "law of one's own"])
def touching(request: pytest.FixtureRequest, sim: Simulator) -> Simulator:
    """The same robot under either law; only the second couples friction to the normal velocity."""
    return Simulator(
        sim.model,
        num_worlds=WORLDS,
        dt=1e-3,
        substeps=1,
        device=sim.device,
        dtype=torch.float64,
        contact_law=request.param,
    )


@pytest.mark.parametrize("axis", range(3))
def test_a_contact_force_changes_as_its_derivatives_say(touching: Simulator, sample: list[Tensor], axis: int) -> None:
    """Lifting the robot changes depth alone, pushing it velocity alone, and by the same amount at every point."""
    q, v, _ = (x.detach() for x in sample)
    up, along = torch.zeros_like(q), torch.zeros_like(v)
    up[:, 2] = along[:, axis] = 1.0
    here = touching.contacts(State(q, v))
    assert best_error(-here.force_by_depth, lambda eps: touching.contacts(State(q + eps * up, v)).force) < TOLERANCE
    by_velocity = here.force_by_velocity[..., axis]
    assert best_error(by_velocity, lambda eps: touching.contacts(State(q, v + eps * along)).force) < TOLERANCE


def test_a_second_derivative_of_an_answer_is_refused(sim: Simulator, sample: list[Tensor]) -> None:
    q = sample[0]
    [first] = torch.autograd.grad(sim.mass_matrix(q).sum(), q, create_graph=True)
    with pytest.raises(AhacError, match="second derivative"):
        torch.autograd.grad(first.sum() + q.sum(), q)
