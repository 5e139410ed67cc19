# pyright: reportAttributeAccessIssue=false
"""The example that runs an exported policy in MuJoCo observes what the task does, and needs neither ahac nor torch."""

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

import ahac
from ahac.deployment.observation import describe_components, describe_observation
from ahac.deployment.robot import describe_actuators
from ahac.envs import ActionHistory, ObservationHistory, observations, registry
from ahac.training.run import Run
from support.deployed import untrained, walker
from support.small_runs import small_algorithm, small_config

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "run_exported_policy.py"
ROBOT = ROOT / "src/ahac/envs/assets/anymal.xml"
TOLERANCE = 1e-4
"""The simulator's state and observation are float32."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry._tasks, "_factories", dict(registry._tasks._factories))
        ahac.register_task("walker", walker)
        out = tmp_path_factory.mktemp("runs")
        yield untrained(small_config(out, task="walker", algorithm=small_algorithm("anymal", "shac")))


@pytest.fixture(scope="module")
def policy(run: Run) -> Path:
    return ahac.export(run)


def test_the_example_observes_what_the_task_does(policy: Path) -> None:
    observe = runpy.run_path(str(SCRIPT))["observe"]
    about = json.loads(policy.with_suffix(".json").read_text(encoding="utf-8"))
    env = ahac.make(walker("quiet"), num_envs=1, seed=4)
    rng = torch.Generator().manual_seed(1)
    data = mujoco.MjData(mujoco.MjModel.from_xml_path(str(ROBOT)))
    action = torch.zeros(1, 12)
    for _ in range(6):
        action = 2.0 * torch.rand(1, 12, generator=rng) - 1.0
        env.step(action)
    data.qpos, data.qvel, data.time = env.state.q[0].numpy(), env.state.v[0].numpy(), 6 * env.spec.dt
    mujoco.mj_forward(data.model, data)
    names = [actuator["name"] for actuator in about["actuators"]]
    last = dict(zip(names, action[0].tolist(), strict=True))
    command = dict(zip(("lin_vel_x", "lin_vel_y", "ang_vel_z"), env.memory["command"][0, :3].tolist(), strict=True))
    np.testing.assert_allclose(observe(about, data, last, command, []), env.obs.numpy(), atol=TOLERANCE)


def test_the_example_observes_histories() -> None:
    observe = runpy.run_path(str(SCRIPT))["observe"]
    task = walker("quiet")
    joints = ObservationHistory(observations.limb_joint_vel("base", 0.1), 12, 3, "joint velocities")
    actions = ActionHistory(12, steps=2)
    task = replace(
        task,
        memory={**task.memory, **joints.memory, **actions.memory},
        observation={"velocities": joints.observation, "actions": actions.observation},
    )
    about = {"observation": describe_observation(task), "components": describe_components(task)}
    env = ahac.make(task, num_envs=1, seed=4)
    rng = torch.Generator().manual_seed(1)
    data = mujoco.MjData(mujoco.MjModel.from_xml_path(str(ROBOT)))
    names = [actuator["name"] for actuator in describe_actuators(task)]
    action, past = torch.zeros(1, 12), []
    for _ in range(5):
        data.qpos, data.qvel = env.state.q[0].numpy(), env.state.v[0].numpy()
        mujoco.mj_forward(data.model, data)
        seen = observe(about, data, dict(zip(names, action[0].tolist(), strict=True)), {}, past)
        np.testing.assert_allclose(seen, env.obs.numpy(), atol=TOLERANCE)
        action = 2.0 * torch.rand(1, 12, generator=rng) - 1.0
        env.step(action)


def test_the_example_runs_without_ahac_and_torch(policy: Path) -> None:
    blocked = "import sys; sys.modules['ahac'] = sys.modules['torch'] = None; import runpy; "
    code = f"{blocked}sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = [sys.executable, "-c", code, str(SCRIPT), str(policy), str(ROBOT), "1", "0.5", "0", "0"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = done.stdout.strip()
    assert text.startswith("after 1.00 s, qpos is [")
    qpos: list[Any] = json.loads(text.partition("qpos is ")[2])
    assert 0.3 < qpos[2] < 0.7, "an untrained policy near the stance stands"


BASE = '<body pos="0 0 1"> <freejoint/> <geom size=".1" contype="2" conaffinity="0"/> </body>'
DOOR = '<body pos="0 3 0"> <joint/> <geom size=".1"/> </body>'


def test_the_example_adds_a_ground_that_everything_touches(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco> <worldbody> {BASE} </worldbody> </mujoco>", encoding="utf-8")
    model = runpy.run_path(str(SCRIPT))["load"](str(path))
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 2000)
    assert data.qpos[2] == pytest.approx(0.1, abs=0.01)


def test_the_example_refuses_files_whose_first_joint_is_another(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco> <worldbody> {DOOR} {BASE} </worldbody> </mujoco>", encoding="utf-8")
    with pytest.raises(SystemExit, match="first joint must be the base's free joint; add <freejoint/> to it, or move"):
        runpy.run_path(str(SCRIPT))["load"](str(path))


def test_the_example_says_what_it_cannot_measure(policy: Path, tmp_path: Path) -> None:
    about = json.loads(policy.with_suffix(".json").read_text(encoding="utf-8"))
    about["observation"][0]["numbers"][0] = {"label": "height[0]", "quantity": None}
    with pytest.raises(SystemExit, match=r"cannot measure: height\[0\]"):
        runpy.run_path(str(SCRIPT))["observe"](about, None, {}, {}, [])
