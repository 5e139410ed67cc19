"""The identification example: two seconds of data give all six parameters."""

import runpy
from pathlib import Path

import ahac
from ahac.sim import load_model

SCRIPT = Path(__file__).parents[3] / "examples" / "identify_robot.py"
TOLERANCE = 0.02
"""Noise and differences between the simulators are below 0.5 %."""


def test_the_estimates_are_the_true_values() -> None:
    example = runpy.run_path(str(SCRIPT))
    true = example["TRUE"]
    recording = example["measure"](example["targets"](2.0))
    result = ahac.identify(load_model(example["ARM"]), recording, list(true), integrator="explicit", num_threads=1)
    assert set(result.by_label) == set(true)
    for name, value in true.items():
        assert abs(result.by_label[name] - value) < TOLERANCE * value, name
