"""The example of an own robot: it stands without actions, and standing still earns little."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import ahac
from ahac.envs import VecEnv

SCRIPT = Path(__file__).parents[3] / "examples" / "own_robot.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def env(example: dict[str, Any]) -> VecEnv:
    return ahac.make(example["puppy"](), num_envs=4, num_threads=1)


def test_every_joint_has_a_servo(example: dict[str, Any]) -> None:
    names = {actuator.name for actuator in example["robot"]().actuators}
    assert names == {f"{leg}_{joint}" for leg in example["CORNERS"] for joint in ("hip", "knee")}


@torch.no_grad()
def test_it_stands_without_actions(env: VecEnv) -> None:
    for _ in range(100):
        step = env.step(torch.zeros(4, 8))
        assert not step.terminated.any()
    assert env.state.q[:, 2] == pytest.approx(0.25, abs=0.03)
    assert step.reward.max() < 1.0, "0.5 for its heading; 2 more at the wanted speed"


@torch.no_grad()
def test_the_wanted_speed_earns_most(env: VecEnv, example: dict[str, Any]) -> None:
    q, v, *others = env.buffers
    v = torch.zeros_like(v)
    v[:, 0] = example["SPEED"] * torch.tensor([0.0, 0.5, 1.0, 1.5])
    env.set_buffers([q, v, *others])
    terms = env.step(torch.zeros(4, 8)).reward_terms[:, 0]
    assert terms.argmax() == 2
    assert terms[2] == pytest.approx(2.0, abs=0.1)
