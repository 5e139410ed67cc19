"""`Footsteps`: terms against numbers computed by hand, and their gradients against central differences."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from ahac.envs import Footsteps, GaitClock, VelocityCommand
from ahac.envs.components.sensors import foot_points
from ahac.sim import InputError, Simulator, State, World, load_model
from support.components import ROBOT, TRUNK, depths
from support.robots import mjcf

MODEL = load_model(ROBOT)
"""A trunk on two legs that are slides along z; each foot has a heel and a toe, balls of 5 cm, 20 cm apart."""
LENGTH = 0.4
"""Of a leg from the trunk's origin to the lowest point of the foot, at a slide of zero [m]."""

COMMAND, CLOCK = VelocityCommand(), GaitClock(offsets=(0.0, 0.5))
PLACES = ((0.0, 0.1), (0.0, -0.1))
STEPS = Footsteps(("left_*", "right_*"), CLOCK, COMMAND, TRUNK, PLACES, swing_height=0.08)
WIDE = Footsteps(("left_*", "right_*"), CLOCK, COMMAND, TRUNK, ((0.0, 0.2), (0.0, -0.2)))
"""Places that are twice as far apart as the feet can be."""
TERMS: dict[str, Callable[..., Any]] = {
    "heights": STEPS.heights,
    "swing_height": STEPS.swing_height_l2,
    "slip": STEPS.slip_l2,
    "foothold": STEPS.foothold_l2,
    "feet_apart": WIDE.feet_apart_l2,
}

CORNER = 2.0 / math.pi * math.atan2(1.0, 0.1)
"""Largest value of the triangle wave, whose corners are rounded."""
ROUNDING = 1e-12

WORLDS = 64
EPS = 1e-7
"""Small against 1 cm / 6, over which the weight of slip changes by a factor e at 3 cm."""
GRADIENT_TOLERANCE = 1e-7
"""Relative to the norm of the gradient: rounding of central differences in float64; usually 1e-9."""


def make_world(
    height: float = LENGTH,
    slides: tuple[float, float] = (0.0, 0.0),
    turn: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0),
    velocity: tuple[float, ...] = (0.0,) * 6,
    command: tuple[float, ...] = (1.0, 0.0, 0.0),
    phase: float = 0.0,
) -> World:
    """A world of plain numbers at a phase of the left foot, with 2 gait cycles per second."""
    world = World(MODEL, [0.7, -0.2, height, *turn, *slides], [*velocity, 0.0, 0.0], [0.0, 0.0])
    world.memory = {"command": [*command, 9.0], "gait": [phase - 0.5, 2.0]}
    world.clock = lambda: 0.25
    return world


def about(axis: int, angle: float) -> tuple[float, ...]:
    return (math.cos(0.5 * angle), *(math.sin(0.5 * angle) * (axis == i) for i in range(3)))


def test_heights_are_those_of_the_lowest_points() -> None:
    assert STEPS.heights(make_world(LENGTH + 0.1, (0.03, -0.2)), []) == pytest.approx([0.13, -0.1])
    for axis in (0, 1):
        tilted = make_world(LENGTH + 0.1, (0.03, 0.01), about(axis, 0.3))
        assert STEPS.heights(tilted, []) == pytest.approx(list(-depths(np.array(tilted.q))))


@pytest.mark.parametrize(
    ("phase", "left", "right"),
    [(0.0, 0.0, 0.0), (0.25, 0.0, 1.0), (0.75, 1.0, 0.0), (0.6, math.sin(0.2 * math.pi), 0.0)],
)
def test_feet_swing_in_the_second_half_of_their_cycle(phase: float, left: float, right: float) -> None:
    found = STEPS.swing_height_l2(make_world(LENGTH, (0.02, 0.05), phase=phase), [])
    assert found == pytest.approx((0.02 - 0.08 * left) ** 2 + (0.05 - 0.08 * right) ** 2)


def test_the_swing_height_counts_all_points_of_a_foot() -> None:
    tilt = 0.2
    found = STEPS.swing_height_l2(make_world(turn=about(1, tilt)), [])
    middle = LENGTH - 0.05 - 0.35 * math.cos(tilt)
    each = [middle + 0.1 * math.sin(tilt), middle - 0.1 * math.sin(tilt)]
    assert found == pytest.approx(sum(height**2 for height in each))  # two feet, each the mean of two points


@pytest.mark.parametrize(
    ("command", "share"),
    [
        ((0.0, 0.0, 0.0), 0.0),
        ((0.05, 0.0, 0.0), 0.25),
        ((0.0, -0.05, 0.0), 0.25),
        ((0.0, 0.0, 0.2), 0.36),
        ((0.1, 0.0, 0.0), 1.0),
        ((2.0, 1.0, -1.0), 1.0),
    ],
)
def test_slow_commands_lower_the_swing_height(command: tuple[float, ...], share: float) -> None:
    found = STEPS.swing_height_l2(make_world(command=command, phase=0.75), [])
    assert found == pytest.approx((0.08 * share) ** 2)


def test_slip_counts_near_the_ground() -> None:
    world = make_world(LENGTH, (0.0, 0.01), velocity=(0.3, -0.4, 5.0, 0.0, 0.0, 0.0))
    assert STEPS.slip_l2(world, []) == pytest.approx(0.25 * (1.0 + math.exp(-1.0)))
    turning = make_world(LENGTH, (0.0, 1.0), velocity=(0.0, 0.0, 0.0, 0.0, 0.0, 3.0))
    assert STEPS.slip_l2(turning, []) == pytest.approx(9.0 * (0.1**2 + 0.1**2))  # heel and toe, 0.14 m from the axis


def test_feet_in_the_stance_are_in_place_at_a_command_of_zero() -> None:
    for turn in (about(2, 0.0), about(2, 2.5)):
        assert STEPS.foothold_l2(make_world(command=(0.0, 0.0, 0.0), turn=turn), []) == pytest.approx(0.0, abs=ROUNDING)


@pytest.mark.parametrize(("phase", "wave"), [(0.0, CORNER), (0.25, 0.0), (0.5, -CORNER), (0.75, 0.0), (1.0, CORNER)])
def test_feet_land_ahead_and_lift_off_behind(phase: float, wave: float) -> None:
    reach = wave * 0.25 / 2.0  # half a step per unit of velocity, at 2 Hz
    for turn in (about(2, 0.0), about(2, -1.2)):
        ahead = make_world(command=(0.6, 0.4, 0.0), phase=phase, turn=turn)
        assert STEPS.foothold_l2(ahead, []) == pytest.approx(2 * reach**2 * (0.6**2 + 0.4**2), abs=ROUNDING)
        turning = make_world(command=(0.6, 0.0, 0.5), phase=phase, turn=turn)
        expected = reach**2 * ((0.6 - 0.05) ** 2 + (0.6 + 0.05) ** 2)
        assert STEPS.foothold_l2(turning, []) == pytest.approx(expected, abs=ROUNDING)


def test_the_wave_is_a_triangle_in_between() -> None:
    """A foot that stands moves back at the commanded velocity, up to the rounding of the corners."""
    steps = Footsteps(("left_*",), GaitClock(offsets=(0.0,)), COMMAND, TRUNK, PLACES[:1])
    found = [math.sqrt(steps.foothold_l2(make_world(phase=phase), [])) for phase in (0.1, 0.15, 0.2)]
    speeds = [(a - b) / 0.05 * 2.0 for a, b in pairwise(found)]  # 0.05 cycles at 2 Hz
    assert speeds == pytest.approx([1.0, 1.0], rel=0.1)


@pytest.mark.parametrize(("left", "missing"), [(0.05, 0.0), (0.125, 0.0), (0.2, 0.12)])
def test_feet_should_be_at_least_80_percent_of_the_stance_apart(left: float, missing: float) -> None:
    steps = Footsteps(("left_*", "right_*"), CLOCK, COMMAND, TRUNK, ((0.0, left), (0.0, -left)))
    for turn in (about(2, 0.0), about(2, 2.0)):
        assert steps.feet_apart_l2(make_world(turn=turn), [0.0, 0.0]) == pytest.approx(missing**2, abs=ROUNDING)


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    def readout(term: Callable[..., Any]) -> Callable[[World], Any]:
        def at_time_zero(world: World) -> Any:  # noqa: ANN401 - a number or several
            world.clock = lambda: 0.0
            return term(world, [])

        return at_time_zero

    return Simulator(
        MODEL,
        num_worlds=WORLDS,
        dt=0.02,
        substeps=1,
        dtype=torch.float64,
        readouts={name: readout(term) for name, term in TERMS.items()},
        memory={"command": 4, "gait": 2},
    )


@pytest.mark.parametrize("contact", [False, True], ids=["in the air", "in contact"])
@pytest.mark.parametrize("term", TERMS)
def test_gradients_match_central_differences(simulator: Simulator, term: str, contact: bool) -> None:
    generator = torch.Generator().manual_seed(5)

    def drawn(*sizes: int) -> torch.Tensor:
        return 2.0 * torch.rand(WORLDS, *sizes, generator=generator, dtype=torch.float64) - 1.0

    height = LENGTH + (-0.01 if contact else 0.03) + 0.002 * drawn(1)
    turn = torch.tensor([1.0, 0.0, 0.0, 0.0]) + drawn(4) * torch.tensor([0.0, 0.01, 0.01, 1.0])
    turn = turn / turn.norm(dim=-1, keepdim=True)
    q = torch.cat([drawn(2), height, turn, 0.002 * drawn(2)], dim=-1)
    found = -depths(q.numpy())
    assert (found < 0.0).all() if contact else (found > 0.01).all()
    v, memory = drawn(8), torch.cat([drawn(4), drawn(1), torch.full((WORLDS, 1), 2.0)], dim=-1)

    def total(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return simulator.evaluate_readouts(State(q, v), memory=memory)[term].reshape(WORLDS, -1).sum(dim=-1)

    q.requires_grad_()
    v.requires_grad_()
    gradients = torch.autograd.grad(total(q, v).sum(), (q, v), allow_unused=True, materialize_grads=True)
    norm = torch.cat(gradients, dim=-1).norm(dim=-1)
    assert (norm > 0.0).all()
    along_q, along_v = drawn(9), drawn(8)
    along_q[:, 3:7] -= (along_q[:, 3:7] * turn).sum(dim=-1, keepdim=True) * turn  # keeps quaternions at length 1
    with torch.no_grad():
        ends = [total(q + eps * along_q, v + eps * along_v) for eps in (EPS, -EPS)]
    slope = (gradients[0] * along_q).sum(dim=-1) + (gradients[1] * along_v).sum(dim=-1)
    assert (((ends[0] - ends[1]) / (2.0 * EPS) - slope).abs() / norm).max() < GRADIENT_TOLERANCE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock": GaitClock(offsets=(0.0, 0.5, 0.5))}, "2 feet but 3 clock.offsets"),
        ({"footholds": PLACES[:1]}, "2 feet but 1 footholds"),
        ({"swing_height": 0.0}, "Footsteps.swing_height"),
        ({"contact_height": -0.01}, "Footsteps.contact_height"),
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any], message: str) -> None:
    settings = {"feet": STEPS.feet, "clock": CLOCK, "command": COMMAND, "base": TRUNK, "footholds": PLACES}
    with pytest.raises(InputError, match=message):
        Footsteps(**{**settings, **change})


def test_unknown_geoms_are_named() -> None:
    with pytest.raises(InputError, match=r"'middle_\*'; geoms with contact points: left_heel, left_toe, right_heel"):
        foot_points(make_world(), ("left_*", "middle_*"))
    flying = load_model(mjcf('<body name="ball" pos="0 0 1"><freejoint/><geom name="ball" size="0.1"/></body>'))
    with pytest.raises(InputError, match="no ground; load_model"):
        foot_points(World(flying, flying.rest_q, [0.0] * 6, []), ("ball",))
