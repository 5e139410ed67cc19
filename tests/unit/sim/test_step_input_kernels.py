"""Kernels with parameters and memory: loops over contact points, and CUDA threads that share a world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ahac.sim import AppliedForce, Model, Real, World, load_model
from ahac.sim.compiler.emit import step_adjoint_source, step_source
from ahac.sim.compiler.program import Program, StepPrograms, adjoint, evaluate
from ahac.sim.physics import contact_loops, implicit_contact
from ahac.sim.physics.contact import compliant, penalty
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.emulated_cuda import run_shared_worlds
from support.robots import mjcf

WORLDS, STEPS = 2, 3
H = 0.01
"""Length of a substep that emulated kernels run with."""
ROUNDING = 1e-9
"""Relative to the largest number; the same operations of float64 in another order, over three stiff substeps."""

ROBOT = mjcf(
    """
<geom type="plane" size="1 1 1" conaffinity="1"/>
<body pos="0 0 0.1"><joint name="z" type="slide" axis="0 0 1"/><joint name="j" type="ball"/>
  <geom type="box" size="0.2 0.1 0.1" mass="1"/></body>
""",
    rest='<actuator><motor joint="z"/></actuator>',
)


@dataclass
class Wind:
    """Stands for `Parameters`: two numbers that a force law reads."""

    names: tuple[str, ...] = ("wind", "gust")
    size: int = 2

    def apply(self, model: Model, scalars: Sequence[Real]) -> Model:
        return model

    def by_name(self, scalars: Sequence[Real]) -> Mapping[str, Sequence[Real]]:
        return {name: [x] for name, x in zip(self.names, scalars, strict=True)}


def blow(world: World) -> list[AppliedForce]:
    wind, gust = (world.parameters[name][0] for name in ("wind", "gust"))
    # The product does not change from substep to substep; the first force is linear in it, the second is not.
    strength = wind * gust * world.memory["on"][0]
    return [world.apply_joint_force("z", strength), world.apply_joint_force("z", strength * wind * world.v[1])]


def drive(world: World) -> list[Real]:
    return [world.control[0] * world.memory["on"][0] - world.v[0] * world.memory["on"][1]]


def seen(world: World) -> Real:
    return world.q[0] * world.parameters["wind"][0] * world.memory["on"][1]


def traced(implicit: bool) -> StepPrograms:
    laws = ForceLaws(compliant if implicit else penalty, (blow,), implicit=implicit)
    wind: Any = Wind()
    return Programs(
        load_model(ROBOT), laws, {"seen": seen}, parameters=wind, memory={"on": 2}, controller=drive, dt=STEPS * H
    ).step()


def adjoints(programs: StepPrograms, extra: Sequence[str]) -> tuple[Program, Program, Program]:
    return (
        adjoint(programs.normalize_state, ["q"]),
        adjoint(programs.substep, ["q", "v", "u", "f", *extra], unknowns="qacc"),
        adjoint(programs.readout, ["q", "v", "u", "q0", "v0", *extra]),
    )


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = {"q": 5, "v": 4, "u": 1, "f": 4, "p": 2, "m": 2}
    x = {name: rng.uniform(-0.5, 0.5, (WORLDS, size)) for name, size in sizes.items()}
    x["q"] = np.array([-0.01, 1.0, 0.02, 0.01, 0.0]) + 0.02 * x["q"]
    return x


def by_evaluation(programs: StepPrograms, x: Mapping[str, np.ndarray], bars: Mapping[str, np.ndarray]) -> dict:
    """Return the results of a step and its gradients, substep by substep in numpy."""
    h = np.full((WORLDS, 1), H)
    fixed = {name: x[name] for name in ("u", "f", "p", "m")} | {"h": h}
    state = {"q": evaluate(programs.normalize_state, {"q": x["q"]})["q"], "v": x["v"]}
    first, states = state, []
    for _ in range(STEPS):
        states.append(state)
        state = evaluate(programs.substep, {**fixed, **state})
    ends = {**fixed, **state, "q0": first["q"], "v0": first["v"]}
    found = {"next_q": state["q"], "next_v": state["v"], "next_read_0": evaluate(programs.readout, ends)["read_0"]}
    normalize, substep, readout = adjoints(programs, ["p", "m"])
    sums = evaluate(readout, {**ends, "read_0_bar": bars["read_0_bar"]})
    q_bar, v_bar = bars["q_bar"] + sums["q_bar"], bars["v_bar"] + sums["v_bar"]
    total = {name: sums.get(f"{name}_bar", 0.0) for name in "ufpm"}
    for before in reversed(states):
        qacc = (state["v"] - before["v"]) / H
        back = evaluate(substep, {**fixed, **before, "qacc": qacc, "q_bar": q_bar, "v_bar": v_bar})
        q_bar, v_bar, state = back["q_bar"], back["v_bar"], before
        total = {name: bar + back[f"{name}_bar"] for name, bar in total.items()}
    q_bar = evaluate(normalize, {"q": x["q"], "q_bar": q_bar + sums["q0_bar"]})["q_bar"]
    return {**found, "q_bar": q_bar, "v_bar": v_bar + sums["v0_bar"], **{f"{n}_bar": b for n, b in total.items()}}


def bars_of_results() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    sizes = {"q_bar": 5, "v_bar": 4, "read_0_bar": 1}
    return {name: rng.uniform(-1.0, 1.0, (WORLDS, size)) for name, size in sizes.items()}


def by_threads(programs: StepPrograms, threads: int, extra: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the same from kernels with several threads per world, emulated."""
    x, bars = inputs(), bars_of_results()
    ends = {"next_q": np.empty((WORLDS, 5)), "next_v": np.empty((WORLDS, 4)), "next_read_0": np.empty((WORLDS, 1))}
    saved = np.empty(WORLDS * STEPS * 9)
    run_shared_worlds(step_source(programs, threads), {**x, "saved_states": saved, **ends}, WORLDS, STEPS)
    grads = {f"{name}_bar": np.full_like(x[name], np.nan) for name in ("q", "v", "u", "f", *extra)}
    incoming = {f"next_{name}": bar for name, bar in bars.items()}
    source = step_adjoint_source(*adjoints(programs, extra), threads)
    run_shared_worlds(source, {**x, "saved_states": saved, **ends, **incoming, **grads}, WORLDS, STEPS)
    return {**ends, **grads}


def assert_close(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    for name, numbers in found.items():
        np.testing.assert_allclose(
            numbers, expected[name], rtol=0.0, atol=ROUNDING * np.abs(expected[name]).max(), err_msg=name
        )


SLOW = pytest.mark.extended


@pytest.fixture(params=["implicit", pytest.param("explicit", marks=SLOW)])
def implicit(request: pytest.FixtureRequest) -> bool:
    return request.param == "implicit"


@pytest.fixture(params=["looped", pytest.param("unrolled", marks=SLOW)])
def programs(request: pytest.FixtureRequest, implicit: bool, monkeypatch: pytest.MonkeyPatch) -> StepPrograms:
    looped = request.param == "looped"
    monkeypatch.setattr(contact_loops, "EXPLICIT_FROM", 1 if looped else 1000)
    monkeypatch.setattr(implicit_contact, "LOOPED_FROM", 1 if looped else 1000)
    programs = traced(implicit)
    assert bool(programs.substep.graph.calls) == looped
    return programs


@pytest.mark.parametrize("threads", [pytest.param(1, marks=SLOW), 4])
def test_emulated_cuda_kernels(programs: StepPrograms, threads: int) -> None:
    expected = by_evaluation(programs, inputs(), bars_of_results())
    assert (np.abs(expected["p_bar"]) > 0.0).all()
    assert (np.abs(expected["m_bar"]) > 0.0).all()
    assert_close(by_threads(programs, threads, ["p", "m"]), expected)


@SLOW
def test_adjoint_without_parameters(programs: StepPrograms) -> None:
    found = by_threads(programs, 2, ["m"])
    assert "p_bar" not in found
    assert_close(found, by_evaluation(programs, inputs(), bars_of_results()))
