"""Commands on pretrained policies: play, demo, eval, export and list."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ahac.cli.main import main
from ahac.core.files import read_json
from ahac.training import pretrained
from ahac.training.engines import EngineSettings, evaluate_in_engine, save_engine_evaluation
from ahac.training.run import Run, create_run
from ahac.training.trainer import finish
from ahac.training.viewing import EnvSource
from ahac.view import viewer
from ahac.view.sources import ViewSource
from ahac.view.trajectory import Trajectory
from support.small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with evaluations in both engines."""
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), task="cartpole", algo="ahac", iterations=2))
    finish(run, display=False)
    last = run.restore("last", with_env=False)
    save_engine_evaluation(run, [evaluate_in_engine(run, EngineSettings(), episodes=2)], last)
    return run


@pytest.fixture(scope="module")
def packed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrained")
    assert main(["export", str(run.folder), "--format", "pretrained", "--out", str(folder / "cartpole")]) == 0
    return folder


@pytest.fixture
def shipped(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the only policy that comes with the package, in which no command writes."""
    monkeypatch.setattr(pretrained, "FOLDER", packed)
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in packed.rglob("*")}
    yield packed / "cartpole"
    assert {path: path.stat().st_mtime_ns for path in packed.rglob("*")} == before


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ViewSource]:
    """Return the sources that the viewer was called with."""
    sources: list[ViewSource] = []
    monkeypatch.setattr(viewer, "serve", lambda source, **options: sources.append(source))
    return sources


@pytest.mark.usefixtures("shipped")
def test_eval_prints_what_it_prints_for_the_run(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run.folder)]) == 0
    expected = capsys.readouterr().out
    assert main(["eval", "cartpole", "--pretrained"]) == 0
    assert capsys.readouterr().out == expected
    assert main(["eval", "cartpole", "--pretrained", "--engine", "mujoco"]) == 0
    assert "mujoco" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["play", "cartpole", "--pretrained"], ["demo", "cartpole"]])
def test_play_and_demo_show_the_policy(command: list[str], shipped: Path, served: list[ViewSource]) -> None:
    assert main([*command, "--worlds", "2", "--no-browser"]) == 0
    (source,) = served
    assert isinstance(source, EnvSource)
    assert source.run is not None
    assert source.run.folder == shipped
    assert source.reset().position.shape[0] == 2
    source.load_checkpoint("last")


@pytest.mark.usefixtures("shipped")
def test_demo_records_as_play_does(run: Run, tmp_path: Path) -> None:
    commands = {"a.npz": ["demo", "cartpole"], "b.npz": ["play", str(run.folder)]}
    for name, command in commands.items():
        assert main([*command, "--record", str(tmp_path / name), "--seconds", "0.2"]) == 0
    one, two = (Trajectory.load(tmp_path / name) for name in commands)
    assert (one.frame(5).position == two.frame(5).position).all()
    assert main(["demo", "cartpole", "--record", "page.html", "--seconds", "0.1", "--engine", "mujoco"]) == 0
    assert (tmp_path / "page.html").is_file()


@pytest.mark.usefixtures("shipped")
def test_without_the_viewer_demo_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    assert main(["demo", "cartpole"]) == 2
    message = capsys.readouterr().err
    assert "pip install 'ahac[view]'" in message
    assert "--record FILE.html writes a page" in message


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(("format", "suffix"), [("onnx", ".onnx"), ("torchscript", ".pt")])
def test_export_writes_to_the_current_folder(
    format: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "cartpole", "--pretrained", "--format", format]) == 0
    assert capsys.readouterr().out == f"cartpole{suffix}\ncartpole.json\n"
    assert (tmp_path / f"cartpole{suffix}").is_file()


@pytest.mark.usefixtures("shipped")
def test_list_shows_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "pretrained"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["task", "algo"]
    assert row.split()[:2] == ["cartpole", "ahac"]
    assert "-" not in row.split()
    about = read_json(pretrained.pretrained_folder("cartpole") / "manifest.json")
    assert row.split()[4:6] == [
        f"{about['evaluation']['mean']:.1f}",
        f"{about['evaluation_mujoco']['engines'][-1]['mean']:.1f}",
    ]


def test_list_without_policies_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "absent")
    assert main(["list", "pretrained"]) == 0
    assert capsys.readouterr().out == "this version has no pretrained policies; train one with `ahac train TASK`\n"
    assert main(["demo"]) == 2
    assert "no pretrained policy for 'go1'; available: none; train one with `ahac train go1`" in capsys.readouterr().err


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("command", [["play"], ["eval"], ["export"]])
def test_tasks_without_a_policy_are_refused_with_those_that_have_one(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "ant", "--pretrained"]) == 2
    assert capsys.readouterr().err == (
        "ahac: no pretrained policy for 'ant'; available: cartpole; train one with `ahac train ant`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "cartpole", "--pretrained", "--newest"], "a --pretrained policy does not change; omit --newest"),
        (["export", "cartpole", "--pretrained", "--format", "pretrained"], "is a pretrained policy already"),
        (["play", "cartpole", "--pretrained", "--checkpoint", "best"], "has no checkpoint 'best'; it has: last"),
    ],
)
def test_what_does_not_apply_is_refused(
    arguments: list[str], message: str, shipped: Path, capsys: pytest.CaptureFixture[str], served: list[ViewSource]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not served


def test_resume_is_refused(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(shipped), "--iterations", "9"]) == 2
    message = capsys.readouterr().err
    assert "a pretrained policy has no optimizer state; train with `ahac train cartpole`" in message
