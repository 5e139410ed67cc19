"""A run folder holds the settings of the run, and invalid ones are refused."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

from ahac.algos.config import EntropyConfig, HorizonConfig, ShortHorizonConfig, UpdateConfig
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.svg import SVGConfig
from ahac.core.bundle import BundleConfig
from ahac.core.errors import InputError
from ahac.training import create
from ahac.training.api import configure
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train
from support.small_runs import small_config, table


@pytest.mark.parametrize("algo", ["ahac", "bptt"])
def test_the_settings_come_back_equal(algo: str, tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, algo, seed=5, name="mine"))
    assert open_run(run.folder).config == run.config
    assert run.config.integrator == "explicit", "hopper's own"
    assert open_run(str(run.folder)).config == small_config(tmp_path, algo, seed=5, name="mine", integrator="explicit")


def test_a_run_without_a_name_gets_one_of_task_algorithm_and_seed(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, seed=3))
    assert run.folder == tmp_path / "hopper-shac-s3"
    assert run.config.name == "hopper-shac-s3"


@pytest.mark.parametrize(
    ("task", "algorithm", "worlds", "message"),
    [
        ("cartpole", ShortHorizonConfig(bundle=BundleConfig(branches=4)), 8, "'cartpole' has no contacts"),
        ("hopper", ShortHorizonConfig(update=UpdateConfig(gradient="mixed")), 1, "got 1 world"),
        ("hopper", ShortHorizonConfig(horizon=HorizonConfig(rule="esnr")), 1, 'horizon.rule "esnr" .* got 1 world'),
        ("hopper", ShortHorizonConfig(horizon=HorizonConfig(speed=1.5)), 8, "horizon.speed must be at most 1, got 1.5"),
        ("hopper", ShortHorizonConfig(entropy=EntropyConfig(target=4)), 8, "entropy.target must be negative, .* got 4"),
        ("hopper", FastTD3Config(n_steps=3, buffer_size=8), 8, "buffer_size must be at least 24"),
        ("hopper", SVGConfig(sequence_steps=4, buffer_size=8), 8, "buffer_size must be at least 32"),
    ],
)
def test_settings_that_do_not_fit_the_task_leave_no_folder(
    task: str, algorithm: ShortHorizonConfig | FastTD3Config | SVGConfig, worlds: int, message: str, tmp_path: Path
) -> None:
    algo = {FastTD3Config: "fasttd3", SVGConfig: "svg", ShortHorizonConfig: "shac"}[type(algorithm)]
    config = RunConfig(task=task, algo=algo, algorithm=algorithm, num_envs=worlds, device="cpu", out=str(tmp_path))
    with pytest.raises(InputError, match=message):
        create_run(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("algorithm.entropy.enabled", "false", r"EntropyConfig\.enabled must be of type bool, got 'false'"),
        ("algorithm.critic.shuffle", 0, r"CriticConfig\.shuffle must be of type bool, got 0"),
        ("algorithm.horizon", None, r"ShortHorizonConfig\.horizon must be a dictionary of settings, got None"),
        ("deterministic", "no", r"RunConfig\.deterministic must be of type bool, got 'no'"),
        ("seed", 2**63, r"seed must be less than 2\^63, got 9223372036854775808"),
    ],
)
def test_settings_that_config_json_could_not_restore_leave_no_folder(
    name: str, value: object, message: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {name: value}
    config = configure("cartpole", "sapo", num_envs=4, device="cpu", out=str(tmp_path), **settings)
    with pytest.raises(InputError, match=message):
        create_run(config)
    assert not list(tmp_path.iterdir())


def test_a_run_has_the_settings_that_its_folder_restores(tmp_path: Path) -> None:
    lists: dict[str, Any] = {"algorithm.actor.hidden": [8, 8], "algorithm.horizon.initial": 4}
    run = create_run(configure("cartpole", "shac", num_envs=4, device="cpu", out=str(tmp_path), **lists))
    assert run.config == open_run(run.folder).config
    assert isinstance(run.config.algorithm, ShortHorizonConfig)
    assert run.config.algorithm.actor.hidden == (8, 8)


def test_runs_of_the_same_name_get_separate_folders(tmp_path: Path) -> None:
    runs = [create_run(small_config(tmp_path, name="twin", seed=seed)) for seed in range(3)]
    assert [run.folder.name for run in runs] == ["twin", "twin-2", "twin-3"]
    assert [open_run(run.folder).config.seed for run in runs] == [0, 1, 2]
    assert [open_run(run.folder).config.name for run in runs] == ["twin", "twin-2", "twin-3"]


@pytest.mark.parametrize("name", ["a/b", "../a", "..", ".", "a/", "/a"])
def test_a_name_is_that_of_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"without a path, got '{re.escape(name)}'"):
        small_config(tmp_path, name=name)
    assert small_config(tmp_path, name="").name == ""


def test_the_folder_of_run_folders_is_made(tmp_path: Path) -> None:
    assert create_run(small_config(tmp_path / "not" / "yet")).folder.is_dir()


def test_the_manifest_has_versions_seed_device_and_git_state(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, seed=11))
    manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 11
    assert manifest["device"] == "cpu"
    assert manifest["versions"]["ahac"] == version("ahac")
    assert manifest["versions"]["torch"] == version("torch")
    assert manifest["cores"] >= 1
    assert manifest["started"].endswith("+00:00")
    if manifest["git"] is not None:
        assert len(manifest["git"]["commit"]) == 40
        assert isinstance(manifest["git"]["changed"], bool)


def test_auto_is_written_down_as_the_device_that_it_meant(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, device="auto"))
    manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert run.config.device == "auto"


def test_a_folder_without_settings_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run: it has no config\.json; create a run with `ahac train`"):
        open_run(tmp_path)
    with pytest.raises(InputError, match="is not a run: the folder does not exist; `ahac list runs`"):
        open_run(tmp_path / "missing")


def test_a_folder_of_runs_is_not_a_run_and_the_error_lists_its_runs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        create_run(small_config(tmp_path, name=name))
    with pytest.raises(InputError, match=r"it has no config\.json, but contains runs: one, two$"):
        open_run(tmp_path)


def test_a_run_whose_settings_are_missing_says_what_to_do(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, iterations=1))
    train(run, display=False)
    settings = (run.folder / "config.json").read_bytes()
    last = run.path_of("last").read_bytes()
    (run.folder / "config.json").unlink()
    run.path_of("last").unlink()
    with pytest.raises(InputError, match=r"its config\.json is missing; copy one from a run with the same settings"):
        open_run(run.folder)
    (run.folder / "config.json").write_bytes(settings)
    run.path_of("last").write_bytes(last)
    assert train(open_run(run.folder), display=False)


def test_the_last_checkpoint_knows_the_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = create_run(small_config(tmp_path, iterations=1))
    train(run, display=False)
    (run.folder / "config.json").unlink()
    assert open_run(run.folder).config == run.config
    assert "config.json is missing; using the settings in" in caplog.text


def test_a_name_that_is_taken_is_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = create_run(small_config(tmp_path, name="twin")).folder
    assert not caplog.messages
    second = create_run(small_config(tmp_path, name="twin")).folder
    assert caplog.messages == [
        f"{first} already exists, so this run is stored in {second}; to continue the old one: `ahac resume {first}`"
    ]


def test_a_name_that_another_process_takes_first_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, seen = create.free_names, []

    def slow(wanted: Path) -> Iterator[Path]:
        for folder in honest(wanted):
            if not seen:  # another process takes the name in between
                (folder / "checkpoints").mkdir(parents=True)
            seen.append(folder.name)
            yield folder

    monkeypatch.setattr(create, "free_names", slow)
    assert create_run(small_config(tmp_path, name="twin")).folder.name == "twin-2"
    assert seen == ["twin", "twin-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["twin", "twin-2"]


def test_resuming_repairs_a_table_with_a_partial_line(tmp_path: Path) -> None:
    whole, run = (create_run(small_config(tmp_path, name=name)) for name in ("straight", "cut"))
    train(whole, display=False)
    train(run, 6, display=False)
    with (run.folder / "metrics.csv").open("a", encoding="utf-8") as file:
        file.write("7.0,448.0,1.2")
    train(open_run(run.folder), display=False)
    assert table(run.folder) == table(whole.folder)


def test_damaged_settings_are_refused(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path))
    path = run.folder / "config.json"
    path.write_text(path.read_text(encoding="utf-8")[:100], encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json is damaged or cannot be read"):
        open_run(run.folder)


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"3",
        b'{"task": "\xff"}',
    ],
)
def test_settings_that_are_no_settings_at_all_are_refused(content: bytes, tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path))
    (run.folder / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json (is damaged|must hold a dictionary)"):
        open_run(run.folder)


def resettled(out: Path, changes: dict[str, int]) -> Run:
    """Return a run with an edited config.json."""
    run = create_run(small_config(out))
    path = run.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return run


def test_an_unknown_setting_is_refused_by_name(tmp_path: Path) -> None:
    run = resettled(tmp_path, {"warp_speed": 9})
    with pytest.raises(InputError, match=r"config\.json cannot be read by this version.*no setting warp_speed"):
        open_run(run.folder)


def test_a_setting_out_of_range_is_refused_by_name(tmp_path: Path) -> None:
    run = resettled(tmp_path, {"num_envs": 0})
    with pytest.raises(InputError, match="num_envs must be a whole number of at least 1, got 0"):
        open_run(run.folder)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"task": "moonwalk"}),
        pytest.param({"variant": "draft"}),
        pytest.param({"device": "tpu"}),
    ],
)
def test_settings_that_cannot_run_leave_no_folder(change: dict[str, str], tmp_path: Path) -> None:
    config: RunConfig = replace(small_config(tmp_path), **change)
    with pytest.raises(InputError):
        _ = create_run(config).env
    assert not list(tmp_path.iterdir())


def test_training_restores_global_torch_settings(tmp_path: Path) -> None:
    try:
        train(create_run(small_config(tmp_path, iterations=1, deterministic=True)), display=False)
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\x1b[31mred", ".hidden", 201 * "x"])
def test_a_name_that_cannot_be_shown_or_stored_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name must"):
        create_run(small_config(tmp_path, name=name))
    assert not list(tmp_path.iterdir())
