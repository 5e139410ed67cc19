"""A stopped and resumed run ends bit-identical to an uninterrupted one."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.algos.config import ShortHorizonConfig
from ahac.experiments.run_files import read_run
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import finish, train
from support.marks import keep
from support.small_runs import small_config, state, table

RUNS = [("ahac", "default"), ("shac", "default"), ("ahac1", "default"), ("bptt", "default"), ("ahac", "paper"),
        ("ahac", "released")]  # fmt: skip
OWNERS = ("algo/actor.", "algo/actor_optimizer.", "algo/normalizer.", "algo/generator", "env/", "trainer/")


KILLED = """
import os, sys
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.training.run import open_run
from ahac.training.trainer import train

honest, left = ShortHorizonActorCritic.iterate, [int(sys.argv[2])]

def iterate(self, env, progress):
    report = honest(self, env, progress)
    left[0] -= 1
    if left[0] == 0:
        os._exit(7)
    return report

ShortHorizonActorCritic.iterate = iterate
train(open_run(sys.argv[1]), display=False)
"""


def train_and_kill(folder: Path, iteration: int) -> None:
    """Train in a process that exits abruptly at the end of that iteration."""
    command = [sys.executable, "-c", KILLED, str(folder), str(iteration)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr


def straight(config: RunConfig) -> Run:
    run = create_run(replace(config, name="straight"))
    assert train(run, display=False)
    return run


@pytest.mark.parametrize(("algo", "preset"), keep(4, RUNS))
def test_a_stopped_and_resumed_run_ends_with_the_same_bits_and_table(algo: str, preset: str, tmp_path: Path) -> None:
    config = small_config(tmp_path, algo, preset)
    whole = straight(config)
    first = create_run(replace(config, name="stopped"))
    assert not train(first, 5, display=False), "seven iterations are left"
    assert train(open_run(first.folder), display=False)
    assert state(first.folder) == state(whole.folder)
    assert table(first.folder) == table(whole.folder)
    assert len(table(whole.folder)) == config.iterations


@pytest.mark.parametrize("rule", keep(1, ["growth", "esnr", "shrink"]))
def test_every_horizon_rule_resumes_exactly(rule: str, tmp_path: Path) -> None:
    config = small_config(tmp_path, "ahac")
    assert isinstance(config.algorithm, ShortHorizonConfig)
    horizon = replace(config.algorithm.horizon, rule=rule)
    config = replace(config, algorithm=replace(config.algorithm, horizon=horizon))
    whole = straight(config)
    first = create_run(replace(config, name="stopped"))
    train(first, 5, display=False)
    train(open_run(first.folder), display=False)
    assert state(first.folder) == state(whole.folder)
    assert table(first.folder) == table(whole.folder)


@pytest.mark.parametrize("algo", ["ahac", "shac"])
def test_a_checkpoint_holds_all_that_the_future_depends_on(algo: str, tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, algo, iterations=2))
    train(run, display=False)
    names = state(run.folder)
    wanted = (*OWNERS, "algo/critic.", "algo/critic_optimizer.", "algo/horizon." if algo == "ahac" else "algo/target.")
    missing = [owner for owner in wanted if not any(name.startswith(owner) for name in names)]
    assert not missing
    assert names["iteration"] == 2.0
    assert names["env_steps"] == sum(float(row["horizon"]) * 8 for row in table(run.folder))


def test_other_seeds_give_other_bits(tmp_path: Path) -> None:
    one, other = (straight(small_config(tmp_path, seed=seed, iterations=2)) for seed in (0, 1))
    assert state(one.folder) != state(other.folder)


def test_stopping_after_every_iteration_changes_nothing(tmp_path: Path) -> None:
    config = small_config(tmp_path, iterations=5)
    whole = straight(config)
    folder = create_run(replace(config, name="stopped")).folder
    for iteration in range(1, 6):
        train(open_run(folder), iteration, display=False)
    assert state(folder) == state(whole.folder)
    assert table(folder) == table(whole.folder)


def test_a_killed_run_resumes_from_its_last_checkpoint_and_drops_later_rows(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    whole = straight(config)
    run = create_run(replace(config, name="killed"))
    train_and_kill(run.folder, 7)
    assert len(table(run.folder)) == 6, "two rows beyond the checkpoint"
    assert state(run.folder)["iteration"] == 4.0
    assert train(open_run(run.folder), display=False)
    assert table(run.folder) == table(whole.folder)
    assert state(run.folder) == state(whole.folder)


def test_the_evaluation_of_a_later_iteration_is_set_aside(tmp_path: Path) -> None:
    """A backup of an earlier checkpoint may be copied over the last one."""
    run = create_run(small_config(tmp_path, iterations=4, checkpoint_every=2))
    assert finish(run, display=False) is not None
    assert read_run(run.folder).complete
    shutil.copy(run.path_of("iteration-000002"), run.path_of("last"))
    train(open_run(run.folder), 3, display=False)
    opened = read_run(run.folder)
    assert (opened.complete, opened.evaluation, opened.last("iteration")) == (False, None, 3.0)
    assert len(list(run.folder.glob("evaluation*"))) == 1, "kept under another name"


@pytest.mark.extended
def test_a_killed_run_remembers_its_best_score(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, checkpoint_every=10, iterations=20))
    train_and_kill(run.folder, 11)
    assert state(run.folder, "best")["best"] > float("-inf")
    assert state(run.folder, "last")["best"] == state(run.folder, "best")["best"]


@pytest.mark.extended
def test_a_fresh_process_resumes_bit_exactly(tmp_path: Path) -> None:
    config = small_config(tmp_path, "ahac")
    whole = straight(config)
    first = create_run(replace(config, name="stopped"))
    train(first, 5, display=False)
    code = (
        "import sys; from ahac.training.run import open_run; from ahac.training.trainer import train; "
        "sys.exit(not train(open_run(sys.argv[1]), display=False))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(first.folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert state(first.folder) == state(whole.folder)
    assert table(first.folder) == table(whole.folder)


def test_a_complete_run_trains_no_further(tmp_path: Path) -> None:
    run = straight(small_config(tmp_path, iterations=2))
    before = state(run.folder), table(run.folder)
    assert train(open_run(run.folder), display=False)
    assert (state(run.folder), table(run.folder)) == before
