"""Stiffness signals, each against an independent computation."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs import STIFFNESS_SIGNALS, VecEnv, make
from ahac.sim import JointKind, Model, State
from ahac.sim.constants import with_constants
from ahac.sim.model.types import ContactConstants
from support.episodes import OUTCOMES, assert_same, change, outcomes, random_actions, set_time_left
from support.marks import keep

CONTACT_SIGNALS = ("contact", "contact_normalized", "force")
WORLDS = 16

EXACT = 1e-12
"""Relative; the same float64 formula in another order."""
EPS = (1e-4, 1e-5, 1e-6, 1e-7)
"""A difference across a kink is off; a smaller eps avoids the kink, with a relative rounding error of 1e-8."""
DIFFERENCED = 1e-7
"""Relative to the norm, at a world's best eps. Measured: at most 2e-9, apart from rounding of the signal."""
SLIP_FLOOR = 1e-12
"""Constant that the contact law adds to the squared slip speed [m²/s²]."""
"""Depth beyond which the damping of the compliant law no longer grows [m]."""
ROUNDING = 1e-15
"""Rounding error of a signal, which grows in a difference quotient as eps shrinks."""
FAR = 100.0
"""Distance by which robots are moved [m]."""
PROBES = 300
DEVIATIONS = 5.0
"""Standard errors by which a mean may be off: a probability of 6e-7 in each of 32 worlds."""


@pytest.fixture(scope="module", params=keep(1, ["hopper explicit", "hopper implicit", "ant explicit"]))
def made(request: pytest.FixtureRequest, device: torch.device) -> VecEnv:
    name, integrator = request.param.split()
    return make(name, num_envs=WORLDS, dtype=torch.float64, device=device, integrator=integrator)


@pytest.fixture
def env(made: VecEnv) -> VecEnv:
    """Robots on the ground."""
    made.reset(seed=1)
    outcomes(made, random_actions(made, 30, seed=2))
    assert (made.sim.contacts(made.state).depth > 0.0).any(dim=-1).sum() > WORLDS // 4
    return made


def take_step(env: VecEnv, seed: int = 3) -> Step:
    return env.step(random_actions(env, 1, seed, bound=0.9)[0])


# -------------------------------------------------------------------------------------------------------- dynamics


def quaternions(model: Model) -> list[tuple[int, int]]:
    """Return the indices of the quaternions and angular velocities of ball joints."""
    return [(joint.q, joint.v) for joint in model.joints if joint.kind is JointKind.BALL]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    real = a[:, :1] * b[:, :1] - (a[:, 1:] * b[:, 1:]).sum(dim=-1, keepdim=True)
    return torch.cat([real, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + torch.linalg.cross(a[:, 1:], b[:, 1:])], dim=-1)


def moved(model: Model, q: Tensor, tangent: Tensor) -> Tensor:
    """Move positions [N, nq] by a small tangent vector [N, nv]; to first order, quaternions by q ⊗ (1, ω / 2)."""
    parts = []
    q_end = 0
    v_end = 0
    for i, k in quaternions(model):
        turn = torch.cat([torch.ones_like(q[:, :1]), 0.5 * tangent[:, k : k + 3]], dim=-1)
        parts += [q[:, q_end:i] + tangent[:, v_end:k], multiply(q[:, i : i + 4], turn)]
        q_end, v_end = i + 4, k + 3
    return torch.cat([*parts, q[:, q_end:] + tangent[:, v_end:]], dim=-1)


def between(model: Model, start: Tensor, end: Tensor) -> Tensor:
    """Return the small tangent vector [N, nv] from one q to another: 2 Im(conjugate(q₀) ⊗ q₁) for quaternions."""
    parts, q_end = [], 0
    for i, _ in quaternions(model):
        back = torch.cat([start[:, i : i + 1], -start[:, i + 1 : i + 4]], dim=-1)
        parts += [(end - start)[:, q_end:i], 2.0 * multiply(back, end[:, i : i + 4])[:, 1:]]
        q_end = i + 4
    return torch.cat([*parts, (end - start)[:, q_end:]], dim=-1)


def differenced_jacobian(env: VecEnv, step: Step, eps: float) -> Tensor:
    """Jacobian [N, 2 nv, 2 nv + nu] of the next state by state and action, in tangent coordinates."""
    model, saved = env.sim.model, env.state_dict()
    context = {"clock": saved["clock"], "noise": saved["noise"]}
    columns = []
    for unit in torch.eye(2 * model.nv + model.nu, dtype=torch.float64, device=env.spec.device):
        ends = []
        for sign in (eps, -eps):
            by_q, by_v, by_u = (sign * unit).expand(WORLDS, -1).split([model.nv, model.nv, model.nu], dim=-1)
            start = State(moved(model, step.state.q, by_q), step.state.v + by_v)
            ends.append(env.sim.step(start, step.action + by_u, context=context))
        up, down = ends
        columns.append(torch.cat([between(model, down.q, up.q), up.v - down.v], dim=-1) / (2.0 * eps))
    return torch.stack(columns, dim=-1)


def test_dynamics_is_the_norm_of_the_jacobian_by_central_differences(env: VecEnv) -> None:
    step = take_step(env)
    found = env.stiffness(step)
    assert not found.requires_grad
    with torch.no_grad():
        wanted = torch.stack([differenced_jacobian(env, step, eps).square().sum(dim=(1, 2)).sqrt() for eps in EPS])
    assert ((wanted - found).abs() / found).min(dim=0).values.max() < DIFFERENCED


def test_the_square_of_the_estimate_by_probes_has_no_bias(env: VecEnv) -> None:
    step = take_step(env)
    exact = env.stiffness(step).square()
    squares = torch.stack([env.stiffness(step, probes=1).square() for _ in range(PROBES)])
    error = squares.std(dim=0) * PROBES**-0.5
    assert (error < 0.2 * exact).all(), "too few probes to tell"
    assert ((squares.mean(dim=0) - exact).abs() < DEVIATIONS * error).all()


def test_several_probes_are_averaged(env: VecEnv) -> None:
    step, saved = take_step(env), env.state_dict()
    env.load_state_dict(saved)
    one_by_one = torch.stack([env.stiffness(step, probes=1) for _ in range(3)])
    env.load_state_dict(saved)
    together = env.stiffness(step, probes=3)
    assert (one_by_one.square().mean(dim=0).sqrt() - together).abs().max() < EXACT * together.max()
    assert not torch.equal(env.stiffness(step, probes=3), together)


# --------------------------------------------------------------------------------------------------------- contact


def contact_force(depth: Tensor, velocity: Tensor, material: ContactConstants, implicit: bool) -> Tensor:
    """Contact force [3] of one point on level ground, by the laws of docs/architecture.md."""
    d = depth.clamp(min=0.0)
    if implicit:  # compliant
        push = load = (material.stiffness * d - material.damping * d * velocity[2]).clamp(min=0.0)
    else:  # penalty
        push = material.stiffness * d - material.damping * d * velocity[2].clamp(max=0.0)
        load = material.stiffness * d
    slip = (velocity[0] ** 2 + velocity[1] ** 2 + SLIP_FLOOR).sqrt()
    drag = (material.friction * load / slip).clamp(max=material.viscosity)
    return torch.stack([-drag * velocity[0], -drag * velocity[1], push])


def contact_jacobian(env: VecEnv, state: State) -> Tensor:
    """Jacobian [N, points, 3, 4] of every contact force by depth and velocity."""
    implicit = env.sim.integrator == "implicit"
    seen, touches = env.sim.contacts(state), with_constants(env.task.model, implicit).contact_candidates
    jacobians = []
    for i, touch in enumerate(touches):
        assert isinstance(touch.material, ContactConstants)
        rows = zip(seen.depth[:, i].detach(), seen.velocity[:, i].detach(), strict=True)
        law = partial(contact_force, material=touch.material, implicit=implicit)
        found = [torch.autograd.functional.jacobian(law, row) for row in rows]
        jacobians.append(torch.stack([torch.cat([by_depth[:, None], by_u], dim=-1) for by_depth, by_u in found]))
    return torch.stack(jacobians, dim=1)


def test_contact_is_the_norm_of_the_contact_laws_jacobian(env: VecEnv) -> None:
    step = take_step(env)
    found = env.stiffness(step, "contact")
    wanted = contact_jacobian(env, State(step.next_state.q, step.next_state.v)).square().sum(dim=(1, 2, 3)).sqrt()
    assert (found > 0.0).any()
    assert (found - wanted).abs().max() < EXACT * wanted.max()


def test_normalised_contact_weighs_rows_by_large_accelerations(env: VecEnv) -> None:
    step = take_step(env)
    end = State(step.next_state.q, step.next_state.v)
    found, plain = (env.stiffness(step, signal) for signal in ("contact_normalized", "contact"))
    weight = env.sim.contact_accelerations(end, step.action).clamp(min=1.0)
    wanted = (contact_jacobian(env, end) * weight[..., None]).square().sum(dim=(1, 2, 3)).sqrt()
    assert (found - wanted).abs().max() < EXACT * wanted.max()
    assert (found >= plain).all()
    assert (found > plain).any()


def test_force_is_the_norm_of_wrenches_over_large_accelerations(env: VecEnv) -> None:
    step = take_step(env)
    end = State(step.next_state.q, step.next_state.v)
    seen, points = env.sim.contact_wrenches(end), env.sim.contacts(end)
    links = torch.tensor(
        [seen.names.index(env.task.model.links[touch.link].name) for touch in env.task.model.contact_candidates]
    )
    summed = torch.zeros_like(seen.wrench[..., 3:]).index_add(1, links.to(env.spec.device), points.force)
    assert (seen.wrench[..., 3:] - summed).abs().max() < EXACT * summed.abs().max()
    weighted = seen.wrench / torch.where(
        seen.velocity_product_acceleration > 1.0, seen.velocity_product_acceleration, 1.0
    )
    assert (env.stiffness(step, "force") - weighted.flatten(1).norm(dim=-1)).abs().max() < EXACT * weighted.norm()


def test_contact_signals_do_not_depend_on_where_the_robot_is(env: VecEnv) -> None:
    saved = env.state_dict()
    found = {signal: env.stiffness(step, signal) for step in [take_step(env)] for signal in CONTACT_SIGNALS}
    env.load_state_dict(saved)

    def shift(state: dict[str, Tensor]) -> None:
        state["q"][:, 0] += FAR

    change(env, shift)
    step = take_step(env)
    for signal, here in found.items():
        # Bit-exactly: the position along the ground does not enter.
        assert torch.equal(env.stiffness(step, signal), here), signal


@pytest.mark.parametrize("signal", CONTACT_SIGNALS)
def test_in_the_air_contact_is_zero_and_so_is_its_gradient(signal: str, env: VecEnv) -> None:
    def lift(state: dict[str, Tensor]) -> None:
        state["q"][:, {"hopper": 1, "ant": 2}[env.spec.name]] += 2.0

    change(env, lift)
    action = random_actions(env, 1, seed=4)[0].requires_grad_()
    found = env.stiffness(env.step(action), signal)
    assert (found == 0.0).all()
    (gradient,) = torch.autograd.grad(found.sum(), action)
    assert (gradient == 0.0).all()


@pytest.mark.parametrize("signal", CONTACT_SIGNALS)
def test_contact_signals_have_gradients_in_earlier_actions(signal: str, env: VecEnv) -> None:
    saved = env.state_dict()
    actions = random_actions(env, 3, seed=5, bound=0.9).requires_grad_()

    def measured(sequence: Tensor) -> Tensor:
        env.load_state_dict(saved)
        *_, last = [env.step(action) for action in sequence]
        return env.stiffness(last, signal)

    value = measured(actions)
    (gradient,) = torch.autograd.grad(value.sum(), actions)
    norm = gradient.square().sum(dim=(0, 2)).sqrt()
    assert (norm[value > 0.0] > 0.0).any()
    assert (norm[value == 0.0] == 0.0).all()
    drawn = torch.Generator().manual_seed(6)
    direction = torch.randn(actions.shape, generator=drawn, dtype=torch.float64).to(env.spec.device)
    direction /= direction.square().sum(dim=(0, 2), keepdim=True).sqrt()
    with torch.no_grad():
        pairs = [(measured(actions + eps * direction), measured(actions - eps * direction)) for eps in EPS]
    found = torch.stack([(up - down) / (2.0 * eps) for eps, (up, down) in zip(EPS, pairs, strict=True)])
    errors = (found - (gradient * direction).sum(dim=(0, 2))).abs().min(dim=0).values
    assert (errors <= DIFFERENCED * norm + ROUNDING * value / EPS[0]).all()


# ------------------------------------------------------------------------------------------------------ arguments


def test_measuring_changes_neither_trajectory_nor_resets(env: VecEnv) -> None:
    set_time_left(env, slice(0, None, 2), 2)
    saved, actions = env.state_dict(), random_actions(env, 5, seed=7)
    wanted, state = outcomes(env, actions), env.state_dict()
    assert wanted["truncated"].any()
    env.load_state_dict(saved)
    for i, action in enumerate(actions):
        step = env.step(action)
        for signal in STIFFNESS_SIGNALS:
            env.stiffness(step, signal)
        env.stiffness(step, probes=2)
        assert_same({name: getattr(step, name) for name in OUTCOMES}, {name: wanted[name][i] for name in OUTCOMES})
    measured = env.state_dict()
    assert not torch.equal(measured.pop("probe_generator"), state.pop("probe_generator"))
    assert_same(measured, state)


def test_probes_do_not_draw_the_numbers_of_resets(env: VecEnv) -> None:
    env.reset(seed=9)
    state = env.state_dict()
    generator = torch.Generator(env.spec.device)
    generator.set_state(state["probe_generator"])
    noise = state["noise"]
    for _ in range(2):
        # With the same seed, the first draw would be the noise of the current episodes, the second that of the next.
        drawn = torch.rand(noise.shape, generator=generator, dtype=noise.dtype, device=noise.device)
        assert not torch.equal(drawn, noise)


@pytest.mark.parametrize("signal", STIFFNESS_SIGNALS)
def test_a_diverged_world_has_no_stiffness_and_leaves_the_others_alone(signal: str, env: VecEnv) -> None:
    saved = env.state_dict()

    def measured() -> tuple[Tensor, Tensor]:
        action = random_actions(env, 1, seed=8)[0].requires_grad_()
        step = env.step(action)
        value = env.stiffness(step, signal)
        total = value.sum() + step.reward.sum()
        return value.detach(), torch.autograd.grad(total, action)[0]

    def lose(state: dict[str, Tensor]) -> None:
        state["v"][3, 0] = torch.inf

    wanted = measured()
    env.load_state_dict(saved)
    change(env, lose)
    found = measured()
    others = [i for i in range(WORLDS) if i != 3]
    assert found[0][3] == 0.0
    for got, without in zip(found, wanted, strict=True):
        assert torch.isfinite(got).all()
        assert torch.equal(got[others], without[others])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda e, s: e.stiffness(s, "contacts"),
            f"no stiffness signal named 'contacts'; known: {', '.join(STIFFNESS_SIGNALS)}",
        ),
        (lambda e, s: e.stiffness(s, "dynamics", probes=0), "probes must be a whole number of at least 1, got 0"),
        (lambda e, s: e.stiffness(s, "dynamics", probes=True), "probes must be a whole number of at least 1, got True"),
        (lambda e, s: e.stiffness(s, "dynamics", probes=2.5), "probes must be a whole number of at least 1, got 2.5"),
        (lambda e, s: e.stiffness(s, "force", probes=2), "apply only to the signal 'dynamics', got 2 for 'force'"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[VecEnv, Step], Tensor], message: str, env: VecEnv) -> None:
    step = take_step(env)
    with pytest.raises(InputError, match=message):
        call(env, step)


@pytest.mark.parametrize("signal", CONTACT_SIGNALS)
def test_a_robot_without_ground_has_no_contact(signal: str, device: torch.device) -> None:
    cartpole = make("cartpole", num_envs=WORLDS, device=device)
    found = cartpole.stiffness(take_step(cartpole), signal)
    assert found.dtype == torch.float32
    assert found.tolist() == [0.0] * WORLDS
