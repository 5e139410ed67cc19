"""Pretrained policies: packing a run, opening the result, and what is refused."""

import logging
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ahac
from ahac.algos.fasttd3 import FastTD3Config
from ahac.cli.train import train_config
from ahac.core.errors import InputError
from ahac.core.files import read_json
from ahac.experiments.run_files import read_run
from ahac.training import pretrained
from ahac.training.api import configure
from ahac.training.checkpoint import CheckpointError
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig
from ahac.training.csv_log import CsvLog, read_csv
from ahac.training.engines import EngineSettings, engine_env
from ahac.training.run import Run, create_run, open_run
from ahac.training.task_source import resolve_task
from ahac.training.trainer import finish, train
from support.marks import extended
from support.small_runs import small_config

SHIPPED = pretrained.available()
"""Tasks whose policies come with the package."""
NOT_TRANSFERABLE = ("ant", "anymal", "hopper", "humanoid", "snu_humanoid")
"""The paper's tasks, with their soft contact: their policies do not hold in MuJoCo."""
SHORT_EPISODE = 5.0
"""Duration of an episode that a shipped policy must complete without falling [s]."""
STARTS = 16
"""Number of these episodes."""
MOST_FALLS = {"snu_humanoid": 6}
"""Exceptions: about 12 % of the random starts of SNU Humanoid end in a fall within 4 s."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs")
    run = create_run(small_config(out, task="cartpole", algo="ahac", iterations=3, checkpoint_every=2))
    finish(run, display=False)
    return run


@pytest.fixture(scope="module")
def packed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds its packed policy, as the package's folder does."""
    folder = tmp_path_factory.mktemp("pretrained")
    pretrained.pack(run, folder / "cartpole")
    return folder


@pytest.fixture
def shipped(packed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packed policy as one that comes with the package."""
    monkeypatch.setattr(pretrained, "FOLDER", packed)
    return packed / "cartpole"


@pytest.fixture
def unchanged(shipped: Path) -> Iterator[Path]:
    """Fails if a test changes the folder."""

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in shipped.rglob("*") if path.is_file()}

    before = content()
    yield shipped
    assert content() == before


def test_a_packed_policy_acts_like_the_run(run: Run, shipped: Path) -> None:
    opened = ahac.pretrained("cartpole", device="cpu")
    obs = 3.0 * torch.randn(64, run.env.spec.obs_size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(opened.algo.act(obs), run.algo.act(obs))
    assert opened.folder == shipped


def test_a_packed_policy_is_evaluated_like_the_run(run: Run, unchanged: Path) -> None:
    opened = ahac.pretrained("cartpole", device="cpu")
    assert opened.evaluate().returns.tolist() == run.evaluate().returns.tolist()


def test_a_packed_policy_holds_only_what_acting_needs(run: Run, shipped: Path) -> None:
    assert sorted(str(path.relative_to(shipped)) for path in shipped.rglob("*") if path.is_file()) == [
        "checkpoints/last.safetensors",
        "config.json",
        "manifest.json",
        "metrics.csv",
    ]
    saved = open_run(shipped).restore("last", with_env=False)
    assert saved.policy_only
    assert {name.split("/")[1].split(".")[0] for name in saved.tensors} == {"actor", "normalizer"}
    assert saved.numbers["iteration"] == 3
    assert not run.restore("last", with_env=False).policy_only


def test_the_manifest_tells_how_a_policy_was_trained(run: Run, shipped: Path) -> None:
    about, original = (read_json(folder / "manifest.json") for folder in (shipped, run.folder))
    assert about["versions"] == original["versions"]
    assert "host" not in about
    assert about["command"].startswith("ahac train cartpole --num-envs 8 --iterations 3 ")
    assert (about["iteration"], about["checkpoint"]) == (3, "last")
    assert about["env_steps"] == run.restore("last", with_env=False).numbers["env_steps"]
    assert about["evaluation"]["mean"] == read_json(run.folder / "evaluation.json")["mean"]
    assert about["evaluation_mujoco"] is None
    assert read_json(shipped / "config.json")["out"] == "runs"
    assert read_run(shipped).complete


@pytest.mark.parametrize(
    "config",
    [
        configure("hopper"),
        configure("ant", "ppo", "paper", seed=3, env_steps=1000),
        configure("hopper", "bptt"),
        small_config(Path("anywhere"), "ahac"),
        small_config(Path("anywhere"), "shac", integrator="implicit", deterministic=True),
    ],
    ids=lambda config: f"{config.task}-{config.algo}",
)
def test_the_training_command_has_all_settings(config: RunConfig) -> None:
    program, command, *arguments = shlex.split(pretrained.training_command(resolve_task(config)))
    assert (program, command) == ("ahac", "train")
    same = {name: getattr(config, name) for name in NON_SEMANTIC_FIELDS}
    assert resolve_task(replace(train_config(arguments), **same)) == resolve_task(config)


def test_metrics_are_thinned(tmp_path: Path) -> None:
    table = CsvLog(tmp_path / "metrics.csv")
    for k in range(1, 1000):
        table.write({"iteration": k, "env_steps": 1_000_000 * k, "seconds": k / 7})
    pretrained._write_metrics(tmp_path / "metrics.csv", tmp_path / "thin.csv", 900)
    rows = read_csv(tmp_path / "thin.csv")
    assert len(rows) == pretrained.MAX_ROWS
    assert (rows[0]["iteration"], rows[-1]["iteration"]) == (1, 900)
    assert rows[-1]["env_steps"] == 900_000_000
    assert rows[-1]["seconds"] == pytest.approx(900 / 7, rel=1e-5)


RESUMES: dict[str, Callable[[Path], object]] = {
    "resume": ahac.resume,
    "longer": lambda folder: ahac.resume(folder, iterations=9),
    "from a checkpoint": lambda folder: ahac.resume(folder, checkpoint="last"),
    "train": lambda folder: train(open_run(folder)),
    "restore": lambda folder: open_run(folder).restore(),
}


@pytest.mark.parametrize("resume", RESUMES.values(), ids=RESUMES)
def test_a_resume_is_refused_and_writes_nothing(resume: Callable[[Path], object], unchanged: Path) -> None:
    with pytest.raises(
        CheckpointError, match="a pretrained policy has no optimizer state; train with `ahac train cartpole`"
    ):
        resume(unchanged)


def test_a_damaged_policy_is_refused(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cartpole"
    shutil.copytree(packed / "cartpole", folder)
    path = folder / "checkpoints" / "last.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    with pytest.raises(CheckpointError, match=r"last.safetensors is damaged: its checksum does not match"):
        ahac.pretrained("cartpole")
    path.unlink()
    with pytest.raises(CheckpointError, match="has no checkpoint 'last'"):
        ahac.pretrained("cartpole")


def test_missing_policies_are_refused_with_those_there_are(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pretrained.available() == ("cartpole",)
    with pytest.raises(InputError, match="no pretrained policy for 'ant'; available: cartpole; train one with"):
        ahac.pretrained("ant")
    with pytest.raises(InputError, match="available: cartpole; `ahac list tasks` lists the tasks"):
        ahac.pretrained("../cartpole")
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    assert pretrained.available() == ()
    with pytest.raises(InputError, match="no pretrained policy for 'cartpole'; available: none"):
        ahac.pretrained("cartpole")


def test_nothing_is_overwritten_and_nothing_is_packed_twice(run: Run, shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists; a pretrained policy is written to a new folder"):
        pretrained.pack(run, shipped)
    with pytest.raises(InputError, match="is a pretrained policy already"):
        pretrained.pack(shipped, tmp_path / "again")
    assert not list(tmp_path.iterdir())


def test_missing_evaluations_are_named(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ahac"):
        folder = pretrained.pack(run, tmp_path / "policy", "iteration-000002")
    assert f"no evaluation.json of this checkpoint; to include it, run `ahac eval {run.folder}` first" in caplog.text
    assert f"`ahac eval {run.folder} --engine mujoco` first" in caplog.text
    about = read_json(folder / "manifest.json")
    assert (about["checkpoint"], about["iteration"], about["evaluation"]) == ("iteration-000002", 2, None)
    assert [row["iteration"] for row in read_csv(folder / "metrics.csv")] == [1, 2]


def test_large_policies_are_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "MAX_FILE_BYTES", 1_000)
    with pytest.raises(InputError, match=r"\w+ would have \d+ kB; files of pretrained policies may have at most 1 kB"):
        pretrained.pack(run, tmp_path / "policy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("algo", ["ppo", *extended("sac", "svg", "fasttd3", "shac", "bptt", "ahac1")])
def test_policies_of_other_algorithms_are_packed(algo: str, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    config = configure("cartpole", algo, num_envs=4, iterations=1, device="cpu", out=str(out))
    if isinstance(config.algorithm, FastTD3Config):  # its default policy is larger than files of the package may be
        config = replace(config, algorithm=replace(config.algorithm, hidden=(64,)))
    run = create_run(config)
    train(run, display=False)
    opened = open_run(pretrained.pack(run, tmp_path / "policy"))
    opened.restore("last", with_env=False)
    obs = torch.randn(8, run.env.spec.obs_size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(opened.algo.act(obs), run.algo.act(obs))


@pytest.mark.parametrize("task", SHIPPED)
def test_shipped_policies_load_and_act(task: str) -> None:
    run = ahac.pretrained(task, device="cpu")
    assert run.config.task == task
    env = ahac.make(run.task, num_envs=4, device="cpu", seed=0)
    action = run.algo.act(env.reset())
    assert action.shape == (4, env.spec.action_size)
    assert (action.abs() <= 1.0).all()


@pytest.mark.parametrize("task", SHIPPED)
def test_shipped_policies_tell_where_they_come_from(task: str) -> None:
    folder = pretrained.pretrained_folder(task)
    about = read_json(folder / "manifest.json")
    assert shlex.split(about["command"])[:3] == ["ahac", "train", task]
    assert about["evaluation"] is not None
    assert about["evaluation_mujoco"] is not None
    assert len(read_run(folder).rows) <= pretrained.MAX_ROWS
    assert all(path.stat().st_size <= pretrained.MAX_FILE_BYTES for path in folder.rglob("*"))


@pytest.mark.extended
@pytest.mark.parametrize("task", SHIPPED)
def test_shipped_policies_do_not_fall(task: str) -> None:
    """In MuJoCo if they should transfer, else in the engine that they were trained in; some starts may be exempt."""
    run = ahac.pretrained(task, device="cpu")
    if task in NOT_TRANSFERABLE:
        env = ahac.make(run.task, num_envs=STARTS, device="cpu", seed=run.eval_seed)
    else:
        env = engine_env(run.task, EngineSettings(), STARTS, run.eval_seed, run.device)
    obs = env.reset()
    fallen = torch.zeros(STARTS, dtype=torch.bool)
    for _ in range(round(SHORT_EPISODE / env.spec.dt)):
        step = env.step(run.algo.act(obs))
        fallen |= step.terminated
        assert int(fallen.sum()) <= MOST_FALLS.get(task, 0)
        obs = step.obs
