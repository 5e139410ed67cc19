from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.view.trajectory import Frame, Recorder, Trajectory


def same(a: Trajectory, b: Trajectory) -> bool:
    arrays = all(
        np.array_equal(getattr(a, k), getattr(b, k)) for k in ("position", "quaternion", "force", "activation")
    )
    channels = a.channels.keys() == b.channels.keys() and all(
        np.array_equal(a.channels[k], b.channels[k]) for k in a.channels
    )
    return arrays and channels and a.dt == b.dt and a.scene.to_dict() == b.scene.to_dict()


@pytest.mark.parametrize("name", ["roll", "pull"])
def test_a_saved_trajectory_loads_unchanged(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    trajectory = request.getfixturevalue(name)
    trajectory.save(tmp_path / "a.npz")
    assert same(Trajectory.load(tmp_path / "a.npz"), trajectory)
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_frames_recorded_one_by_one_are_the_trajectory(roll: Trajectory) -> None:
    recorder = Recorder(roll.scene, roll.dt)
    for t in range(len(roll)):
        recorder.add(roll.frame(t))
    assert same(recorder.trajectory(), roll)


def test_a_recorder_keeps_copies(roll: Trajectory) -> None:
    recorder, frame = Recorder(roll.scene, roll.dt), roll.frame(0)
    recorder.add(frame)
    frame.position[:] = 7.0
    assert recorder.trajectory().position.max() < 7.0


def test_a_recorder_refuses_inconsistent_frames(roll: Trajectory) -> None:
    recorder, frame = Recorder(roll.scene, roll.dt), roll.frame(0)
    with pytest.raises(InputError, match="no frames were recorded"):
        recorder.trajectory()
    with pytest.raises(InputError, match=r"position must have shape \[2, 2, 3\], got \[2, 1, 3\]"):
        recorder.add(replace(frame, position=frame.position[:, 1:]))
    recorder.add(frame)
    with pytest.raises(InputError, match="2 worlds and the channels none; previous frames have 2 and reward"):
        recorder.add(replace(frame, channels={}))


def test_some_worlds_some_frames(roll: Trajectory) -> None:
    assert roll.worlds([1]).channels["reward"].tolist() == roll.channels["reward"][:, [1]].tolist()
    subsampled = roll.subsample(3)
    assert (len(subsampled), subsampled.dt) == (8, pytest.approx(3 / 60))
    assert len(roll.at(5)) == 1
    with pytest.raises(InputError, match=r"world must be from 0 to 1 in this trajectory, got \[2\]"):
        roll.worlds([2])


def test_a_ball_touches_below_its_centre(roll: Trajectory) -> None:
    assert np.allclose(roll.contact_points(0), [[[0.0, 0.0, 0.0]]] * 2, atol=1e-7)


@pytest.mark.parametrize(
    ("field", "index", "message"),
    [
        ("position", (7, 1, 1, 2), r"frame 7 \(0.117 s\), world 1, body 'ball', position is nan"),
        ("quaternion", (3, 0, 1, 0), "frame 3 .*world 0, body 'ball', quaternion"),
        ("force", (5, 1, 0, 1), "frame 5 .*world 1, body 'ball', force"),
    ],
)
def test_the_first_non_finite_number_is_named(
    roll: Trajectory, field: str, index: tuple[int, ...], message: str
) -> None:
    roll.check()
    getattr(roll, field)[index] = np.nan
    roll.channels["reward"][20, 0] = np.inf
    with pytest.raises(InputError, match=message):
        roll.check()


def test_channels_and_muscles_are_checked_too(roll: Trajectory, pull: Trajectory) -> None:
    roll.channels["reward"][20, 0] = np.inf
    with pytest.raises(InputError, match=r"frame 20 .*world 0, channel 'reward' is inf"):
        roll.check()
    pull.activation[1, 0, 0] = np.nan
    with pytest.raises(InputError, match=f"frame 1 .*muscle '{pull.scene.muscles[0].name}', activation is nan"):
        pull.check()


def test_files_that_are_not_trajectories_are_refused(roll: Trajectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        Trajectory.load(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "single.npy", np.zeros(3))
    roll.save(tmp_path / "cut.npz")
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text.npz", "other.npz", "single.npy", "cut.npz"):
        with pytest.raises(InputError, match="is not a trajectory, or is damaged"):
            Trajectory.load(tmp_path / name)


def test_a_file_of_another_version_is_refused(
    roll: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ahac.view.trajectory.VERSION", 99)
    roll.save(tmp_path / "a.npz")
    monkeypatch.undo()
    with pytest.raises(InputError, match="has version 99, this ahac reads version 1"):
        Trajectory.load(tmp_path / "a.npz")


def test_a_path_that_cannot_be_written_is_refused(roll: Trajectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        roll.save(tmp_path / "missing" / "a.npz")
    with pytest.raises(InputError, match="it is a folder"):
        roll.save(tmp_path)


def test_shapes_that_do_not_fit_are_refused(roll: Trajectory) -> None:
    with pytest.raises(InputError, match=r"force must have shape \[24, 2, 1, 3\]"):
        replace(roll, force=roll.force[:3])
    with pytest.raises(InputError, match="at least one frame"):
        roll.subsample(1)._part((slice(0, 0),))
    with pytest.raises(InputError, match="dt must be"):
        replace(roll, dt=0.0)


def test_a_frame_needs_no_channels(roll: Trajectory) -> None:
    frame = roll.frame(0)
    assert Frame(frame.position, frame.quaternion, frame.force, frame.activation).channels == {}
