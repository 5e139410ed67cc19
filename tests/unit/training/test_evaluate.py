"""Evaluations use complete episodes, equally many per world, and the same ones for the same seed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.training.evaluate import Evaluation, evaluate
from ahac.training.run import Run, create_run
from support.scripted_env import Scripted
from support.small_runs import small_config


def idle(obs: Tensor) -> Tensor:
    return torch.zeros(len(obs), 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return create_run(small_config(tmp_path_factory.mktemp("runs"), task="hopper"))


def test_every_world_contributes_equally_however_long_its_episodes_are() -> None:
    found = evaluate(Scripted([[1], [3], [50]]), idle, 6)
    assert sorted(found.returns.tolist()) == [0.0, 1.0, 100.0, 101.0, 200.0, 201.0]
    assert sorted(found.lengths.tolist()) == [1.0, 1.0, 3.0, 3.0, 50.0, 50.0]


def test_returns_and_lengths_belong_together() -> None:
    found = evaluate(Scripted([[1, 2], [3, 4]]), idle, 4)
    assert dict(zip(found.returns.tolist(), found.lengths.tolist(), strict=True)) == {0: 1, 1: 2, 100: 3, 101: 4}


def test_a_number_of_episodes_that_worlds_do_not_divide_is_met_exactly() -> None:
    found = evaluate(Scripted([[1], [3], [50]]), idle, 4)
    assert sorted(found.returns.tolist()) == [0.0, 1.0, 100.0, 200.0], "each world's first, then one more"
    assert len(found.lengths) == 4


def test_fewer_episodes_than_worlds_are_those_of_the_first_worlds() -> None:
    found = evaluate(Scripted([[9], [3], [1]]), idle, 2)
    assert found.returns.tolist() == [0.0, 100.0], "not the ones that end first"


def test_it_stops_when_the_slowest_world_is_through() -> None:
    env = Scripted([[1], [7]])
    evaluate(env, idle, 4)
    assert env.steps == 14


def test_an_episode_under_way_is_not_counted() -> None:
    env = Scripted([[5], [5]])
    for _ in range(3):
        env.step(torch.zeros(2, 1))
    assert evaluate(env, idle, 2).lengths.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("episodes", [0, -1])
def test_no_episodes_are_refused(episodes: int) -> None:
    with pytest.raises(InputError, match=f"episodes must be a whole number of at least 1, got {episodes}"):
        evaluate(Scripted([[1]]), idle, episodes)


def test_a_runs_evaluation_depends_on_nothing_but_its_seed(run: Run) -> None:
    first = run.evaluate(6, seed=3)
    again = run.evaluate(6, seed=3)
    other = run.evaluate(6, seed=4)
    assert np.array_equal(first.returns, again.returns)
    assert np.array_equal(first.lengths, again.lengths)
    assert not np.array_equal(first.returns, other.returns)
    assert str(first) == str(again)


def test_evaluating_does_not_disturb_the_run(run: Run) -> None:
    before = {name: x.clone() for name, x in {**run.env.state_dict(), **run.algo.state_dict()}.items()}
    run.evaluate(4)
    after = {**run.env.state_dict(), **run.algo.state_dict()}
    assert all(torch.equal(after[name], x) for name, x in before.items())


def test_a_run_evaluates_as_many_episodes_as_its_settings_say(run: Run) -> None:
    assert len(run.evaluate().returns) == run.config.eval_episodes


@pytest.mark.parametrize("episodes", [0, -2])
def test_a_run_refuses_to_evaluate_no_episodes(episodes: int, run: Run) -> None:
    with pytest.raises(InputError, match=str(episodes)):
        run.evaluate(episodes)


def test_an_evaluation_reads_as_one_line() -> None:
    text = str(Evaluation(np.array([1.0, 2.0, 3.0, 6.0]), np.array([10.0, 10.0, 10.0, 30.0])))
    assert text.startswith("4 episodes: mean 3.0, interquartile mean 2.5 [")
    assert text.endswith("], length 15")


def test_out_folder_is_left_alone_by_evaluation(tmp_path: Path) -> None:
    fresh = create_run(small_config(tmp_path))
    before = sorted(path.name for path in fresh.folder.rglob("*"))
    fresh.evaluate(2)
    assert sorted(path.name for path in fresh.folder.rglob("*")) == before
