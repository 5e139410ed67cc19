"""Exported policies compute what the library's do, in both formats, and nothing else is ever written."""

import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ahac
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPOConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.algos.sac import SACConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.algos.svg import SVGConfig
from ahac.cli.main import main
from ahac.core.errors import InputError, NonFiniteError
from ahac.deployment import ExportError
from ahac.deployment.onnx_format import METADATA, run_onnx, to_onnx
from ahac.deployment.program import PolicyProgram
from ahac.deployment.torchscript import DESCRIPTION_FILE, run_torchscript
from ahac.deployment.verification import TOLERANCE
from ahac.training.checkpoint import CheckpointError
from ahac.training.run import Run
from support.deployed import NUMBERS, untrained
from support.small_runs import small_algorithm, small_config

OFF_POLICY: dict[str, Any] = {"hidden": (8, 8), "critic_hidden": (8,), "buffer_size": 100}
SETTINGS: dict[str, AlgorithmConfig] = {
    **{algo: small_algorithm("hopper", algo) for algo in ("ahac", "ahac1", "shac", "sapo", "bptt")},
    "ppo": PPOConfig(hidden=(16, 16), critic_hidden=(8,)),
    "ppo, one trunk": PPOConfig(hidden=(16, 8), critic_hidden=None, activation="tanh"),
    "ppo, not normalized": PPOConfig(hidden=(16,), critic_hidden=(8,), activation="relu", normalize_obs=False),
    "sac": SACConfig(**OFF_POLICY),
    "svg": SVGConfig(**OFF_POLICY, model_hidden=(8,), latent=4),
    "fasttd3": FastTD3Config(**OFF_POLICY),
}
RUNNERS = {"onnx": run_onnx, "torchscript": run_torchscript}


def hopper(out: Path, name: str) -> Run:
    algo = name.partition(",")[0]
    return untrained(replace(small_config(out), algo=algo, algorithm=SETTINGS[name]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hopper(tmp_path_factory.mktemp("runs"), "shac")


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder for exports, and check that no temporary file remains."""
    yield tmp_path
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", SETTINGS)
def test_policies_of_all_algorithms_match_in_both_formats(name: str, tmp_path: Path) -> None:
    run = hopper(tmp_path, name)
    rng = np.random.default_rng(7)
    size = run.env.spec.obs_size
    obs = (rng.standard_normal((300, size)) * rng.choice([1.0, 10.0], (300, 1))).astype(np.float32)
    expected = run.algo.act(torch.from_numpy(obs)).numpy()
    assert np.ptp(expected, axis=0).min() > 1e-4, "the actions depend on the observations"
    for format, execute in RUNNERS.items():
        content = ahac.export(run, format=format).read_bytes()
        actions, controls = execute(content, obs)
        assert actions.dtype == controls.dtype == np.float32
        assert np.abs(actions - expected).max() <= TOLERANCE
        assert np.abs(actions).max() <= 1.0
        assert np.array_equal(controls, actions), "hopper's motors have controls from -1 to 1"
        assert execute(content, obs[:1])[0].shape == (1, run.env.spec.action_size)


@pytest.mark.parametrize(("format", "name"), [("onnx", "policy.onnx"), ("torchscript", "policy.pt")])
def test_the_command_writes_policy_and_description(
    run: Run, format: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run.folder), "--format", format]) == 0
    policy, description = (Path(line) for line in capsys.readouterr().out.splitlines())
    assert policy == run.folder / name
    assert description == run.folder / "policy.json"
    assert policy.stat().st_size > 0
    about = json.loads(description.read_text(encoding="utf-8"))
    assert about["outputs"].keys() == {"actions", "controls"}


@pytest.mark.parametrize(("name", "format"), [("a.onnx", "onnx"), ("a.pt", "torchscript"), ("a.TS", "torchscript")])
def test_the_suffix_selects_the_format(run: Run, folder: Path, name: str, format: str) -> None:
    assert main(["export", str(run.folder), "--out", str(folder / name)]) == 0
    obs = np.zeros((2, run.env.spec.obs_size), dtype=np.float32)
    assert RUNNERS[format]((folder / name).read_bytes(), obs)[0].shape == (2, run.env.spec.action_size)


def test_a_folder_is_not_given_the_suffix_of_a_file(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run.folder), "--format", "pretrained", "--out", str(folder / "a.pt")]) == 2
    assert "has the suffix of a file, but --format pretrained writes a folder" in capsys.readouterr().err
    assert not list(folder.iterdir())


def test_both_formats_have_the_same_description(run: Run, folder: Path) -> None:
    texts = [ahac.export(run, folder / name).with_suffix(".json").read_bytes() for name in ("a.onnx", "a.pt")]
    assert texts[0] == texts[1]


def test_the_file_contains_its_description(run: Run, folder: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = ahac.export(run, folder / "a.onnx")
    text = (folder / "a.json").read_text(encoding="utf-8")
    assert onnxruntime.InferenceSession(str(path)).get_modelmeta().custom_metadata_map[METADATA] == text
    ahac.export(run.folder, folder / "a.pt", format="torchscript")
    with zipfile.ZipFile(folder / "a.pt") as content:
        (name,) = [name for name in content.namelist() if name.endswith(f"extra/{DESCRIPTION_FILE}")]
        assert content.read(name).decode() == text


def test_a_chosen_checkpoint_is_exported(run: Run, folder: Path) -> None:
    run.save("iteration-000007", run.snapshot({**NUMBERS, "iteration": 7, "env_steps": 70}, {}))
    assert main(["export", str(run.folder), "--checkpoint", "iteration-000007", "--out", str(folder / "p.onnx")]) == 0
    about = json.loads((folder / "p.json").read_text(encoding="utf-8"))
    assert (about["checkpoint"], about["iteration"], about["env_steps"]) == ("iteration-000007", 7, 70)


def test_the_exported_run_stays_as_it_is(run: Run, folder: Path) -> None:
    before = run.path_of("last").read_bytes()
    weights = [parameter.clone() for parameter in run.algo.policy_layers().parameters()]
    ahac.export(run, folder / "p.onnx")
    assert run.path_of("last").read_bytes() == before
    after = list(run.algo.policy_layers().parameters())
    assert all(p.requires_grad and torch.equal(p, q) for p, q in zip(after, weights, strict=True))


def test_a_program_that_differs_is_not_written(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ShortHorizonActorCritic.act
    monkeypatch.setattr(ShortHorizonActorCritic, "act", lambda self, obs: original(self, obs) + 2e-5)
    for format in RUNNERS:
        with pytest.raises(ExportError, match=r"differs from the library by up to 2e-05, expected at most 1e-05"):
            ahac.export(run, folder / "policy.bin", format=format)
    assert not list(folder.iterdir())


def test_a_program_with_other_outputs_is_not_written(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PolicyProgram, "forward", lambda self, obs: self.layers(obs)[:1])
    with pytest.raises(ExportError, match=r"returns arrays of shape .* nothing was written"):
        ahac.export(run, folder / "policy.pt", format="torchscript")
    assert not list(folder.iterdir())


def test_non_finite_policies_are_not_exported(run: Run, folder: Path) -> None:
    checkpoint = run.snapshot(NUMBERS, {})
    name = next(name for name in checkpoint.tensors if name.startswith("algo/actor.net"))
    damaged = {**checkpoint.tensors, name: checkpoint.tensors[name] * torch.nan}
    run.save("iteration-000009", replace(checkpoint, tensors=damaged))
    with pytest.raises(NonFiniteError, match="weights are not finite"):
        ahac.export(run, folder / "p.onnx", checkpoint="iteration-000009")
    assert not list(folder.iterdir())


def test_missing_packages_are_named(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"needs onnxruntime, .*pip install 'ahac\[export\]'"):
        ahac.export(run, folder / "p.onnx")
    ahac.export(run, folder / "p.pt", format="torchscript")


def test_unknown_layers_are_named() -> None:
    program = PolicyProgram(nn.Sequential(nn.Linear(2, 2), nn.Softplus()), None, 2, 2)
    assert program.outputs == ["actions"]
    with pytest.raises(InputError, match="a layer Softplus cannot be exported to ONNX; export it as torchscript"):
        to_onnx(program, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "tflite"}, "format must be onnx or torchscript, got 'tflite'"),
        ({"path": "p.json"}, "'p.json' is the name of the description; give the policy the suffix .onnx"),
        (
            {"path": "p.ts", "format": "onnx"},
            "'p.ts' has a suffix of torchscript, but the format is onnx; change the suffix to .onnx, or the format to "
            "torchscript",
        ),
        (
            {"path": "p.bin"},
            r"the suffix of 'p.bin' stands for no format; use one of .onnx \(onnx\), .pt .pth .ts \(torchscript\), or "
            "name the format",
        ),
        ({"path": "absent/p.onnx"}, "there is no folder 'absent'; create it first"),
    ],
)
def test_wrong_arguments_are_explained(run: Run, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        ahac.export(run, **arguments)


def test_missing_and_damaged_checkpoints_are_explained(tmp_path: Path) -> None:
    run = hopper(tmp_path, "ppo")
    with pytest.raises(CheckpointError, match="has no checkpoint 'best'; it has: last"):
        ahac.export(run, checkpoint="best")
    path = run.path_of("last")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        ahac.export(run)
    assert not (run.folder / "policy.onnx").exists()
    with pytest.raises(InputError, match="is not a run"):
        ahac.export(tmp_path / "nothing")
