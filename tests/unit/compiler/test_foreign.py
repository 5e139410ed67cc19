"""Functions of numpy, torch and math on traced values: an error that names the function and what to write instead."""

# pyright: reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportReturnType=false

import inspect
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import ahac
import ahac.sim
from ahac.envs import Action
from ahac.envs.registry import make_task
from ahac.sim import Scalar, TraceError, World, trace
from ahac.sim.compiler.foreign import COUNTERPARTS, FUNCTIONS

Mistake = Callable[[Scalar, Scalar], object]
TWO = np.array([1.0, 2.0])

NAMED: dict[str, tuple[Mistake, str]] = {
    "numpy.sin": (lambda a, b: np.sin(a), "use ahac.sim.sin"),
    "numpy.norm": (lambda a, b: np.linalg.norm(ahac.sim.Vec3(a, b, 0.0)), "use ahac.sim.norm"),
    "numpy.cross": (lambda a, b: np.cross(ahac.sim.Vec3(a, b, 0.0), [1.0, 0.0, 0.0]), r"use a.cross\(b\)"),
    "numpy.absolute": (lambda a, b: np.abs(a), "use ahac.sim.abs_"),
    "numpy.arctan2": (lambda a, b: np.arctan2(a, b), "use ahac.sim.atan2"),
    "numpy.maximum": (lambda a, b: np.maximum(a, 0.0), "use ahac.sim.maximum"),
    "numpy.clip": (lambda a, b: np.clip(a, 0.0, 1.0), "use ahac.sim.clip"),
    "numpy.where": (lambda a, b: np.where(a < b, 1.0, 0.0), "use ahac.sim.where"),
    "numpy.arcsin": (lambda a, b: np.arcsin(a), "ahac.sim has: abs_, atan2, clip, cos, .*where"),
    "numpy.multiply": (lambda a, b: np.float64(2.0) * (a < b), "use the operator"),
    "torch.exp": (lambda a, b: torch.exp(a), "use ahac.sim.exp"),
    "torch.clamp": (lambda a, b: torch.clamp(a, 0.0, 1.0), "use ahac.sim.clip"),
    "torch.where": (lambda a, b: torch.where(a < b, 1.0, 0.0), "use ahac.sim.where"),
    "torch.stack": (lambda a, b: torch.stack([a, b]), r"use a list or ahac.sim.Vec3"),
    "torch.erf": (lambda a, b: torch.erf(a), "ahac.sim has: abs_, atan2, clip, cos, .*where"),
}
CONVERSIONS: dict[str, Mistake] = {
    "math.sin": lambda a, b: math.sin(a),
    "math.trunc": lambda a, b: math.trunc(a),
    "float": lambda a, b: float(a),
    "float of a comparison": lambda a, b: float(a < b),
    "int": lambda a, b: int(a),
    "index": lambda a, b: [1.0, 2.0][a],
    "range": lambda a, b: list(range(a)),
    "round": lambda a, b: round(a),
    "entry of an array": lambda a, b: TWO.copy().__setitem__(0, a),
}
OPERATORS: list[Mistake] = [
    lambda a, b: TWO * a,
    lambda a, b: a * TWO,
    lambda a, b: TWO + a,
    lambda a, b: a + TWO,
    lambda a, b: TWO - a,
    lambda a, b: a - TWO,
    lambda a, b: TWO / a,
    lambda a, b: a / TWO,
    lambda a, b: a**TWO,
    lambda a, b: np.less(TWO, a),
    lambda a, b: a < TWO,
    lambda a, b: torch.ones(2) * a,
    lambda a, b: a * torch.ones(2),
]
ARRAYS: list[Mistake] = [
    lambda a, b: np.array([a, b]),
    lambda a, b: np.asarray(a),
    lambda a, b: np.sum([a, b]),
    lambda a, b: np.dot(TWO, [a, b]),
    lambda a, b: np.linalg.norm([a, b]),
]


def refused(mistake: Mistake, message: str) -> None:
    """Assert that tracing a mistake raises this error."""
    with pytest.raises(TraceError, match=message):
        trace(lambda x: {"y": [mistake(x[0], x[1])]}, {"x": 2})


@pytest.mark.parametrize("name", NAMED)
def test_a_function_is_named_with_its_replacement(name: str) -> None:
    mistake, advice = NAMED[name]
    refused(mistake, f"^{name} needs the value of a traced scalar, .* every world; {advice}")


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_to_a_number_lists_the_functions(name: str) -> None:
    refused(
        CONVERSIONS[name], "needs the value of a traced scalar, .*; take functions from ahac.sim instead of math: abs_,"
    )


@pytest.mark.parametrize("mistake", OPERATORS)
def test_an_operator_with_an_array_is_refused(mistake: Mistake) -> None:
    refused(mistake, r"cannot be combined with an array, got (ndarray|Tensor) of shape \[2\]; loop over its entries")


@pytest.mark.parametrize("mistake", ARRAYS)
def test_an_array_of_traced_scalars_is_refused(mistake: Mistake) -> None:
    refused(mistake, r"^a numpy array needs the value .*; use a list or ahac\.sim\.Vec3")


def test_a_power_of_a_traced_exponent_is_refused() -> None:
    refused(lambda a, b: a**b, r"integer powers from 1 to 64, got Scalar.*; use exp and log")


def test_replacements_exist() -> None:
    operations = {
        name
        for name in ahac.sim.__all__
        if inspect.isfunction(function := getattr(ahac.sim, name))
        and function.__module__ in ("ahac.sim.compiler.operations", "ahac.sim.physics.algebra")
    }
    assert operations == set(FUNCTIONS)
    for advice in COUNTERPARTS.values():
        for word in advice.split("ahac.sim.")[1:]:
            name = word.partition("(")[0].split()[0]
            assert name in ahac.sim.__all__, advice


def test_a_mistake_in_a_reward_is_explained_when_the_environment_is_made() -> None:
    def reward(world: World, action: Action) -> float:
        return np.exp(world.q[0])

    task = make_task("cartpole")
    with pytest.raises(TraceError, match=r"numpy.exp needs the value of a traced scalar.*; use ahac.sim.exp"):
        ahac.make(replace(task, reward={"mine": reward}), num_envs=1)
