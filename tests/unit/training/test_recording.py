"""Recordings: what is recorded, the player in a notebook, pictures, and what is refused."""

import html
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import ahac
from ahac.core.errors import InputError
from ahac.envs import make_task
from ahac.sim import load_model
from ahac.training.recording import Recording
from ahac.training.run import Run
from support.deployed import untrained
from support.sample_scene import falling_ball
from support.small_runs import small_algorithm, small_config

BALL = '<mujoco model="ball"><worldbody><body pos="0 0 1"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs")
    return untrained(small_config(out, task="cartpole", algorithm=small_algorithm("cartpole", "shac")))


def test_a_film_of_a_run_shows_its_policy(run: Run) -> None:
    policy = ahac.record(run, 0.5)
    assert ahac.record(run.folder, 0.5).trajectory.position == pytest.approx(policy.trajectory.position)
    rest = ahac.record(run, 0.5, agent="zero")
    assert np.abs(policy.trajectory.position - rest.trajectory.position).max() > 1e-4


def test_a_film_of_a_task_has_the_chosen_actions_and_worlds() -> None:
    recording = ahac.record("cartpole", 0.5, worlds=2)
    assert (len(recording.trajectory), recording.trajectory.num_worlds) == (31, 2)
    assert repr(recording) == "<Recording of cartpole: 0.50 s, 2 worlds>"
    same = ahac.record(make_task("cartpole"), 0.5, worlds=2)
    assert same.trajectory.position == pytest.approx(recording.trajectory.position)
    moved = ahac.record("cartpole", 0.5, worlds=2, agent="random")
    assert np.abs(moved.trajectory.position - recording.trajectory.position).max() > 1e-3


def test_a_film_of_a_robot_needs_no_task() -> None:
    recording = ahac.record(load_model(BALL), 0.2)
    height = recording.trajectory.position[:, 0, 1, 2]
    assert height[0] == pytest.approx(1.0)
    assert height[-1] == pytest.approx(1.0 - 0.5 * 9.81 * 0.2**2, abs=0.01)
    assert repr(recording) == "<Recording of ball: 0.20 s, 1 world>"


def test_the_player_in_a_notebook_is_the_saved_page(tmp_path: Path) -> None:
    recording = Recording(falling_ball())
    page = recording.save(tmp_path / "ball.html").read_text(encoding="utf-8")
    pattern = r'^<iframe srcdoc="([^"]*)" sandbox="allow-scripts" style="[^"<>]*"></iframe>$'
    (frame,) = re.findall(pattern, shown(recording))
    assert html.unescape(frame) == page


def shown(recording: Recording) -> str:
    """What Jupyter displays."""
    return recording._repr_html_()


def test_pictures_follow_the_robot_in_equal_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("ahac.plots.strip.plot_strip", lambda *arguments: drawn.append(SimpleNamespace(all=arguments)))
    recording = Recording(falling_ball(frames=61, dt=1 / 60))
    assert recording.pictures(tmp_path / "ball.png", count=3, start=0.2, seconds=0.5) == tmp_path / "ball.png"
    path, pictures, ground = drawn[0].all
    assert path == tmp_path / "ball.png"
    assert list(pictures) == ["0.20 s", "0.45 s", "0.70 s"]
    assert ground == 0.0
    centers = [0.5 * (triangles[..., 0].min() + triangles[..., 0].max()) for triangles, _ in pictures.values()]
    moved = np.ptp(recording.trajectory.position[:, 0, 1, 0])
    assert np.ptp(centers) < 0.2 * moved
    heights = [triangles[..., 1].max() for triangles, _ in pictures.values()]
    assert len(set(heights)) == 3


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_drawn(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = Recording(falling_ball()).pictures(tmp_path / f"ball{suffix}", count=3)
    start = path.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if suffix == ".png" else b"<svg" in path.read_bytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ahac.record("cartpole", 0.1, agent="best"), "agent must be 'policy', 'zero' or 'random', got 'best'"),
        (lambda: ahac.record("cartpole", 0.1, agent="policy"), "cartpole is not a run and has no policy"),
        (lambda: ahac.record("cartpole", 0.1, worlds=0), "worlds must be"),
        (lambda: ahac.record("no_such_task", 0.1), "no_such_task"),
        (lambda: Recording(falling_ball(frames=7, dt=0.1)).pictures("x.png", start=0.5, seconds=0.3), "lasts 0.60 s"),
        (lambda: Recording(falling_ball()).pictures("x.jpg"), "a figure must be a .png or .svg file"),
    ],
)
def test_films_refuse_what_they_cannot_show(call: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=re.escape(message)):
        call()


def test_a_robot_without_moving_shapes_has_no_pictures(tmp_path: Path) -> None:
    model = load_model(BALL.replace('<geom size=".1"/>', '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'))
    with pytest.raises(InputError, match="nothing to draw"):
        ahac.record(model, 0.1).pictures(tmp_path / "x.png")


def test_films_do_not_change_global_random_numbers() -> None:
    state = torch.random.get_rng_state()
    ahac.record("cartpole", 0.1, agent="random")
    assert torch.equal(torch.random.get_rng_state(), state)
