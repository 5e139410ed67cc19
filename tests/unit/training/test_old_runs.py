"""Run folders of earlier versions open, evaluate and resume."""

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ahac.algos.config import ActorConfig, CriticConfig, HorizonConfig, ShortHorizonConfig, StiffnessConfig
from ahac.algos.ppo import PPOConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from ahac.cli.main import main
from ahac.core.config import flatten, to_dict
from ahac.core.errors import InputError
from ahac.experiments.compare import compare
from ahac.training.checkpoint import LAST, load_checkpoint, save_checkpoint
from ahac.training.config import config_from_file
from ahac.training.csv_log import read_csv
from ahac.training.old_settings import BASELINES, SHORT_HORIZON, upgrade_settings
from ahac.training.run import open_run
from ahac.training.trainer import train
from support.small_runs import state, table

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUNS = sorted(path for version in FIXTURES.glob("runs-*") for path in version.iterdir())
CLOSE = 1e-3
"""Relative; another CPU rounds differently. Measured for all seven runs with lanes of 16, 32 and 64 bytes, with and
without -ffp-contract=fast, and with torch restricted to SSE: 1.2e-7 at most."""
ACTOR = ActorConfig(hidden=(8,), learning_rate=0.01, max_grad_norm=1.0, init_log_std=-1.0, normalize_obs=True)
CRITIC = CriticConfig(
    hidden=(8,),
    learning_rate=0.001,
    num_critics=1,
    epochs=3,
    plateau_tolerance=None,
    minibatches=4,
    shuffle=True,
    max_grad_norm=1.0,
    target_alpha=0.2,
)
TWO_CRITICS = replace(CRITIC, num_critics=2, plateau_tolerance=0.2, target_alpha=None)
HORIZON = HorizonConfig(rule="fixed", initial=8, min=4, max=16, learning_rate=1e-5, speed=0.02, growth_limit=3.0)
STIFFNESS = StiffnessConfig(signal="contact", limit=None, probes=1, lagrangian=False, truncate=False, min_steps=0)
SHAC = ShortHorizonConfig(actor=ACTOR, critic=CRITIC, horizon=HORIZON, stiffness=STIFFNESS, gamma=0.99, td_lambda=0.95)
SETTINGS: dict[str, AlgorithmConfig] = {
    "ahac": replace(SHAC, critic=TWO_CRITICS, horizon=replace(HORIZON, rule="growth")),
    "ahac1": replace(
        SHAC, critic=TWO_CRITICS, stiffness=replace(STIFFNESS, signal="force", limit=500.0, truncate=True, min_steps=8)
    ),
    "shac": SHAC,
    "bptt": replace(SHAC, critic=None),
    "ppo": PPOConfig(
        hidden=(8,),
        critic_hidden=(8,),
        activation="elu",
        init_log_std=0.0,
        steps_per_env=8,
        epochs=2,
        minibatches=4,
        learning_rate=5e-4,
        target_kl=0.008,
        clip_range=0.2,
        clip_range_vf=0.2,
        value_coef=4.0,
        entropy_coef=0.0,
        action_bound_coef=1e-4,
        max_grad_norm=1.0,
        normalize_obs=True,
        normalize_value=True,
        reward_scale=0.01,
        gamma=0.99,
        gae_lambda=0.95,
    ),
    "sac": SACConfig(
        hidden=(8,),
        critic_hidden=(8,),
        activation="elu",
        log_std_bounds=(-5.0, 2.0),
        learning_rate=5e-4,
        max_grad_norm=None,
        init_alpha=0.2,
        alpha_learning_rate=1e-4,
        target_entropy=None,
        tau=0.005,
        buffer_size=120,
        batch_size=16,
        steps_per_env=5,
        updates=1,
        learning_starts=40,
        normalize_obs=True,
        reward_scale=1.0,
        gamma=0.99,
    ),
    "svg": SVGConfig(
        hidden=(8,),
        critic_hidden=(8,),
        activation="elu",
        log_std_bounds=(-5.0, 2.0),
        learning_rate=1e-4,
        max_grad_norm=1.0,
        init_alpha=0.1,
        alpha_learning_rate=1e-4,
        target_entropy=None,
        tau=0.005,
        buffer_size=120,
        batch_size=16,
        steps_per_env=5,
        updates=1,
        learning_starts=40,
        normalize_obs=True,
        reward_scale=1.0,
        gamma=0.99,
        model_hidden=(8,),
        latent=4,
        layers=2,
        horizon=3,
        model_learning_rate=1e-4,
        head_learning_rate=0.001,
        sequences=8,
        sequence_steps=4,
        model_updates=1,
    ),
}
"""Settings of the runs of version 0.1.0 under their current names, written out in full."""
ADDED_LATER = re.compile(
    r"(actor|critic)\.(network|weight_decay|activation)|actor\.(state_std|log_std_bounds)|critic\.actor_value"
    r"|update\.|entropy\.|bundle\."
)
"""Settings that version 0.1.0 did not have."""


@pytest.fixture(params=RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(request.param, tmp_path / request.param.name)


def test_every_algorithm_has_a_run_of_version_0_1_0() -> None:
    algos = {path.name for path in RUNS if path.parent.name == "runs-0.1.0"}
    assert algos == {"ahac", "ahac1", "shac", "bptt", "ppo", "sac", "svg"}


def test_it_opens_and_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = open_run(folder).config
    assert (config.task, config.algo, config.iterations, config.num_envs) == ("cartpole", folder.name, 12, 4)
    assert main(["list", "runs", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "6/12" in shown
    assert compare([folder])[0].seeds == (0,)


def test_it_reproduces_its_evaluation(folder: Path) -> None:
    saved = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    run = open_run(folder)
    run.restore(LAST, with_env=False)
    assert run.evaluate().mean == pytest.approx(saved["mean"], rel=CLOSE)


@pytest.mark.parametrize("name", [LAST, "iteration-000003"])
def test_all_its_checkpoints_are_read(name: str, folder: Path) -> None:
    run = open_run(folder)
    run.restore(name, with_env=name == LAST)
    actions = run.algo.act(torch.zeros(4, run.env.spec.obs_size))
    assert bool(torch.isfinite(actions).all())


def test_it_resumes_to_its_end(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = table(folder)
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(open_run(folder), display=False)
    assert all("without a checksum" in message for message in caplog.messages)
    assert state(folder)["iteration"] == 12
    after = table(folder)
    assert [row["iteration"] for row in after] == [f"{k}.0" for k in range(1, 13)]
    assert [row["env_steps"] for row in after[:6]] == [row["env_steps"] for row in before]
    with_critic = folder.name in ("ahac", "ahac1", "shac")
    assert all(("critic_epochs" in row) == with_critic for row in read_csv(folder / "metrics.csv"))


def old_config(algo: str, schema: int) -> dict[str, Any]:
    """config.json of the run of version 0.1.0, as schema 0 (without the key) or schema 1 writes it."""
    content = json.loads((FIXTURES / "runs-0.1.0" / algo / "config.json").read_text(encoding="utf-8"))
    assert "schema" not in content
    return content if schema == 0 else {"schema": schema, **content}


@pytest.mark.parametrize("schema", [0, 1])
@pytest.mark.parametrize("algo", SETTINGS)
def test_old_settings_get_their_current_names(algo: str, schema: int) -> None:
    content = old_config(algo, schema)
    config = config_from_file(content)
    assert config.algorithm == SETTINGS[algo]
    # Every setting is in the file, so that no default hides a missing name; except those that were added later.
    upgraded = upgrade_settings(content)
    current = {name for name in flatten(to_dict(config.algorithm)) if not ADDED_LATER.match(name)}
    assert flatten(upgraded["algorithm"]).keys() == current
    others = {name: value for name, value in content.items() if name not in ("schema", "learner")}
    assert {name: getattr(config, name) for name in others} == others


@pytest.mark.parametrize(
    ("algo", "section", "settings", "current"),
    [
        ("ppo", "", {"clip": 0.1, "value_clip": 0.3}, {"clip_range": 0.1, "clip_range_vf": 0.3}),
        ("ppo", "", {"steps": 16, "max_norm": 2.0}, {"steps_per_env": 16, "max_grad_norm": 2.0}),
        ("svg", "", {"rate": 1e-3, "model_rate": 2e-3}, {"learning_rate": 1e-3, "model_learning_rate": 2e-3}),
        ("svg", "", {"temperature_rate": 3e-3}, {"alpha_learning_rate": 3e-3}),
        ("ahac", "actor", {"max_norm": 2.0}, {"max_grad_norm": 2.0}),
        ("ahac", "critic", {"max_norm": 3.0}, {"max_grad_norm": 3.0}),
    ],
)
def test_settings_with_equal_values_in_the_runs_are_not_swapped(
    algo: str, section: str, settings: dict[str, float], current: dict[str, float]
) -> None:
    content = old_config(algo, 1)
    (content["learner"][section] if section else content["learner"]).update(settings)
    algorithm = to_dict(config_from_file(content).algorithm)
    expected = to_dict(SETTINGS[algo])
    (expected[section] if section else expected).update(current)
    assert algorithm == expected


def test_every_old_name_is_in_a_run() -> None:
    runs = {algo: old_config(algo, 0)["learner"] for algo in SETTINGS}
    for section, names in SHORT_HORIZON.items():
        used = {
            name
            for algo in SETTINGS.keys() - BASELINES.keys()
            for name in ((runs[algo][section] or {}) if section else runs[algo])
        }
        assert names.keys() <= used, section
    for tables in ({"ppo": BASELINES["ppo"]}, {"sac": BASELINES["sac"], "svg": BASELINES["svg"]}):
        used = {name for algo in tables for name in runs[algo]}
        assert all(sections.keys() == {""} for sections in tables.values())
        assert all(sections[""].keys() <= used for sections in tables.values())


@pytest.mark.parametrize("schema", [0, 1])
@pytest.mark.parametrize("algo", SETTINGS)
def test_an_unknown_old_name_is_refused(algo: str, schema: int) -> None:
    content = old_config(algo, schema)
    sections = [name for name, value in content["learner"].items() if isinstance(value, dict)]
    for section in ("", *sections):
        changed = json.loads(json.dumps(content))
        (changed["learner"][section] if section else changed["learner"])["momentum"] = 0.9
        with pytest.raises(InputError, match="has no setting momentum; its settings are"):
            config_from_file(changed)
    with pytest.raises(InputError, match="has no setting momentum; its settings are"):
        config_from_file({**content, "momentum": 0.9})


def test_old_names_are_unknown_in_the_current_schema() -> None:
    with pytest.raises(InputError, match="RunConfig has no setting learner"):
        config_from_file({**old_config("shac", 0), "schema": 2})


@pytest.mark.parametrize("algo", ["ahac", "ppo"])
def test_a_checkpoint_with_old_settings_is_read(algo: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = shutil.copytree(FIXTURES / "runs-0.1.0" / algo, tmp_path / algo)
    path = folder / "checkpoints" / f"{LAST}.safetensors"
    save_checkpoint(path, replace(load_checkpoint(path), settings=old_config(algo, 1)))
    with caplog.at_level(logging.WARNING, "ahac"):
        caplog.clear()
        open_run(folder).restore(LAST)
    assert not caplog.messages
    (folder / "config.json").unlink()
    assert open_run(folder).config.algorithm == SETTINGS[algo]


def test_the_old_spelling_of_a_stiffness_signal_is_understood() -> None:
    learner = {"stiffness": {"signal": "contact_normalised", "least_steps": 3}}
    config = config_from_file({"task": "ant", "algo": "ahac", "learner": learner})
    assert isinstance(config.algorithm, ShortHorizonConfig)
    assert (config.algorithm.stiffness.signal, config.algorithm.stiffness.min_steps) == ("contact_normalized", 3)
    for damaged in (3, None, {}, {"signal": ["contact_normalised"]}, {"signal": None}):
        assert upgrade_settings({"learner": {"stiffness": damaged}})["algorithm"] == {"stiffness": damaged}
