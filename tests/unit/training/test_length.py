"""The length of a run can be changed: completed iterations stay, schedules use the new length."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ahac
from ahac.algos.algorithm import IterationResult
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core import files
from ahac.core.env import Env
from ahac.core.errors import InputError
from ahac.training.prepare import prepare
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train
from support.small_runs import small_config, state, table


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Four iterations of twelve are done."""
    made = create_run(small_config(tmp_path))
    train(made, 4, display=False)
    return made


def progress_of(patch: pytest.MonkeyPatch) -> list[float]:
    """Collect the progress values passed to the algorithm from now on."""
    honest, progress_values = ShortHorizonActorCritic.iterate, []

    def iterate(self: ShortHorizonActorCritic, env: Env, progress: float) -> IterationResult:
        progress_values.append(progress)
        return honest(self, env, progress)

    patch.setattr(ShortHorizonActorCritic, "iterate", iterate)
    return progress_values


@pytest.mark.parametrize("iterations", [6, 20])
def test_progress_is_of_the_new_length(iterations: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    progress_values = progress_of(monkeypatch)
    before = table(run.folder)
    longer = ahac.resume(run.folder, iterations=iterations)
    assert progress_values == [k / iterations for k in range(4, iterations)]
    assert longer.config == replace(run.config, iterations=iterations)
    assert open_run(run.folder).config == longer.config
    assert state(run.folder)["iteration"] == iterations
    after = [{name: row[name] for name in before[0]} for row in table(run.folder)[:4]]
    assert after == before, "columns may have come"


def test_a_complete_run_can_be_extended(run: Run) -> None:
    train(run, display=False)
    ahac.resume(run.folder, iterations=14)
    assert len(table(run.folder)) == 14


def test_a_run_may_end_where_it_is(run: Run) -> None:
    before = state(run.folder)
    assert train(prepare(run, iterations=4), display=False), "complete"
    assert state(run.folder) == before


def test_less_than_is_done_is_refused(run: Run) -> None:
    before = (run.folder / "config.json").read_bytes()
    with pytest.raises(InputError, match=r"has done 4 iterations; the new length must be at least that, got 3"):
        ahac.resume(run.folder, iterations=3)
    assert (run.folder / "config.json").read_bytes() == before


@pytest.mark.parametrize("iterations", [0, -1, 2.5])
def test_nonsense_is_refused(iterations: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="iterations must be a whole number of at least 1, got"):
        prepare(create_run(small_config(tmp_path)), iterations=iterations)


def test_a_run_that_has_not_begun_may_have_any_length(tmp_path: Path) -> None:
    assert prepare(create_run(small_config(tmp_path)), iterations=1).config.iterations == 1


def test_a_write_that_breaks_off_leaves_the_settings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        prepare(run, iterations=30)
    assert json.loads((run.folder / "config.json").read_text(encoding="utf-8")) == before


def test_a_run_may_be_as_long_as_its_environment_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress_values = progress_of(monkeypatch)
    config = small_config(tmp_path)
    assert isinstance(config.algorithm, ShortHorizonConfig)
    each = config.num_envs * round(config.algorithm.horizon.initial)
    made = create_run(replace(config, env_steps=3 * each - 1))
    assert train(made, display=False)
    assert progress_values == [k * each / (3 * each - 1) for k in range(3)]
    assert state(made.folder)["env_steps"] == 3 * each
    with pytest.raises(InputError, match=rf"has done {3 * each} env_steps; the new length must be at least that"):
        prepare(made, env_steps=2 * each)
    longer = ahac.resume(made.folder, env_steps=4 * each)
    assert state(made.folder)["env_steps"] == 4 * each
    assert longer.config.length == ("env_steps", 4 * each)
    assert ahac.resume(made.folder, iterations=5).config.length == ("iteration", 5)
    assert len(table(made.folder)) == 5


def test_a_length_is_one_thing_or_the_other(run: Run) -> None:
    with pytest.raises(InputError, match="give one of them"):
        prepare(run, iterations=20, env_steps=20_000)
    assert prepare(run) is run
