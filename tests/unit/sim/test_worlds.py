"""Worlds are strangers: neither their number nor their order, their neighbours or the threads change a bit of any."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.sim import Model, Simulator, State, load_model
from support.mujoco_oracle import compiled, random_states
from support.robots import ROVER

MANY = 17
"""More than two blocks of any number of lanes, and not a multiple of it."""

Rows = tuple[Tensor, Tensor, Tensor]


@pytest.fixture(scope="module")
def rover() -> Model:
    return load_model(ROVER)


@pytest.fixture(scope="module")
def rows(device: torch.device) -> Rows:
    """Positions, velocities and controls of worlds that differ; near the floor, so that some of them touch it."""
    q, v = random_states(compiled(ROVER), MANY, seed=3)
    q[:, 2] = np.linspace(0.1, 0.4, MANY)
    u = np.random.default_rng(4).uniform(-0.9, 0.9, size=(MANY, 1))
    return tuple(torch.tensor(x, dtype=torch.float32, device=device) for x in (q, v, u))  # pyright: ignore[reportReturnType]


def run(model: Model, rows: Sequence[Tensor], threads: int = 1, substeps: int = 8) -> dict[str, Tensor]:
    """The next state and the gradients of a step."""
    q, v, u = (x.clone().requires_grad_() for x in rows)
    sim = Simulator(model, num_worlds=len(q), dt=0.01, substeps=substeps, device=q.device, num_threads=threads)
    after = sim.step(State(q, v), u)
    (after.q.sum() + after.v.square().sum()).backward()
    assert q.grad is not None
    assert v.grad is not None
    assert u.grad is not None
    return {"q": after.q.detach(), "v": after.v.detach(), "q_bar": q.grad, "v_bar": v.grad, "u_bar": u.grad}


@pytest.fixture(scope="module")
def whole(rover: Model, rows: Rows) -> dict[str, Tensor]:
    return run(rover, rows)


def assert_same(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    for name, values in wanted.items():
        assert torch.equal(got[name], values), name


def test_worlds_differ(whole: dict[str, Tensor]) -> None:
    for name, values in whole.items():
        assert torch.isfinite(values).all(), name
        assert len(values.unique(dim=0)) == MANY, name


def test_same_inputs_give_the_same_bits(rover: Model, rows: Rows, whole: dict[str, Tensor]) -> None:
    assert_same(run(rover, rows), whole)


@pytest.mark.parametrize("worlds", [1, 2, 16])
def test_worlds_alone_are_as_in_company(worlds: int, rover: Model, rows: Rows, whole: dict[str, Tensor]) -> None:
    found = run(rover, [x[-worlds:] for x in rows])
    assert_same(found, {name: values[-worlds:] for name, values in whole.items()})


def test_permuted_worlds_give_permuted_answers(rover: Model, rows: Rows, whole: dict[str, Tensor]) -> None:
    order = torch.tensor(np.random.default_rng(5).permutation(MANY), device=rows[0].device)
    found = run(rover, [x[order] for x in rows])
    assert_same(found, {name: values[order] for name, values in whole.items()})


def test_threads_do_not_change_a_bit_nor_does_the_order_of_worlds_under_them(rover: Model, rows: Rows) -> None:
    # Enough work that it is worth sharing.
    many = [x.repeat(16, 1) for x in rows]
    single = run(rover, many, threads=1, substeps=64)
    order = torch.tensor(np.random.default_rng(6).permutation(len(many[0])), device=rows[0].device)
    double = run(rover, [x[order] for x in many], threads=2, substeps=64)
    assert_same(double, {name: values[order] for name, values in single.items()})


@pytest.mark.parametrize("which", [0, 5, MANY - 1])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_lost_world_leaves_the_others_alone(
    which: int, value: float, rover: Model, rows: Rows, whole: dict[str, Tensor]
) -> None:
    q = rows[0].clone()
    q[which, 7] = value
    found = run(rover, [q, *rows[1:]])
    others = [i for i in range(MANY) if i != which]
    assert_same({name: values[others] for name, values in found.items()}, {n: x[others] for n, x in whole.items()})
    sim = Simulator(rover, num_worlds=MANY, dt=0.01, substeps=8, device=q.device)
    finite = sim.is_finite(State(found["q"], found["v"])).tolist()
    assert finite == [i != which for i in range(MANY)]


@pytest.mark.parametrize(("group", "place"), [("q", 2), ("v", 6)])
def test_world_is_lost_by_any_of_its_numbers(group: str, place: int, rover: Model, rows: Rows) -> None:
    sim = Simulator(rover, num_worlds=MANY, dt=0.01, substeps=8, device=rows[0].device)
    state = State(rows[0].clone(), rows[1].clone())
    getattr(state, group)[3, place] = float("-inf")
    assert sim.is_finite(state).tolist() == [i != 3 for i in range(MANY)]
