"""Runs of PPO, SAC, SVG and FastTD3 can be trained, stopped, crashed and resumed like others, with their replay."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ahac.algos.algorithm import HasReplayBuffer, IterationResult
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.svg import SVGConfig
from ahac.core.env import Env
from ahac.core.errors import InputError
from ahac.training.checkpoint import CheckpointError
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train
from support.marks import keep
from support.small_runs import state, table

OFF_POLICY = {
    "hidden": (8,),
    "critic_hidden": (8,),
    "steps_per_env": 5,
    "batch_size": 16,
    "learning_starts": 80,
    "buffer_size": 200,
}
ALGORITHMS: dict[str, AlgorithmConfig] = {
    "fasttd3": FastTD3Config(**OFF_POLICY, num_atoms=11),
    "ppo": PPOConfig(hidden=(8,), critic_hidden=(8,), steps_per_env=8, epochs=2),
    "sac": SACConfig(**OFF_POLICY),
    "svg": SVGConfig(**OFF_POLICY, model_hidden=(8,), latent=4, sequences=8, updates=1, model_updates=1),
}


class BrokenError(Exception):
    """An error that training does not handle."""


def config(out: Path, algo: str, **changes: object) -> RunConfig:
    first = RunConfig(
        task="hopper",
        algo=algo,
        num_envs=8,
        iterations=12,
        device="cpu",
        checkpoint_every=4,
        eval_episodes=4,
        out=str(out),
        algorithm=ALGORITHMS[algo],
    )
    return replace(first, **changes)


def remembered(run: Run) -> list[list[float]] | None:
    """All rows that can be sampled from a run's replay buffer, from its files."""
    again = open_run(run.folder)
    again.restore("last")
    algo = again.algo
    if not isinstance(algo, HasReplayBuffer):
        return None
    return algo.replay.rows(algo.replay.oldest, algo.replay.added).flatten(1).tolist()


def assert_alike(one: Run, other: Run) -> None:
    assert state(one.folder) == state(other.folder)
    assert table(one.folder) == table(other.folder)
    assert remembered(one) == remembered(other)


@pytest.mark.parametrize("algo", keep(2, ALGORITHMS))
def test_a_stopped_run_resumes_bit_exactly(algo: str, tmp_path: Path) -> None:
    whole = create_run(config(tmp_path, algo, name="straight"))
    train(whole, display=False)
    stopped = create_run(config(tmp_path, algo, name="stopped"))
    for until in (1, 5, 6, 12):
        train(open_run(stopped.folder), until, display=False)
    assert_alike(stopped, whole)
    assert len(table(whole.folder)) == 12


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_crashed_run_loses_nothing(algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay buffer wraps around in these runs; rows that the failed iteration overwrote must not be needed."""
    whole = create_run(config(tmp_path, algo, name="straight"))
    train(whole, display=False)
    broken = create_run(config(tmp_path, algo, name="broken"))
    kind = {"ppo": PPO, "sac": SAC}[algo]
    done = [0]
    honest = kind.iterate

    def iterate(self: object, env: Env, progress: float) -> IterationResult:
        done[0] += 1
        report = honest(self, env, progress)
        if done[0] == 11:
            raise BrokenError
        return report

    with monkeypatch.context() as patch:
        patch.setattr(kind, "iterate", iterate)
        with pytest.raises(BrokenError):
            train(broken, display=False)
    assert state(broken.folder)["iteration"] == 10.0
    train(open_run(broken.folder), display=False)
    assert_alike(broken, whole)


def test_a_replay_is_kept_once_however_many_checkpoints_there_are(tmp_path: Path) -> None:
    run = create_run(config(tmp_path, "sac", checkpoint_every=1))
    train(run, display=False)
    assert len(list(run.checkpoints.iterdir())) >= 13
    kept = sorted(path.name for path in (run.folder / "replay").iterdir())
    # 12 iterations of 5 rows; 25 rows of 8 transitions can be drawn from.
    assert kept == [f"rows-{k:010d}-{k + 5:010d}.safetensors" for k in range(35, 60, 5)]
    algo = open_run(run.folder).algo
    assert not any("rows" in name or "ring" in name for name in algo.state_dict())


def test_without_its_replay_a_run_cannot_resume_but_can_be_evaluated(tmp_path: Path) -> None:
    run = create_run(config(tmp_path, "sac"))
    train(run, 6, display=False)
    for path in (run.folder / "replay").iterdir():
        path.unlink()
    again = open_run(run.folder)
    with pytest.raises(CheckpointError, match="rows 5 to 30 of the replay buffer: the run cannot be resumed"):
        train(again, display=False)
    again = open_run(run.folder)
    again.restore("last", with_env=False)
    assert len(again.evaluate(2).returns) == 2


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_settings_are_restored_with_their_types(algo: str, tmp_path: Path) -> None:
    run = create_run(config(tmp_path, algo))
    assert open_run(run.folder).config == run.config
    path = run.folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["algorithm"]["gamma"] = "much"
    path.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ValueError, match=f"{type(ALGORITHMS[algo]).__name__}.gamma must be of type float"):
        open_run(run.folder)


def test_evaluating_allocates_no_replay(tmp_path: Path) -> None:
    huge = replace(ALGORITHMS["sac"], buffer_size=10**13)
    run = create_run(config(tmp_path, "sac", algorithm=huge))
    assert isinstance(run.algo, SAC)
    assert run.algo.act(torch.zeros(2, 11)).shape == (2, 3)


def test_settings_of_another_algorithm_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm must be a PPOConfig for algo 'ppo', got a SACConfig"):
        create_run(config(tmp_path, "ppo", algorithm=ALGORITHMS["sac"]))
    assert not list(tmp_path.iterdir())


def test_a_run_with_replay_resumes_from_an_earlier_checkpoint(tmp_path: Path) -> None:
    whole = create_run(config(tmp_path, "sac", name="straight"))
    train(whole, display=False)
    stopped = create_run(config(tmp_path, "sac", name="stopped"))
    train(stopped, 6, display=False)
    open_run(stopped.folder).rewind_to("iteration-000004")
    assert train(open_run(stopped.folder), display=False)
    assert_alike(stopped, whole)


def test_a_checkpoint_older_than_the_replay_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    run = create_run(config(tmp_path, "sac", iterations=40, checkpoint_every=4))
    train(run, display=False)
    before = run.path_of("last").read_bytes()
    with pytest.raises(CheckpointError, match="lacks rows 0 to 20"):
        open_run(run.folder).rewind_to("iteration-000004")
    assert run.path_of("last").read_bytes() == before
