"""The integrator of a run: its task's own, another one by request, and explicit for older runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.envs import RobotTask, make_task, registry
from ahac.sim import Motor, load_model
from ahac.training.config import RunConfig, config_from_file, config_to_file
from ahac.training.run import create_run, open_run
from support.robots import gymnasium_file
from support.small_runs import small_config


@pytest.fixture
def walker(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a task that leaves the integrator and the number of substeps open."""
    model = load_model(gymnasium_file("walker2d"), motors=Motor(strength=100.0))
    monkeypatch.setattr(registry._tasks, "_factories", dict(registry._tasks._factories))
    registry.register_task("walker", lambda variant: RobotTask(model=model, torso="torso"))
    return "walker"


def test_a_task_chooses_substeps_for_its_integrator(walker: str) -> None:
    task = make_task(walker)
    assert (task.integrator, task.substeps) == ("implicit", 4)
    explicit = task.with_integrator("explicit")
    assert (explicit.integrator, explicit.substeps) == ("explicit", 16)
    assert explicit.with_integrator("implicit").substeps == 4
    assert replace(task, substeps=7).with_integrator("explicit").substeps == 7
    with pytest.raises(InputError, match="integrator must be 'implicit' or 'explicit', got 'rk4'"):
        replace(task, integrator="rk4")


@pytest.mark.parametrize("name", ["hopper", "ant", "anymal", "humanoid", "snu_humanoid", "half_cheetah", "cartpole"])
def test_tasks_of_the_paper_are_explicit(name: str) -> None:
    assert make_task(name).integrator == "explicit"
    assert make_task(name, integrator="implicit").integrator == "implicit"


def test_a_run_keeps_the_integrator_of_its_task(walker: str, tmp_path: Path) -> None:
    assert create_run(small_config(tmp_path)).config.integrator == "explicit"
    run = create_run(small_config(tmp_path, task=walker))
    assert run.config.integrator == "implicit"
    assert open_run(run.folder).env.sim.integrator == "implicit"
    other = create_run(small_config(tmp_path, integrator="implicit"))
    assert (other.env.task.integrator, other.env.task.substeps) == ("implicit", 4)
    with pytest.raises(InputError, match="integrator must be task, implicit or explicit, got 'rk4'"):
        RunConfig(integrator="rk4")


@pytest.mark.parametrize("schema", [0, 1, 2])
def test_a_run_from_before_is_explicit(walker: str, schema: int, tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, task=walker))
    content = {k: v for k, v in config_to_file(run.config).items() if k not in ("integrator", "schema")}
    if schema:
        content["schema"] = schema
    assert config_from_file(content).integrator == "explicit"
    (run.folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    env = open_run(run.folder).env
    assert (env.sim.integrator, env.sim.substeps) == ("explicit", 16)
