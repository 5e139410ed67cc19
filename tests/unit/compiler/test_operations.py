"""Every operation: its value, its compiled code and its derivative, against numpy over a grid."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ahac.native.build import Target
from ahac.sim import Real, abs_, atan2, clip, cos, exp, log, maximum, minimum, sin, sqrt, stop_gradient, tanh, where
from ahac.sim.autograd import Launcher, MapKernels
from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.operations import OPERATIONS, barrier
from ahac.sim.compiler.program import Program, adjoint, evaluate, trace

Function = Callable[..., Real]
Reference = Callable[..., np.ndarray]

MEANING: dict[str, tuple[Function, Reference]] = {
    "add": (lambda x, y, p: x + y, lambda x, y, p: x + y),
    "sub": (lambda x, y, p: x - y, lambda x, y, p: x - y),
    "mul": (lambda x, y, p: x * y, lambda x, y, p: x * y),
    "neg": (lambda x, y, p: -x, lambda x, y, p: -x),
    "rcp": (lambda x, y, p: y / p, lambda x, y, p: y / p),
    "sqrt": (lambda x, y, p: sqrt(p), lambda x, y, p: np.sqrt(p)),
    "sin": (lambda x, y, p: sin(x), lambda x, y, p: np.sin(x)),
    "cos": (lambda x, y, p: cos(x), lambda x, y, p: np.cos(x)),
    "exp": (lambda x, y, p: exp(x), lambda x, y, p: np.exp(x)),
    "log": (lambda x, y, p: log(p), lambda x, y, p: np.log(p)),
    "tanh": (lambda x, y, p: tanh(x), lambda x, y, p: np.tanh(x)),
    "abs": (lambda x, y, p: abs_(x), lambda x, y, p: np.abs(x)),
    "atan2": (lambda x, y, p: atan2(x, y), lambda x, y, p: np.arctan2(x, y)),
    "min": (lambda x, y, p: minimum(x, y), lambda x, y, p: np.minimum(x, y)),
    "max": (lambda x, y, p: maximum(x, y), lambda x, y, p: np.maximum(x, y)),
    "less": (lambda x, y, p: where(x < y, x * y, p), lambda x, y, p: np.where(x < y, x * y, p)),
    "stop": (lambda x, y, p: stop_gradient(x) * y, lambda x, y, p: x * y),
    "mark": (lambda x, y, p: barrier(x.graph, x * y), lambda x, y, p: x * y),
    "power": (lambda x, y, p: x**7, lambda x, y, p: x**7),
    "clip": (lambda x, y, p: clip(x, -1.0, 0.7), lambda x, y, p: np.clip(x, -1.0, 0.7)),
}
"""What is written, and what numpy makes of it; x and y are any numbers, p is positive."""

SIDE = np.linspace(-3.05, 3.1, 14)
X, Y = (a.ravel() for a in np.meshgrid(SIDE, SIDE + 0.013))
P = np.geomspace(0.1, 30.0, len(X))
GRID = np.stack([X, Y, P], axis=-1)
"""[points, 3]; x and y are never equal, nor on the bounds of `clip`."""

EPS = 1e-6
DIFFERENCES = 1e-7
"""Of central differences at that eps, relative to one or to the derivative: rounding 1e-16 / eps, and a margin."""

ROUNDING = {torch.float64: 4e-15, torch.float32: 1e-6}
"""Of compiled code, relative to one or to the value: a few units in the last place of the type."""


def program_of(function: Function) -> Program:
    return trace(lambda x: {"y": [function(*x)]}, {"x": 3})


def everything() -> Program:
    return trace(lambda x: {"y": [function(*x) for function, _ in MEANING.values()]}, {"x": 3})


def launch(program: Program, dtype: torch.dtype, device: torch.device, **groups: np.ndarray) -> dict[str, np.ndarray]:
    """The compiled program on [points, size] arrays."""
    target = Target(str(device) if device.type == "cpu" else "cuda:0", dtype == torch.float64, lane_bytes=32)
    kernels = MapKernels(Launcher(target, device, dtype, "test", 1), "operations", lambda: program)
    found = kernels(*(torch.from_numpy(groups[name]).to(device, dtype) for name in program.inputs))
    return {name: value.double().cpu().numpy() for name, value in found.items()}


def test_every_operation_is_covered() -> None:
    assert set(OPERATIONS) - {"implicit"} <= set(MEANING)


@pytest.mark.parametrize("name", MEANING)
def test_the_value_is_numpys(name: str) -> None:
    function, reference = MEANING[name]
    np.testing.assert_allclose(evaluate(program_of(function), {"x": GRID})["y"][:, 0], reference(X, Y, P), rtol=1e-14)


@pytest.mark.parametrize("name", sorted(set(MEANING) - {"mark"}))
def test_plain_numbers_stay_plain_numbers(name: str) -> None:
    function, reference = MEANING[name]
    for row in GRID[::9]:
        value = function(*map(float, row))
        assert isinstance(value, float)
        assert value == pytest.approx(float(reference(*row)), rel=1e-14)


@pytest.mark.parametrize("name", MEANING)
def test_the_derivative_is_that_of_central_differences(name: str) -> None:
    function, reference = MEANING[name]
    found = evaluate(adjoint(program_of(function), ["x"]), {"x": GRID, "y_bar": np.full((len(GRID), 1), 1.7)})["x_bar"]
    for k in range(3):
        step = np.zeros(3)
        step[k] = EPS
        plus, minus = (reference(*(GRID + sign * step).T) for sign in (1.0, -1.0))
        wanted = 1.7 * (plus - minus) / (2.0 * EPS)
        if name == "stop" and k == 0:
            wanted = np.zeros(len(GRID))
        assert np.all(np.abs(found[:, k] - wanted) < DIFFERENCES * np.maximum(1.0, np.abs(wanted))), k


@pytest.mark.parametrize("dtype", ROUNDING)
def test_compiled_code_computes_the_same(dtype: torch.dtype, device: torch.device) -> None:
    """The operations themselves and their derivatives; the grid is rounded to the type first."""
    x = torch.from_numpy(GRID).to(dtype).double().numpy()
    bars = np.random.default_rng(0).standard_normal((len(GRID), len(MEANING))).astype(np.float32).astype(np.float64)
    program = everything()
    for made, groups in ((program, {"x": x}), (adjoint(program, ["x"]), {"x": x, "y_bar": bars})):
        wanted = evaluate(made, groups)
        for name, value in launch(made, dtype, device, **groups).items():
            scale = np.maximum(1.0, np.abs(wanted[name])) if name == "y" else np.abs(wanted[name]).max(axis=0)
            assert np.all(np.abs(value - wanted[name]) < ROUNDING[dtype] * scale)


SINE = 1.2e-7
"""Error of a float32 sine or cosine up to a thousand radians: one unit in the last place of 1. Measured: 9.2e-8."""


def test_float32_sines_hold_for_large_angles(device: torch.device) -> None:
    """A hinge that has spun a hundred times still has its angle."""
    angles = np.linspace(-1e3, 1e3, 100_003, dtype=np.float32).astype(np.float64)[:, None]
    program = trace(lambda x: {"y": [sin(x[0]), cos(x[0])]}, {"x": 1})
    found = launch(program, torch.float32, device, x=angles)["y"]
    assert np.abs(found - np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)).max() < SINE


LOGARITHM = 2e-7
"""Error of a float32 logarithm, relative to one or to the value: two units in the last place. Measured: 7.9e-8."""


def test_float32_logarithms_hold_for_all_numbers(device: torch.device) -> None:
    """Denormal numbers, all orders of magnitude, and the neighborhood of one, which normal noise uses."""
    numbers = np.concatenate([np.geomspace(1e-44, 3.4e38, 100_003), 1.0 + np.linspace(-0.9, 0.9, 100_003)])
    numbers = numbers.astype(np.float32).astype(np.float64)[:, None]
    program = trace(lambda x: {"y": [log(x[0])]}, {"x": 1})
    found, wanted = launch(program, torch.float32, device, x=numbers)["y"], np.log(numbers)
    assert (np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))).max() < LOGARITHM
    special = np.array([[0.0], [np.inf], [-1.0], [-np.inf], [np.nan]])
    found = launch(program, torch.float32, device, x=special)["y"][:, 0]
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, np.nan, np.nan])


TIES: list[tuple[Callable[[Scalar, Scalar], Real], tuple[float, float]]] = [
    (minimum, (1.0, 0.0)),
    (maximum, (1.0, 0.0)),
    (lambda a, b: where(a < b, a, b), (0.0, 1.0)),
    (lambda a, b: where(a > b, a, b), (0.0, 1.0)),
    (lambda a, b: where(a <= b, a, b), (1.0, 0.0)),
    (lambda a, b: where(a >= b, a, b), (1.0, 0.0)),
    (lambda a, b: clip(a, 0.5, 0.5), (1.0, 0.0)),
    (lambda a, b: abs_(a - b), (1.0, -1.0)),
]
"""What is written, and its derivatives by a and b where a = b = 0.5."""


@pytest.mark.parametrize("dtype", ROUNDING)
def test_on_a_tie_the_rule_decides(dtype: torch.dtype, device: torch.device) -> None:
    """Equal arguments: the first one counts, and only <= and >= hold."""
    program = trace(lambda x: {"y": [function(*x) for function, _ in TIES]}, {"x": 2})
    back = adjoint(program, ["x"])
    at = np.full((len(TIES), 2), 0.5)
    seeds = np.eye(len(TIES))
    for found in (evaluate(back, {"x": at, "y_bar": seeds}), launch(back, dtype, device, x=at, y_bar=seeds)):
        assert np.array_equal(found["x_bar"], np.array([derivatives for _, derivatives in TIES]))


def test_an_infinite_bound_is_none(device: torch.device) -> None:
    program = trace(lambda x: {"y": [clip(x[0], 0.0, float("inf"))]}, {"x": 1})
    assert np.array_equal(launch(program, torch.float32, device, x=np.array([[-1.0], [2.0]]))["y"], [[0.0], [2.0]])
