"""Runs of a task with memory, random numbers in every step, randomized parameters and delays."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.algos.ppo import PPOConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.envs import Task, observations, uniform
from ahac.training import create, task_source
from ahac.training.config import RunConfig
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support.marks import keep
from support.remembering import remembering_task
from support.small_runs import small_algorithm, small_config, state, table

ALGORITHMS: dict[str, AlgorithmConfig] = {
    "shac": small_algorithm("hopper", "shac"),
    "ahac": small_algorithm("hopper", "ahac"),
    "ppo": PPOConfig(hidden=(8,), critic_hidden=(8,), steps_per_env=8, epochs=2),
}


def randomized_task() -> Task:
    base = remembering_task(
        randomize={"body_mass:cart": uniform(0.5, 2.0, "scale"), "actuator_delay": uniform(0.0, 0.07)}
    )
    critic = {**(base.critic_observation or {}), "parameters": observations.parameters("*")}
    return replace(base, observation={"policy": base.policy_observation, "critic": critic})


@pytest.fixture(autouse=True)
def _randomized(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (create, task_source):
        monkeypatch.setattr(module, "make_task", lambda name, variant: randomized_task())


def config(out: Path, algo: str, **changes: object) -> RunConfig:
    return replace(small_config(out, iterations=6), algo=algo, algorithm=ALGORITHMS[algo], **changes)


@pytest.mark.parametrize("algo", keep(1, ALGORITHMS))
def test_a_stopped_run_resumes_bit_exactly(algo: str, tmp_path: Path) -> None:
    whole = create_run(config(tmp_path, algo, name="straight"))
    train(whole, display=False)
    stopped = create_run(config(tmp_path, algo, name="stopped"))
    for until in (2, 6):
        train(open_run(stopped.folder), until, display=False)
    saved = state(whole.folder)
    assert {"env/memory", "env/parameters", "env/past_controls", "env/critic_obs"} <= saved.keys()
    assert state(stopped.folder) == saved
    assert table(stopped.folder) == table(whole.folder)


def test_randomization_is_logged_and_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = create_run(config(tmp_path, "shac"))
    lines = [
        "body_mass:cart: × uniform(0.5, 2), 0.75 to 3 kg (model: 1.5)",
        "actuator_delay: uniform(0, 0.07), 0 to 0.07 s (model: 0)",
    ]
    assert json.loads((run.folder / "manifest.json").read_text())["randomized"] == lines
    with caplog.at_level(logging.INFO, "ahac"):
        assert run.env.task.randomized == lines
    assert [record.getMessage() for record in caplog.records] == [f"randomized in each episode: {x}" for x in lines]
