"""The examples of custom algorithms and networks learn, and those of loggers and searches call their packages."""

import runpy
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import ahac
from ahac.algos import registry
from ahac.training.run import Run

EXAMPLES = Path(__file__).parents[3] / "examples"
SETTINGS: dict[str, Any] = {"device": "cpu", "display": False, "eval_episodes": 64}


def load(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def main(name: str, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run an example for two iterations and return what it prints."""
    patch.chdir(folder)
    patch.setattr(sys, "argv", [name, "2"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def idle(run: Run) -> float:
    """Return the mean return without control, from the states in which a run is evaluated."""
    env = ahac.make(run.task, num_envs=64, seed=run.eval_seed)
    with torch.no_grad():
        steps = [env.step(torch.zeros(64, env.spec.action_size)) for _ in range(env.spec.episode_steps)]
    return float(steps[-1].episode_return.mean())


def test_the_custom_algorithm_is_better_than_no_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry._algorithms, "_factories", dict(registry._algorithms._factories))
    example = load("custom_algorithm")
    ahac.register_algorithm("cem", example.CEM, example.CEMConfig)
    run = ahac.train("cartpole", "cem", num_envs=256, iterations=10, variant="released", out=str(tmp_path), **SETTINGS)
    assert run.evaluate().mean > 0.85 * idle(run), "-1660 to -1700 without control, -1070 to -1150 with five seeds"


def test_the_custom_networks_learn(tmp_path: Path) -> None:
    example = load("custom_network")
    networks = {"policy": example.ResidualPolicy, "critic": example.QuadraticCritic}
    returns: list[float] = []

    def evaluate_first(run: Run, metrics: Mapping[str, float]) -> None:
        if metrics["iteration"] == 1:
            returns.append(run.evaluate().mean)

    settings = {**SETTINGS, **networks, "callbacks": [evaluate_first], "out": str(tmp_path)}
    run = ahac.train("cartpole", "shac", num_envs=64, iterations=20, **settings)
    assert run.evaluate().mean > 0.5 * returns[0], "-6400 in the beginning, -1400 to -2300 with five seeds in the end"


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps that are logged."""
    logged: list[int] = []
    module: Any = ModuleType("wandb")
    module.init = lambda **_: SimpleNamespace(log=lambda values, step: logged.append(step), finish=lambda **_: None)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return logged


def test_the_wandb_example_logs(
    wandb: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "in runs/cartpole-shac-s0" in main("log_to_wandb", tmp_path, monkeypatch, capsys)
    assert len(wandb) == 2


def test_the_mlflow_example_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[int] = []
    module: Any = ModuleType("mlflow")
    module.set_experiment = module.log_params = lambda _: None
    module.start_run = lambda **_: SimpleNamespace(info=SimpleNamespace(run_id="x"))
    module.log_metrics = lambda values, step: logged.append(step)
    module.end_run = lambda **_: None
    monkeypatch.setitem(sys.modules, "mlflow", module)
    assert "in runs/cartpole-shac-s0" in main("log_to_mlflow", tmp_path, monkeypatch, capsys)
    assert len(logged) == 2


class PrunedError(Exception):
    """As optuna.TrialPruned."""


class Study:
    """Two trials, the second of which is pruned at its first report."""

    best_params: dict[str, float]

    def __init__(self) -> None:
        self.values: list[float] = []
        self.reports: list[tuple[int, int]] = []
        self.pruned = 0

    def optimize(self, objective: Any, n_trials: int) -> None:  # noqa: ANN401
        for number in range(2):
            trial = SimpleNamespace(
                number=number,
                suggest_float=lambda name, low, high, log: 0.01,
                report=lambda value, step, number=number: self.reports.append((number, step)),
                should_prune=lambda number=number: number == 1,
            )
            try:
                self.values.append(objective(trial))
            except PrunedError:
                self.pruned += 1
        self.best_value, self.best_params = max(self.values), {"learning_rate": 0.01}


def test_the_optuna_example_prunes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study()
    module: Any = ModuleType("optuna")
    module.Trial, module.TrialPruned = SimpleNamespace, PrunedError
    module.pruners = SimpleNamespace(MedianPruner=lambda n_warmup_steps: None)
    module.create_study = lambda direction, pruner: study
    monkeypatch.setitem(sys.modules, "optuna", module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tune_with_optuna", "10"])  # the first episodes end after 240 steps, 8 rollouts
    runpy.run_path(str(EXAMPLES / "tune_with_optuna.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith("return -")
    assert len(study.values) == study.pruned == 1
    assert study.reports == [(0, 8), (0, 9), (0, 10), (1, 8)]
