"""Loggers of other packages, replaced by modules that record the calls they get."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ahac.core.errors import InputError
from ahac.training.loggers import MLflowLogger, WandbLogger
from ahac.training.run import Run, create_run, open_run
from ahac.training.sinks import TAGS, tag_of, tagged
from ahac.training.trainer import finish, train
from support.small_algorithms import SETTINGS, make_small_algorithm, worlds
from support.small_runs import small_config

Calls = list[tuple[str, dict[str, Any]]]


def install(name: str, monkeypatch: pytest.MonkeyPatch, **functions: object) -> None:
    module = ModuleType(name)
    module.__dict__.update(functions)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls: Calls = []

    def init(**arguments: object) -> SimpleNamespace:
        calls.append(("init", arguments))
        return SimpleNamespace(
            log=lambda values, step: calls.append(("log", {"values": values, "step": step})),
            summary=SimpleNamespace(update=lambda values: calls.append(("summary", values))),
            finish=lambda **given: calls.append(("finish", given)),
        )

    install("wandb", monkeypatch, init=init)
    return calls


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls: Calls = []

    def start_run(**arguments: object) -> SimpleNamespace:
        calls.append(("start_run", arguments))
        return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

    def log_metrics(values: Mapping[str, float], step: int | None = None) -> None:
        calls.append(("log_metrics", {"values": dict(values), "step": step}))

    install(
        "mlflow",
        monkeypatch,
        start_run=start_run,
        log_metrics=log_metrics,
        log_params=lambda values: calls.append(("log_params", values)),
        set_experiment=lambda name: calls.append(("set_experiment", {"name": name})),
        set_tracking_uri=lambda uri: calls.append(("set_tracking_uri", {"uri": uri})),
        end_run=lambda **given: calls.append(("end_run", given)),
    )
    return calls


def new_run(folder: Path) -> Run:
    return create_run(small_config(folder, iterations=3, name="mine"))


def test_wandb_gets_settings_metrics_and_evaluation(tmp_path: Path, wandb: Calls) -> None:
    run = new_run(tmp_path)
    finish(run, display=False, callbacks=[WandbLogger("robots", tags=["a"])])
    assert [name for name, _ in wandb] == ["init", "log", "log", "log", "summary", "finish"]
    start = wandb[0][1]
    assert (start["project"], start["name"], start["resume"], start["tags"]) == ("robots", "mine", "allow", ["a"])
    assert start["config"]["algorithm"]["actor"]["hidden"] == (16,)
    assert [logged["step"] for name, logged in wandb if name == "log"] == [64, 128, 192]
    assert wandb[1][1]["values"]["time/iteration"] == 1.0
    assert "loss/critic" in wandb[1][1]["values"]
    assert wandb[4][1].keys() >= {"evaluation/mean", "evaluation/iqm"}


def test_wandb_continues_a_resumed_run(tmp_path: Path, wandb: Calls) -> None:
    run = new_run(tmp_path)
    train(run, 1, display=False, callbacks=[WandbLogger("robots")])
    train(open_run(run.folder), display=False, callbacks=[WandbLogger("robots")])
    first, second = (start["id"] for name, start in wandb if name == "init")
    assert first == second
    assert [logged["step"] for name, logged in wandb if name == "log"] == [64, 128, 192]
    other = create_run(small_config(tmp_path / "elsewhere", iterations=1, name="mine"))
    train(other, display=False, callbacks=[WandbLogger("robots")])
    assert next(start["id"] for name, start in reversed(wandb) if name == "init") != first, "another run"


def test_mlflow_gets_settings_metrics_and_evaluation(tmp_path: Path, mlflow: Calls) -> None:
    finish(new_run(tmp_path), display=False, callbacks=[MLflowLogger("robots", "file:here", tags={"a": "b"})])
    names = [name for name, _ in mlflow]
    assert names == ["set_tracking_uri", "set_experiment", "start_run", "log_params", *4 * ["log_metrics"], "end_run"]
    assert mlflow[2][1] == {"run_name": "mine", "tags": {"a": "b"}}
    assert mlflow[3][1]["algorithm.actor.hidden"] == [16]
    assert [logged["step"] for name, logged in mlflow if name == "log_metrics"] == [64, 128, 192, None]
    assert "loss/critic" in mlflow[4][1]["values"]
    assert "evaluation/mean" in mlflow[7][1]["values"]


def test_mlflow_continues_a_resumed_run(tmp_path: Path, mlflow: Calls) -> None:
    run = new_run(tmp_path)
    train(run, 1, display=False, callbacks=[MLflowLogger("robots")])
    train(open_run(run.folder), display=False, callbacks=[MLflowLogger("robots")])
    assert [start for name, start in mlflow if name == "start_run"] == [{"run_name": "mine"}, {"run_id": "abc"}]
    assert [name for name, _ in mlflow].count("log_params") == 1, "MLflow refuses to change parameters"


@pytest.mark.parametrize(("kind", "name"), [(WandbLogger, "wandb"), (MLflowLogger, "mlflow")])
def test_a_missing_package_is_named(kind: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden:
        """Finds no package of this name, installed or not."""

        def find_spec(self, module: str, *_: object) -> None:
            if module == name:
                raise ModuleNotFoundError(name=name)

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(InputError, match=rf"{name} is not installed: pip install {name}"):
        kind("robots")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_metric_of_every_algorithm_has_a_tag(name: str) -> None:
    env = worlds()
    algorithm = make_small_algorithm(name, env)
    for k in range(4):  # SAC and SVG begin to learn after some steps
        result = algorithm.iterate(env, 0.1 * k)
        untagged = [metric for metric in result.metrics if metric not in TAGS]
        assert not untagged, "add them to sinks.TAGS"


def test_tags_are_unique_and_every_metric_of_a_run_has_a_group(tmp_path: Path) -> None:
    assert len(set(TAGS.values())) == len(TAGS)
    rows: list[Mapping[str, float]] = []
    run = new_run(tmp_path)
    train(run, display=False, callbacks=[lambda run, metrics: rows.append(metrics)])
    assert {tag.partition("/")[0] for tag in tagged(rows[-1])} == {"time", "rollout", "loss", "train"}
    assert all(name in TAGS or name.startswith("seconds_") for row in rows for name in row)


@pytest.mark.parametrize(
    ("metric", "tag"),
    [
        ("critic_loss", "loss/critic"),
        ("episode_return", "rollout/episode_return"),
        ("seconds_rollout", "time/seconds_rollout"),
        ("my_metric", "train/my_metric"),
        ("mine/metric", "mine/metric"),
    ],
)
def test_tags(metric: str, tag: str) -> None:
    assert tag_of(metric) == tag


@pytest.mark.parametrize(("tool", "ended"), [("wandb", {"exit_code": 1}), ("mlflow", {"status": "FAILED"})])
def test_a_run_that_fails_is_marked(
    tool: str, ended: dict[str, object], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    calls = request.getfixturevalue(tool)
    logger = WandbLogger("robots") if tool == "wandb" else MLflowLogger("robots")

    def fail(run: Run, metrics: Mapping[str, float]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(new_run(tmp_path), display=False, callbacks=[logger, fail])
    assert calls[-1][1] == ended
