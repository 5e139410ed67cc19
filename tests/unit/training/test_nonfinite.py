"""Non-finite values are reported and saved, their worlds reset; training ends if they persist."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.envs import VecEnv
from ahac.training import trainer
from ahac.training.checkpoint import load_checkpoint, save_checkpoint
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import MAX_CONSECUTIVE_FAILURES, TrainingError, train
from support.small_runs import bits, small_config, state, table

Corruption = Callable[[Tensor, Tensor], Tensor]
WORLD = 2


def bad_reward_and_gradient(reward: Tensor, action: Tensor) -> Tensor:
    """Make the reward and its gradient infinite in one world."""
    factor = torch.ones_like(reward)
    factor[WORLD] = float("inf")
    return reward * factor


def bad_reward(reward: Tensor, action: Tensor) -> Tensor:
    """Make the reward infinite in one world, with an unchanged gradient."""
    return reward + torch.where(torch.arange(len(reward)) == WORLD, float("inf"), 0.0)


def bad_gradient(reward: Tensor, action: Tensor) -> Tensor:
    """Keep the reward, with a NaN gradient in one world: that of the square root at zero."""
    zero = (0.0 * action[WORLD].sum()).sqrt()
    return reward + torch.zeros_like(reward).index_copy(0, torch.tensor([WORLD]), zero[None])


class Corrupt:
    """Makes the reward of one world or its gradient non-finite in some steps, counted over the whole training."""

    def __init__(self, patch: pytest.MonkeyPatch, steps: set[int], how: Corruption = bad_reward_and_gradient) -> None:
        self.steps = steps
        self.done = 0
        self.restarted: list[list[bool]] = []
        step, restart = VecEnv.step, VecEnv.reset_worlds

        def bad_step(env: VecEnv, action: Tensor) -> Step:
            made = step(env, action)
            here = self.done in self.steps
            self.done += 1
            if not here:
                return made
            return replace(made, reward=how(made.reward, action))

        def noted(env: VecEnv, worlds: Tensor) -> None:
            self.restarted.append(worlds.tolist())
            restart(env, worlds)

        patch.setattr(VecEnv, "step", bad_step)
        patch.setattr(VecEnv, "reset_worlds", noted)


HORIZON = 8
"""Of `small_config`, fixed for SHAC."""


def of_iterations(*numbers: int) -> set[int]:
    """The fourth step of each of these, counted from 1."""
    return {(number - 1) * HORIZON + 3 for number in numbers}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create_run(small_config(tmp_path, iterations=14))


@pytest.mark.parametrize("how", [bad_reward_and_gradient, bad_reward])
def test_one_bad_reward_is_named_kept_and_survived(
    how: Corruption, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corrupt = Corrupt(monkeypatch, of_iterations(3), how)
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(run, display=False)
    path = run.folder / "failures" / "iteration-000003.safetensors"
    assert list(path.parent.iterdir()) == [path]
    kept = load_checkpoint(path)
    action = [round(x, 4) for x in kept.tensors["actions"][3, WORLD].tolist()]
    wanted = f"the reward of step 3 in world {WORLD} is not finite; the action there is {action} ({path})"
    assert [text for text in caplog.messages if "skipped the update" in text] == [
        f"iteration 3 skipped the update: {wanted}"
    ]
    assert corrupt.restarted == [[world == WORLD for world in range(8)]], "that world and no other"
    rows = table(run.folder)
    assert [row["failures"] for row in rows] == ["", "", "1.0", *[""] * 11]
    assert all(row["actor_loss"] for row in rows if row["iteration"] != "3.0"), "training continues"


def test_one_bad_gradient_is_named_and_survived(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corrupt = Corrupt(monkeypatch, of_iterations(3), bad_gradient)
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(run, display=False)
    kept = load_checkpoint(run.folder / "failures" / "iteration-000003.safetensors")
    action = [round(x, 4) for x in kept.tensors["actions"][3, WORLD].tolist()]
    named = f"the gradient of the action of step 3 in world {WORLD} is not finite; the action there is {action}"
    assert named in caplog.text
    assert corrupt.restarted == [[world == WORLD for world in range(8)]]


def test_a_bad_iteration_skips_the_update(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Corrupt(monkeypatch, of_iterations(3))
    train(run, 2, display=False)
    before = {name: x for name, x in state(run.folder).items() if name.startswith(("algo/actor.", "algo/critic."))}
    train(run, 3, display=False)
    assert before
    assert {name: state(run.folder)[name] for name in before} == before


def test_a_reproducer_reproduces_the_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm and worlds are as before the iteration: continuing from there gives the same actions."""
    Corrupt(monkeypatch, of_iterations(3, 4))
    train(run, 5, display=False)
    kept = load_checkpoint(run.folder / "failures" / "iteration-000004.safetensors")
    again = create_run(replace(run.config, name="again"))
    again.algo.load_state_dict(kept.section("algo"))
    again.env.load_state_dict(kept.section("env"))
    Corrupt(monkeypatch, {3})
    report = again.algo.iterate(again.env, kept.numbers["progress"])
    assert report.failure is not None
    reproduced = {name: kept.tensors[name] for name in report.failure.reproducer}
    assert set(reproduced) == {"q", "v", "actions"}
    assert bits(report.failure.reproducer) == bits(reproduced)


def test_too_many_failures_in_a_row_end_training_with_advice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Corrupt(monkeypatch, of_iterations(*range(2, 15)))
    with pytest.raises(
        TrainingError, match=rf"{MAX_CONSECUTIVE_FAILURES} iterations in a row skipped the update: the reward of"
    ) as e:
        train(run, display=False)
    assert all(
        word in str(e.value) for word in ("horizon", "algorithm.actor.learning_rate", "substeps", str(run.folder))
    )
    assert state(run.folder)["iteration"] == MAX_CONSECUTIVE_FAILURES
    assert state(run.folder)["failures"] == MAX_CONSECUTIVE_FAILURES - 1


def test_occasional_failures_do_not_end_training(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Corrupt(monkeypatch, of_iterations(*range(1, 10), 11, 12))
    assert train(run, display=False)
    assert state(run.folder)["failures"] == 0.0


def test_failures_are_counted_over_interruptions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Corrupt(monkeypatch, of_iterations(*range(2, 15)))
    train(run, 6, display=False)
    assert state(run.folder)["failures"] == 5.0
    with pytest.raises(TrainingError, match=f"{MAX_CONSECUTIVE_FAILURES} iterations in a row"):
        train(open_run(run.folder), display=False)
    assert len(table(run.folder)) == MAX_CONSECUTIVE_FAILURES


def test_a_checkpoint_of_before_failures_were_counted_has_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Corrupt(monkeypatch, of_iterations(2))
    train(run, 2, display=False)
    path = run.checkpoints / "last.safetensors"
    saved = load_checkpoint(path)
    numbers = {name: x for name, x in saved.numbers.items() if name != "failures"}
    save_checkpoint(path, replace(saved, numbers=numbers))
    train(open_run(run.folder), 3, display=False)
    assert state(run.folder)["failures"] == 0.0


def test_the_latest_reproducers_are_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "MAX_SAVED_FAILURES", 2)
    Corrupt(monkeypatch, of_iterations(1, 3, 4, 6))
    train(run, display=False)
    names = sorted(path.name for path in (run.folder / "failures").iterdir())
    assert names == ["iteration-000004.safetensors", "iteration-000006.safetensors"]
