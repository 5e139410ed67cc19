"""`ahac play`: targets, recordings and errors."""

from pathlib import Path

import pytest

from ahac.cli.main import main
from ahac.view import viewer
from ahac.view.sources import ViewSource
from ahac.view.trajectory import Trajectory

ROBOT = """<mujoco model="ball"><worldbody><body name="ball" pos="0 0 1"><freejoint/><geom size="0.1"/></body>
</worldbody></mujoco>"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ViewSource, dict[str, object]]]:
    """Return the sources and options that the viewer was called with."""
    calls: list[tuple[ViewSource, dict[str, object]]] = []
    monkeypatch.setattr(viewer, "serve", lambda stage, **options: calls.append((stage, options)))
    return calls


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["play", *arguments]) == 2
    return capsys.readouterr().err


def test_recorded_trajectory_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gait.npz"
    assert main(["play", "hopper", "--agent", "random", "--record", str(path), "--seconds", "0.2"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert (len(Trajectory.load(path)), Trajectory.load(path).num_worlds) == (13, 1)
    assert main(["play", str(path), "--record", str(tmp_path / "gait.html")]) == 0
    assert "ahac: hopper" in (tmp_path / "gait.html").read_text(encoding="utf-8")
    command = ("--record", str(tmp_path / "steered.html"), "--command", "1", "0", "0")
    assert "a saved trajectory follows no commands" in refused(capsys, str(path), *command)
    assert "hopper follows no velocity commands" in refused(capsys, "hopper", *command)


def test_a_recording_of_a_task_reports_its_reward_and_how_often_it_was_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With actions of zero a Hopper falls within two seconds."""
    path = tmp_path / "fall.npz"
    assert main(["play", "hopper", "--record", str(path), "--seconds", "2"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mean reward ")]
    reward, ended = line.removeprefix("mean reward ").split(" per step, terminations: ")
    assert float(reward) == pytest.approx(Trajectory.load(path).channels["reward"][1:].mean(), rel=1e-2)
    assert int(ended) >= 1


def test_robot_file_is_shown_on_a_ground_plane(
    tmp_path: Path, served: list[tuple[ViewSource, dict[str, object]]]
) -> None:
    path = tmp_path / "ball.xml"
    path.write_text(ROBOT, encoding="utf-8")
    assert main(["play", str(path), "--worlds", "3", "--port", "9000", "--no-browser"]) == 0
    ((stage, options),) = served
    assert (options["port"], options["open_browser"]) == (9000, False)
    assert len(stage.scene.planes) == 1
    assert stage.reset().position.shape[0] == 3


def test_unknown_target_is_rejected_with_the_known_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'hoper' is not a run folder" in (message := refused(capsys, "hoper"))
    assert "hopper, ant" in message
    assert "is not a run" in refused(capsys, "/tmp")
    assert "no file" in refused(capsys, "nothing.npz")


def test_unknown_recording_format_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "hopper", "--record", str(tmp_path / "gait.avi"))
    assert "a recording must be a .html, .mp4, .gif, .npz file, got 'gait.avi'" in message
    assert not list(tmp_path.iterdir())


def test_task_has_no_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert "hopper is not a run and has no policy; use --agent zero or --agent random" in refused(
        capsys, "hopper", "--agent", "policy"
    )
