"""Runs whose critics have their own observations: checkpoints, replay files, resuming and evaluation."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ahac.algos.ppo import PPOConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.envs import VecEnv, make_task
from ahac.envs.gym import GymVectorEnv
from ahac.training import run as runs
from ahac.training.checkpoint import CheckpointError
from ahac.training.config import RunConfig
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support.marks import keep
from support.observation_groups import PrivilegedCritic, with_squares
from support.small_runs import small_algorithm, small_config, state, table

ALGORITHMS: dict[str, AlgorithmConfig] = {
    "sac": SACConfig(
        hidden=(8,), critic_hidden=(8,), steps_per_env=5, batch_size=16, learning_starts=80, buffer_size=200
    ),
    "shac": small_algorithm("hopper", "shac"),
    "ppo": PPOConfig(hidden=(8,), critic_hidden=(8,), steps_per_env=8, epochs=2),
    "ahac": small_algorithm("hopper", "ahac"),
}


def make_privileged(task: str, **settings: object) -> VecEnv:
    for name in ("variant", "integrator"):
        settings.pop(name, None)
    return PrivilegedCritic(make_task(task), **settings)


@pytest.fixture(autouse=True)
def _privileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "make", make_privileged)


def config(out: Path, algo: str, **changes: object) -> RunConfig:
    return replace(small_config(out, iterations=8), algo=algo, algorithm=ALGORITHMS[algo], **changes)


@pytest.mark.parametrize("algo", keep(2, ALGORITHMS))
def test_a_stopped_run_resumes_bit_exactly_and_is_evaluated(algo: str, tmp_path: Path) -> None:
    whole = create_run(config(tmp_path, algo, name="straight"))
    train(whole, display=False)
    stopped = create_run(config(tmp_path, algo, name="stopped"))
    for until in (3, 8):
        train(open_run(stopped.folder), until, display=False)
    assert state(stopped.folder) == state(whole.folder)
    assert table(stopped.folder) == table(whole.folder)
    saved = state(whole.folder)
    assert saved["algo/critic_normalizer.mean"][1] == (22,)
    assert saved["algo/normalizer.mean"][1] == (11,)
    loaded = open_run(whole.folder)
    loaded.restore("last", with_env=False)
    assert loaded.evaluate(4).returns.tolist() == whole.evaluate(4).returns.tolist()


def test_replay_files_hold_both_groups(tmp_path: Path) -> None:
    run = create_run(config(tmp_path, "sac"))
    train(run, display=False)
    again = open_run(run.folder)
    again.restore("last")
    assert isinstance(again.algo, SAC)
    replay = again.algo.replay
    rows = replay.named_rows(replay.rows(replay.oldest, replay.added))
    assert torch.equal(rows["critic_obs"], with_squares(rows["obs"]))
    assert torch.equal(rows["next_critic_obs"], with_squares(rows["next_obs"]))


def test_replay_files_of_one_group_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run = create_run(config(tmp_path, "sac"))
    train(run, 4, display=False)
    monkeypatch.setattr(runs, "make", make_privileged)
    with pytest.raises(CheckpointError):
        open_run(run.folder).restore("last")


def test_gymnasium_environments_show_the_policys_observation() -> None:
    env = GymVectorEnv(make_privileged("hopper", num_envs=2, seed=1))
    assert env.single_observation_space.shape == (11,)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (2, 11)
    after, *_, infos = env.step(env.action_space.sample())
    assert after.shape == infos["final_obs"].shape == (2, 11)
