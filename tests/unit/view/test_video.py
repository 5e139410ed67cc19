import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import AhacError, InputError
from ahac.view.render_job import FORCE_COLOR, build_render_job
from ahac.view.trajectory import Trajectory
from ahac.view.video import save_thumbnail, save_video
from support.graphics import require_graphics

Image = pytest.importorskip("PIL.Image")
ffmpeg = pytest.importorskip("imageio_ffmpeg")


@pytest.fixture(scope="module")
def graphics() -> None:
    require_graphics()


def test_the_camera_follows_smoothly_and_jumps_with_a_reset(roll: Trajectory) -> None:
    roll.position[12:, :, 1, 0] += 50.0
    job = build_render_job(roll, 0, 60.0, follow=True)
    assert job.target[11, 0] < 2.0
    assert job.target[12, 0] > 49.0
    assert np.abs(np.diff(job.target[:12, 0])).max() < 0.06


def test_a_fixed_camera_shows_the_whole_path(roll: Trajectory) -> None:
    job = build_render_job(roll, 0, 60.0, follow=False)
    assert np.ptp(job.target, axis=0).tolist() == [0.0, 0.0, 0.0]
    assert job.span >= 0.5 + 0.1


def test_frames_are_dropped_and_repeated_to_match_the_frame_rate(roll: Trajectory) -> None:
    x = roll.position[:, 0, 1, 0]
    assert np.array_equal(build_render_job(roll, 0, 30.0, True).position[:, 1, 0], x[::2])
    assert len(build_render_job(roll, 0, 90.0, True).position) == 36


def test_a_force_is_an_arrow_from_where_it_acts(roll: Trajectory) -> None:
    job = build_render_job(roll, 0, 60.0, follow=True)
    assert job.count.tolist() == [1] * 24
    assert job.is_arrow.all()
    assert np.allclose(job.ends[0, 0], 0.0, atol=1e-6)
    assert job.ends[0, 1, 2] > 0.05
    assert job.color[0].tolist() == list(FORCE_COLOR)


def test_muscles_go_from_blue_to_red(pull: Trajectory) -> None:
    pull.activation[0], pull.activation[3] = 0.0, 1.0
    job = build_render_job(pull, 0, 60.0, follow=True)
    first, last = job.color[0], job.color[-1]
    assert first[2] > first[0]
    assert last[0] > last[2]


@pytest.mark.usefixtures("graphics")
def test_a_thumbnail_shows_the_robot_and_its_force(roll: Trajectory, tmp_path: Path) -> None:
    roll.force[..., 0] = 100.0  # far enough sideways to stick out of the ball
    save_thumbnail(roll, tmp_path / "a.png")
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    assert picture.shape == (360, 480, 3)
    green = (picture[..., 1] > picture[..., 0] + 40) & (picture[..., 1] > picture[..., 2] + 40)
    assert green.sum() > 50
    assert picture[180, 240].std() < 12  # the ball is grey
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.usefixtures("graphics")
@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio-ffmpeg leaves pipes open
def test_a_video_plays(suffix: str, roll: Trajectory, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_video(roll, path, size=(64, 48), fps=25)
    if suffix == ".gif":
        with Image.open(path) as picture:
            assert (picture.size, picture.n_frames, picture.info["duration"]) == ((64, 48), 10, 40)
    else:
        frames = ffmpeg.read_frames(path)
        about = next(frames)
        assert (about["size"], about["fps"], len(list(frames))) == ((64, 48), 25.0, 10)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.usefixtures("graphics")
@pytest.mark.parametrize("name", ["pull", "shapes"])
def test_muscles_meshes_and_all_shapes_are_drawn(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    save_thumbnail(request.getfixturevalue(name), tmp_path / "a.png", size=(96, 64))
    assert np.asarray(Image.open(tmp_path / "a.png")).std() > 10.0


def test_a_non_finite_trajectory_is_refused(roll: Trajectory, tmp_path: Path) -> None:
    roll.position[7, 1, 1, 2] = np.nan
    with pytest.raises(InputError, match=r"frame 7 .*world 1, body 'ball'"):
        save_video(roll, tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.avi", {}, "a video must be a .mp4 or .gif file, got .*a.avi"),
        ("a.mp4", {"fps": 0}, "fps must be a finite number of at least 1"),
        ("a.gif", {"fps": 240}, "fps must be at most 100, got 240"),
        ("a.mp4", {"size": (63, 48)}, "both even for .mp4, got 63 x 48"),
        ("a.mp4", {"size": (9999, 48)}, "at most 4096"),
        ("a.mp4", {"world": 5}, "world must be from 0 to 1 in this trajectory"),
        ("missing/a.mp4", {}, "there is no folder"),
    ],
)
def test_invalid_options_are_refused(roll: Trajectory, tmp_path: Path, name: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        save_video(roll, tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_a_thumbnail_is_a_png(roll: Trajectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a thumbnail must be a \.png file"):
        save_thumbnail(roll, tmp_path / "a.jpg")


@pytest.mark.parametrize("backend", ["disable", "glfw"])
def test_without_graphics_it_says_what_to_install(
    backend: str, roll: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", backend)
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    (tmp_path / "a.mp4").write_text("older")
    with pytest.raises(InputError, match=r"libosmesa6, or libegl1 and libgl1-mesa-dri") as caught:
        save_video(roll, tmp_path / "a.mp4")
    assert f"MUJOCO_GL={backend} is set: `unset MUJOCO_GL` to try both egl and osmesa" in str(caught.value)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.mp4", "older")]


def test_a_graphics_library_that_crashes_is_survived(
    roll: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    (tmp_path / "python").write_text("#!/bin/sh\nkill -SEGV $$\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InputError, match="egl: killed by signal 11; osmesa: killed by signal 11"):
        save_video(roll, tmp_path / "a.mp4")
    assert [file.name for file in tmp_path.iterdir()] == ["python"]


def test_a_worker_that_fails_is_quoted(roll: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho 'OSError: disk full' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(AhacError, match="rendering the video failed: OSError: disk full"):
        save_video(roll, tmp_path / "a.mp4")


def test_without_the_extra_it_says_what_to_install(
    roll: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ahac.view.video.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need imageio_ffmpeg, which is not installed: pip install 'ahac\[view\]'"):
        save_video(roll, tmp_path / "a.mp4")


def test_the_worker_loads_no_simulator() -> None:
    assert shutil.which(sys.executable)
    code = "import sys, ahac.view.video_worker; assert not {'torch', 'warp', 'mujoco'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
