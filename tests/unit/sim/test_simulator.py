"""The door: what goes in, what comes out, what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ahac.sim import InputError, Integrator, Model, Simulator, State, load_model
from support.integrators import laws_of
from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric
from support.robots import BALL_CHAIN, MUSCLE_ARM, PENDULUM, ROVER, SERVO_ARM

EXACT = 1e-11
"""Relative, of the largest number; compiled and interpreted float64 differ in the order of a few roundings."""

SINGLE = 1e-4
"""The same for float32, whose ulp is 1e-7; light links on heavy ones may cost a hundred of them."""

WORLDS = 5


@pytest.fixture(scope="module")
def rover() -> Model:
    return load_model(ROVER)


@pytest.fixture(scope="module")
def sim(rover: Model, device: torch.device) -> Simulator:
    return Simulator(rover, num_worlds=WORLDS, dt=0.01, substeps=4, device=device, dtype=torch.float64)


@pytest.mark.parametrize(
    ("source", "integrator"),
    [
        pytest.param(ROVER, "implicit", id="rover"),
        pytest.param(ROVER, "explicit", id="rover, explicit"),
        pytest.param(SERVO_ARM, "implicit", id="servos"),
        pytest.param(MUSCLE_ARM, "explicit", id="muscles"),
        pytest.param(BALL_CHAIN, "implicit", id="balls"),
    ],
)
def test_step_is_the_traced_physics_substep_by_substep(
    source: str, integrator: Integrator, device: torch.device
) -> None:
    ours = Numeric(source, laws_of(integrator))
    substeps = 3
    h = 1e-3
    q, v = random_states(compiled(source), WORLDS, seed=1)
    rng = np.random.default_rng(2)
    u, f = rng.normal(size=(WORLDS, ours.model.nu)), rng.normal(size=v.shape)
    act = rng.uniform(size=(WORLDS, ours.model.na))
    wanted_q, wanted_v, wanted_act = q, v, act
    for _ in range(substeps):
        groups = {"u": u, "f": f, **({"act": wanted_act} if ours.model.na else {})}
        wanted_q, wanted_v = ours.step(wanted_q, wanted_v, h, **groups)
        wanted_act = ours.activations(u, wanted_act, h)
    for dtype, tolerance in ((torch.float64, EXACT), (torch.float32, SINGLE)):
        sim = Simulator(
            ours.model,
            num_worlds=WORLDS,
            dt=substeps * h,
            substeps=substeps,
            device=device,
            dtype=dtype,
            integrator=integrator,
        )
        q_in, v_in, u_in, f_in, act_in = (torch.tensor(x, dtype=dtype, device=device) for x in (q, v, u, f, act))
        state = sim.step(State(q_in, v_in, act=act_in if ours.model.na else None), u_in, f_in)
        assert (state.act is None) == (ours.model.na == 0)
        results = [(state.q, wanted_q), (state.v, wanted_v)]
        results += [] if state.act is None else [(state.act, wanted_act)]
        for got, wanted in results:
            assert got.dtype == dtype
            assert np.abs(got.double().cpu().numpy() - wanted).max() < tolerance * np.abs(wanted).max()


def test_answers_have_worlds_first(sim: Simulator) -> None:
    state, m = sim.rest_state(), sim.model
    assert (m.nq, m.nv, m.nu) == (8, 7, 1)
    assert (state.q.shape, state.v.shape, state.readouts) == ((WORLDS, 8), (WORLDS, 7), {})
    after = sim.step(state)
    assert (after.q.shape, after.v.shape, after.readouts) == ((WORLDS, 8), (WORLDS, 7), {})
    assert sim.evaluate_readouts(state) == {}
    poses, contacts = sim.poses(state.q), sim.contacts(state)
    assert poses.names == ("world", "trunk", "arm")
    assert (poses.position.shape, poses.rotation.shape) == ((WORLDS, 3, 3), (WORLDS, 3, 3, 3))
    assert contacts.names == (("belly", "floor"), ("hand", "floor"), ("hand", "floor"))
    assert contacts.depth.shape == (WORLDS, 3)
    assert contacts.velocity.shape == contacts.force.shape == contacts.force_by_depth.shape == (WORLDS, 3, 3)
    assert contacts.force_by_velocity.shape == (WORLDS, 3, 3, 3)
    assert sim.is_finite(state).tolist() == [True] * WORLDS


def test_rest_is_the_files_reference_pose_or_a_keyframe(sim: Simulator) -> None:
    state = sim.rest_state()
    assert state.q.tolist() == [[0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0, 0.0]] * WORLDS
    assert state.v.tolist() == [[0.0] * 7] * WORLDS
    low = sim.rest_state("low")
    assert low.q.tolist() == [[1.0, 2.0, 0.19, 0.0, 1.0, 0.0, 0.0, 0.5]] * WORLDS
    assert low.v.tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]] * WORLDS
    with pytest.raises(InputError, match="model 'model' has no keyframe 'high'; it has: low"):
        sim.rest_state("high")


def test_missing_control_and_force_are_zero(sim: Simulator) -> None:
    state = sim.rest_state("low")
    zero = torch.zeros(WORLDS, 1, dtype=torch.float64, device=sim.device)
    free = sim.step(state)
    held = sim.step(state, zero, torch.zeros_like(state.v))
    assert torch.equal(free.q, held.q)
    assert torch.equal(free.v, held.v)
    assert not torch.equal(free.v, sim.step(state, zero + 0.5).v)
    assert not torch.equal(free.v, sim.step(state, force=torch.ones_like(state.v)).v)


def test_step_leaves_its_inputs_alone(sim: Simulator) -> None:
    state = sim.rest_state("low")
    q, v = state.q.clone(), state.v.clone()
    sim.step(state)
    assert torch.equal(state.q, q)
    assert torch.equal(state.v, v)


def test_tensors_need_not_be_contiguous(sim: Simulator) -> None:
    state = sim.rest_state("low")
    wide = torch.stack([state.q, -state.q], dim=-1)
    row = state.v[:1].expand(WORLDS, -1)
    assert not wide[..., 0].is_contiguous()
    assert torch.equal(sim.step(State(wide[..., 0], row)).v, sim.step(state).v)


Call = Callable[[Simulator, State], Any]
WRONG: dict[str, tuple[Call, str]] = {
    "width of q": (
        lambda s, x: s.step(State(x.q[:, :-1], x.v)),
        r"state.q must be a torch.float64 tensor of shape \[5, 8\] on .* got torch.float64 \[5, 7\]",
    ),
    "worlds of v": (lambda s, x: s.step(State(x.q, x.v[:3])), r"state.v must be .*\[5, 7\] .* got .* \[3, 7\]"),
    "row of q": (lambda s, x: s.step(State(x.q[0], x.v[0])), r"state.q must be .* got torch.float64 \[8\]"),
    "dtype of control": (
        lambda s, x: s.step(x, torch.zeros(5, 1)),
        r"control must be a torch.float64 tensor .* got torch.float32 \[5, 1\]",
    ),
    "width of control": (lambda s, x: s.step(x, x.v[:, :2]), r"control must be .*\[5, 1\].* got .*\[5, 2\]"),
    "device of force": (lambda s, x: s.step(x, force=x.v.to("meta")), "force must be .* on c.*, got .* on meta"),
    "sparse control": (lambda s, x: s.step(x, x.v[:, :1].to_sparse()), "control must be .* layout torch.sparse_coo"),
    "array": (lambda s, x: s.step(State(x.q.cpu().numpy(), x.v)), "state.q must be .* got ndarray"),  # pyright: ignore[reportArgumentType]
    "nothing": (lambda s, x: s.poses(None), "q must be .* got NoneType"),  # pyright: ignore[reportArgumentType]
    "mass matrix": (lambda s, x: s.mass_matrix(x.v), r"q must be .*\[5, 8\].* got .*\[5, 7\]"),
    "bias force": (lambda s, x: s.bias_force(x.q, x.q), r"v must be .*\[5, 7\].* got .*\[5, 8\]"),
    "acceleration": (lambda s, x: s.acceleration(x.q, x.v, x.q), r"tau must be .*\[5, 7\].* got .*\[5, 8\]"),
    "contacts": (lambda s, x: s.contacts(State(x.v, x.v)), r"state.q must be .*\[5, 8\]"),
    "readouts": (lambda s, x: s.evaluate_readouts(x, x.v), r"control must be .*\[5, 1\]"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_tensor_is_refused_with_what_was_wanted_and_got(mistake: str, sim: Simulator) -> None:
    call, message = WRONG[mistake]
    with pytest.raises(InputError, match=message):
        call(sim, sim.rest_state())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_worlds": 0}, "num_worlds must be a whole number of at least 1, got 0"),
        ({"num_worlds": 2.0}, "num_worlds must be a whole number of at least 1, got 2.0"),
        ({"num_worlds": True}, "num_worlds must be"),
        ({"substeps": 0}, "substeps must be a whole number of at least 1, got 0"),
        ({"num_threads": 0}, "num_threads must be"),
        ({"dt": 0.0}, "dt must be a positive number of seconds, got 0.0"),
        ({"dt": float("nan")}, "dt must be a positive number of seconds, got nan"),
        ({"dt": float("inf")}, "dt must be"),
        ({"dt": "0.1"}, "dt must be"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64, got torch.float16"),
        ({"device": "meta"}, "device must be 'cpu' or a CUDA device such as 'cuda:0', got 'meta'"),
        ({"device": "abacus"}, "device must be 'cpu' or a CUDA device"),
        ({"device": "cuda:99"}, "device 'cuda:99' is not available: "),
    ],
)
def test_wrong_setting_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Simulator(load_model(PENDULUM), **{"num_worlds": 1, "dt": 0.01, "substeps": 1, **setting})


def test_a_compiled_function_refuses_what_its_kernel_cannot_read(sim: Simulator) -> None:
    total = sim.compile_function(
        "total", lambda a, b: {"sum": [x + y for x, y in zip(a, b, strict=True)]}, {"a": 2, "b": 2}
    )
    a = torch.ones(WORLDS, 2, dtype=torch.float64, device=sim.device)
    assert torch.equal(total(a, a)["sum"], 2.0 * a)
    with pytest.raises(InputError, match=r"a must be a torch.float64 tensor of shape \[5, 2\] on .* got .*\[5, 1\]"):
        total(a[:, :1], a)
    with pytest.raises(InputError, match=r"b must be .* got torch.float32 \[5, 2\]"):
        total(a, a.float())
    with pytest.raises(InputError, match=r"'total' takes 2 tensors \(a, b\), got 1"):
        total(a)
