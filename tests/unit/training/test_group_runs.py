"""Runs with a replay buffer whose critics have their own observations: checkpoints, replay files, evaluation."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.registry import AlgorithmConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.svg import SVGConfig
from ahac.envs import Task, VecEnv
from ahac.envs.gym import GymVectorEnv
from ahac.training import create, task_source
from ahac.training.checkpoint import CheckpointError
from ahac.training.config import RunConfig
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support.marks import keep
from support.remembering import remembering_task
from support.small_runs import small_config, state, table

SETTINGS = {
    "hidden": (8,),
    "critic_hidden": (8,),
    "steps_per_env": 5,
    "batch_size": 16,
    "learning_starts": 80,
    "buffer_size": 200,
}
ALGORITHMS: dict[str, AlgorithmConfig] = {
    "sac": SACConfig(**SETTINGS),
    "svg": SVGConfig(**SETTINGS, model_hidden=(8,), latent=4, sequences=8, updates=1, model_updates=1),
    "fasttd3": FastTD3Config(**SETTINGS, num_atoms=11),
}
POLICY, CRITIC = 4, 3
"""Sizes of the groups."""


def use(monkeypatch: pytest.MonkeyPatch, task: Task) -> None:
    """Let runs train on a task that has no name."""
    for module in (create, task_source):
        monkeypatch.setattr(module, "make_task", lambda name, variant: task)


@pytest.fixture(autouse=True)
def _two_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, remembering_task())


def config(out: Path, algo: str, **changes: object) -> RunConfig:
    return replace(small_config(out, iterations=8), algo=algo, algorithm=ALGORITHMS[algo], **changes)


@pytest.mark.parametrize("algo", keep(1, ALGORITHMS))
def test_a_stopped_run_resumes_bit_exactly_and_is_evaluated(algo: str, tmp_path: Path) -> None:
    whole = create_run(config(tmp_path, algo, name="straight"))
    train(whole, display=False)
    stopped = create_run(config(tmp_path, algo, name="stopped"))
    for until in (3, 8):
        train(open_run(stopped.folder), until, display=False)
    saved = state(whole.folder)
    assert state(stopped.folder) == saved
    assert table(stopped.folder) == table(whole.folder)
    assert saved["algo/normalizer.mean"][1] == (POLICY,)
    assert saved["algo/critic_normalizer.mean"][1] == (CRITIC,)
    loaded = open_run(whole.folder)
    loaded.restore("last", with_env=False)
    assert loaded.evaluate(4).returns.tolist() == whole.evaluate(4).returns.tolist()


def test_replay_files_hold_both_groups(tmp_path: Path) -> None:
    run = create_run(config(tmp_path, "sac"))
    train(run, display=False)
    again = open_run(run.folder)
    again.restore("last")
    replays = []
    for algo in (run.algo, again.algo):
        assert isinstance(algo, SAC)
        replays.append(algo.replay.named_rows(algo.replay.rows(algo.replay.oldest, algo.replay.added)))
    trained, restored = replays
    assert restored["critic_obs"].shape[-1] == restored["next_critic_obs"].shape[-1] == CRITIC
    for name, rows in trained.items():
        assert torch.equal(restored[name], rows), name
        assert rows.any() or name == "terminated", name


def test_replay_files_of_one_group_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = remembering_task()
    use(monkeypatch, replace(two, observation=two.policy_observation))
    run = create_run(config(tmp_path, "sac"))
    train(run, 4, display=False)
    use(monkeypatch, two)
    with pytest.raises(CheckpointError):
        open_run(run.folder).restore("last")


def test_gymnasium_environments_show_the_policys_observation() -> None:
    env = GymVectorEnv(VecEnv(remembering_task(), num_envs=2, seed=1))
    assert env.single_observation_space.shape == (POLICY,)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (2, POLICY)
    after, *_, infos = env.step(env.action_space.sample())
    assert after.shape == infos["final_obs"].shape == (2, POLICY)
