"""Parameters and memory as inputs of a step: who sees them, and their gradients."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError, TraceError
from ahac.sim import AppliedForce, Real, Simulator, State, World, load_model, sin
from ahac.sim.compiler.program import adjoint, evaluate, trace
from ahac.sim.model.parameters.selection import Parameters
from ahac.sim.programs import delayed
from support.robots import mjcf

WORLDS = 3

EPSILON = 1e-6
EXACT = 2e-8
"""Of central differences in float64 with steps of 1e-6, relative to the largest derivative."""

ARM = mjcf(
    """
<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.1"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1"/>
  <body name="lower" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/></body></body>
""",
    rest="""<actuator><motor name="a" joint="shoulder" gear="3"/>
    <general name="b" joint="elbow" dyntype="filter" dynprm="0.05" gainprm="2"/></actuator>""",
)
"""Two hinges; the second motor has an activation."""


WIND = "dof_damping:shoulder"
"""A parameter that the force law and a readout use as well, as the strength of a wind."""


def declared(*names: str) -> Parameters:
    return load_model(ARM).parameters(*names, max_delay=0.02)


def push(world: World) -> list[AppliedForce]:
    gust = world.parameters[WIND][0] * world.memory["push"][0]
    return [world.apply_joint_force("shoulder", gust * sin(world.q[1]))]


def servo(world: World) -> list[Real]:
    """Return controls that depend on the raw ones, on memory and on the state of each substep."""
    target = world.memory["target"]
    return [
        world.control[0] + (target[0] - world.q[0]) * 2.0 - world.v[0] * 0.3,
        world.control[1] * target[1] + world.act[0],
    ]


def seen(world: World) -> list[Real]:
    before = world.before
    assert before is not None
    return [
        world.memory["target"][0] * world.q[1],
        before.memory["push"][0] * before.v[0],
        world.parameters[WIND][0] * world.control[0],
        world.act[0] * before.act[0],
    ]


def simulator(**settings: object) -> Simulator:
    usual: dict[str, Any] = {
        "num_worlds": WORLDS, "dt": 0.01, "substeps": 3, "dtype": torch.float64,
        "parameters": declared(WIND, "actuator_delay"),
        "memory": {"push": 1, "target": 2}, "forces": [push], "controller": servo, "readouts": {"seen": seen},
    }  # fmt: skip
    return Simulator(load_model(ARM), **{**usual, **settings})


@pytest.fixture(scope="module")
def sim() -> Simulator:
    return simulator()


NAMES = ("q", "v", "act", "control", "parameters", "memory", "past")
SIZES = {"q": (2,), "v": (2,), "act": (1,), "control": (2,), "parameters": (2,), "memory": (3,), "past": (2, 2)}


def values(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(1)
    numbers = {name: torch.rand(WORLDS, *size, generator=rng, dtype=torch.float64) for name, size in SIZES.items()}
    numbers["parameters"][:, 1] = torch.tensor([0.004, 0.013, 0.0175])
    return {name: x.to(dtype) for name, x in numbers.items()}


def two_steps(sim: Simulator, x: Mapping[str, Tensor]) -> Tensor:
    """Return numbers that depend on all results of two steps, the second of which receives the first one's state."""
    state = State(x["q"], x["v"], act=x["act"], past_controls=x["past"])
    p, m = x["parameters"], x["memory"]
    state = sim.step(state, x["control"], parameters=p, memory=m)
    state = sim.step(state, 0.5 * x["control"], parameters=p, memory=m)
    assert state.act is not None
    assert state.past_controls is not None
    parts = [state.q, state.v, state.act, state.readouts["seen"], state.past_controls.flatten(1)]
    return torch.cat(parts, dim=-1)


def weights(results: Tensor) -> Tensor:
    """Return weights that make each result, and each world, count differently."""
    return torch.linspace(0.5, 1.5, results.numel(), dtype=results.dtype).view_as(results)


def gradients(sim: Simulator, x: Mapping[str, Tensor], wanted: Sequence[str] = NAMES) -> dict[str, Tensor]:
    leaves = {name: t.clone().requires_grad_(name in wanted) for name, t in x.items()}
    results = two_steps(sim, leaves)
    found = torch.autograd.grad((results * weights(results)).sum(), [leaves[name] for name in wanted])
    return dict(zip(wanted, found, strict=True))


def differences(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return central differences of a function that keeps worlds apart; it returns one number per world."""
    columns = []
    for k in range(x[0].numel()):
        step = torch.zeros_like(x)
        step.view(len(x), -1)[:, k] = EPSILON
        columns.append((function(x + step) - function(x - step)) / (2.0 * EPSILON))
    return torch.stack(columns, dim=-1).view_as(x)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_input(sim: Simulator, name: str) -> None:
    x = values()

    def loss(tensor: Tensor) -> Tensor:
        with torch.no_grad():
            results = two_steps(sim, {**x, name: tensor})
        return (results * weights(results)).sum(dim=-1)

    found, expected = gradients(sim, x)[name], differences(loss, x[name])
    assert (found != 0.0).any(dim=0).all()
    assert (found - expected).abs().max() < EXACT * expected.abs().max()


def test_gradients_without_those_of_parameters_are_the_same(sim: Simulator) -> None:
    names = [name for name in NAMES if name != "parameters"]
    all_of_them, others = gradients(sim, values()), gradients(sim, values(), names)
    for name in names:
        torch.testing.assert_close(others[name], all_of_them[name], rtol=1e-12, atol=1e-14)


def test_gradients_of_parameters_alone(sim: Simulator) -> None:
    expected = gradients(sim, values())["parameters"]
    torch.testing.assert_close(gradients(sim, values(), ["parameters"])["parameters"], expected, rtol=1e-12, atol=0.0)


def test_asking_for_some_gradients_only(sim: Simulator) -> None:
    leaves = {name: x.requires_grad_() for name, x in values().items()}
    results = two_steps(sim, leaves)
    (found,) = torch.autograd.grad((results * weights(results)).sum(), leaves["q"])
    torch.testing.assert_close(found, gradients(sim, values())["q"], rtol=1e-12, atol=1e-14)


def test_single_precision(sim: Simulator) -> None:
    single = simulator(dtype=torch.float32)
    found, expected = gradients(single, values(torch.float32)), gradients(sim, values())
    for name in NAMES:
        assert found[name].dtype == torch.float32
        assert (found[name] - expected[name]).abs().max() < 1e-5 * expected[name].abs().max(), name


def test_readouts_of_a_state_see_parameters_and_memory(sim: Simulator) -> None:
    x = values()
    state = State(x["q"], x["v"], act=x["act"])
    seen_now = sim.evaluate_readouts(state, x["control"], parameters=x["parameters"], memory=x["memory"])["seen"]
    push, target = x["memory"][:, 0], x["memory"][:, 1]
    wind = x["parameters"][:, 0] * x["control"][:, 0]
    expected = [target * x["q"][:, 1], push * x["v"][:, 0], wind, x["act"][:, 0] ** 2]
    torch.testing.assert_close(seen_now, torch.stack(expected, dim=-1), rtol=1e-12, atol=0.0)


def delayed_steps(sim: Simulator, delay: float, controls: Sequence[float]) -> list[Tensor]:
    state, x = sim.rest_state(), values()
    parameters = torch.tensor([[0.1, delay]], dtype=torch.float64).repeat(WORLDS, 1)
    states = []
    for u in controls:
        control = torch.full((WORLDS, 2), u, dtype=torch.float64)
        state = sim.step(state, control, parameters=parameters, memory=x["memory"])
        states.append(state.v)
    return states


def test_delay_of_whole_and_half_steps(sim: Simulator) -> None:
    # The first control counts as the one that was always given.
    plain = delayed_steps(sim, 0.0, [0.4, 0.4, 0.4, 1.0, -1.0])
    late = delayed_steps(sim, 0.02, [0.4, 1.0, -1.0, 7.0, 8.0])
    for one, other in zip(plain, late, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)
    halved = delayed_steps(sim, 0.015, [0.4, 1.0, -1.0, 7.0])
    for one, other in zip(delayed_steps(sim, 0.0, [0.4, 0.4, 0.7, 0.0]), halved, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_past_controls_are_the_latest_first(sim: Simulator) -> None:
    x = values()
    state = sim.step(State(x["q"], x["v"], past_controls=x["past"]), x["control"], memory=x["memory"])
    assert state.past_controls is not None
    assert torch.equal(state.past_controls, torch.stack([x["control"], x["past"][:, 0]], dim=1))


def test_states_are_combined_with_their_past_controls() -> None:
    x = values()
    one, other = State(x["q"], x["v"], past_controls=x["past"]), State(x["q"] + 1.0, x["v"])
    mask = torch.tensor([True, False, True])
    mixed = one.where(mask, other)
    assert mixed.past_controls is not None
    assert torch.equal(mixed.past_controls[mask], x["past"][mask])
    assert (mixed.past_controls[~mask] == 0.0).all()
    assert mixed.act is None
    assert other.where(mask, other).past_controls is None


def test_a_first_step_in_inference_mode_leaves_defaults_that_have_gradients_later() -> None:
    sim, x = simulator(parameters=declared(WIND)), values()
    with torch.inference_mode():
        sim.step(sim.rest_state(), memory=x["memory"])
    control = x["control"].clone().requires_grad_()
    end = sim.step(State(x["q"], x["v"]), control, memory=x["memory"])
    (gradient,) = torch.autograd.grad(end.v.sum(), control)
    assert gradient.isfinite().all()


def test_a_simulator_without_delay_keeps_no_controls() -> None:
    sim = simulator(parameters=declared(WIND))
    assert sim.step(sim.rest_state(), memory=values()["memory"]).past_controls is None


def test_parameters_are_those_of_the_model_by_default(sim: Simulator) -> None:
    x = values()
    defaults = torch.tensor([[0.1, 0.0]], dtype=torch.float64).repeat(WORLDS, 1)
    ends = [sim.step(State(x["q"], x["v"]), x["control"], parameters=p, memory=x["memory"]).v for p in (None, defaults)]
    assert torch.equal(*ends)


def test_parameters_are_checked_once_and_again_after_a_change_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, x, checked = simulator(), values(), []
    check = Parameters.check
    monkeypatch.setattr(Parameters, "check", lambda self, given: checked.append(1) or check(self, given))

    def step(sim: Simulator) -> State:
        return sim.step(State(x["q"], x["v"]), parameters=x["parameters"], memory=x["memory"])

    for _ in range(3):
        step(sim)
    assert len(checked) == 1
    x["parameters"][1, 0] = -1.0
    with pytest.raises(InputError, match="dof_damping:shoulder"):
        step(sim)
    step(simulator(validate_parameters=False))


def test_parameters_that_were_checked_are_not_kept_alive(sim: Simulator) -> None:
    leaf = values()["parameters"].requires_grad_()
    released: list[int] = []
    middle = leaf * 1.0
    weakref.finalize(middle, released.append, 1)
    sim.step(State(values()["q"], values()["v"]), parameters=middle, memory=values()["memory"])
    del middle
    assert released


def test_wrong_inputs_are_refused(sim: Simulator) -> None:
    x = values()
    state = State(x["q"], x["v"])
    with pytest.raises(InputError, match=r"memory of: push \(1\), target \(2\); got none"):
        sim.step(state)
    with pytest.raises(InputError, match=r"memory must be a torch.float64 tensor of shape \[3, 3\]"):
        sim.step(state, memory=x["memory"][:, :2])
    with pytest.raises(InputError, match=r"parameters must be a torch.float64 tensor of shape \[3, 2\]"):
        sim.step(state, parameters=x["parameters"][:, :1], memory=x["memory"])
    with pytest.raises(InputError, match=r"state.past_controls must be a torch.float64 tensor of shape \[3, 2, 2\]"):
        sim.step(State(x["q"], x["v"], past_controls=x["past"][:, :1]), memory=x["memory"])
    plain = Simulator(load_model(ARM), num_worlds=WORLDS, dt=0.01, substeps=1, dtype=torch.float64)
    with pytest.raises(InputError, match=r"has no parameters: create it with parameters=model.parameters"):
        plain.step(state, parameters=x["parameters"])
    with pytest.raises(InputError, match=r"memory of: none; got a tensor of shape \[3, 3\]"):
        plain.step(state, memory=x["memory"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parameters": ["body_mass:*"]}, r"must come from model.parameters\(.*got list"),
        ({"memory": ["push"]}, r"memory must map names to sizes.*got \['push'\]"),
        ({"memory": {"push": 0}}, "size of memory 'push' must be a whole number of at least 1, got 0"),
        ({"memory": {"push": 1.5}}, "size of memory 'push' must be a whole number"),
        ({"controller": 3}, "controller must be a function of a World, got 3"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulator(**settings)


def test_parameters_of_another_model_are_refused() -> None:
    other = load_model(ARM.replace('mass="1"', 'mass="2"')).parameters("body_mass:*")
    with pytest.raises(InputError, match="selected from another model"):
        Simulator(load_model(ARM), num_worlds=1, dt=0.01, substeps=1, parameters=other)


@pytest.mark.parametrize(("returned", "described"), [([0.0], "1 of them"), (0.0, "float")])
def test_controllers_that_return_too_little_are_refused(returned: object, described: str) -> None:
    with pytest.raises(TraceError, match=f"a list of 2 controls, one per actuator, got {described}"):
        simulator(controller=lambda world: returned)


def test_maps_take_memory() -> None:
    sim, x = simulator(), values()
    rest, still = torch.zeros(WORLDS, 2, dtype=torch.float64), torch.zeros(WORLDS, 2, dtype=torch.float64)
    rest[:, 1] = 1.0
    p = x["parameters"]
    pushed = sim.acceleration(rest, still, still, parameters=p, memory=x["memory"])
    by_hand = still.clone()
    by_hand[:, 0] = x["parameters"][:, 0] * x["memory"][:, 0] * np.sin(1.0)
    free = sim.acceleration(rest, still, by_hand, parameters=p, memory=torch.zeros_like(x["memory"]))
    torch.testing.assert_close(pushed, free, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("group", ["memory", "parameters"])
def test_names_that_are_not_declared_are_refused(group: str) -> None:
    with pytest.raises(TraceError, match=r"no memory or parameter of that name is declared: 'wing'; declared: \w"):
        simulator(readouts={"wing": lambda world: getattr(world, group)["wing"]})


def test_the_derivative_by_the_delay_is_a_difference_of_controls_up_to_the_longest_delay() -> None:
    """Between two samples it is that of the line through them; at the longest delay, that of the last line."""
    program = trace(lambda u, delay: {"mean": delayed([[x] for x in u], delay[0])}, {"u": 3, "delay": 1})
    u = np.array([0.3, -0.5, 0.9])
    delays = np.array([[0.0], [0.6], [1.0], [1.7], [2.0]])
    given = {"u": np.tile(u, (5, 1)), "delay": delays}
    np.testing.assert_allclose(evaluate(program, given)["mean"][:, 0], np.interp(delays[:, 0], [0, 1, 2], u))
    slopes = evaluate(adjoint(program, ["delay"]), {**given, "mean_bar": np.ones((5, 1))})["delay_bar"][:, 0]
    np.testing.assert_allclose(slopes, [-0.8, -0.8, 1.4, 1.4, 1.4])
