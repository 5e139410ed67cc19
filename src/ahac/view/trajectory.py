"""What is drawn over time: poses, contact forces, muscles and curves of some worlds, and the file that holds them."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.view.quaternions import rotate
from ahac.view.scene import Scene

__all__ = ["Frame", "Recorder", "Trajectory"]

FORMAT, VERSION = "ahac trajectory", 1
ARRAYS = ("position", "quaternion", "force", "activation")


@dataclass(frozen=True, eq=False)
class Frame:
    """One moment of N worlds; B bodies, P points that may touch, M muscles."""

    position: np.ndarray
    """[N, B, 3] of every body [m]."""
    quaternion: np.ndarray
    """[N, B, 4] of every body, (w, x, y, z)."""
    force: np.ndarray
    """[N, P, 3] on the robot at every point that may touch, world axes [N]."""
    activation: np.ndarray
    """[N, M] of every muscle, in [0, 1]."""
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    """[N] each: reward, stiffness, "torque JOINT", ..."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """T moments of N worlds, `dt` seconds apart; all arrays are float32, time first."""

    scene: Scene
    dt: float
    position: np.ndarray
    """[T, N, B, 3] of every body [m]."""
    quaternion: np.ndarray
    """[T, N, B, 4] of every body, (w, x, y, z)."""
    force: np.ndarray
    """[T, N, P, 3] on the robot at every point that may touch, world axes [N]."""
    activation: np.ndarray
    """[T, N, M] of every muscle, in [0, 1]."""
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    """[T, N] each."""

    def __post_init__(self) -> None:
        if check_finite("dt", self.dt, 0.0) == 0.0:
            raise InputError("dt must be more than zero seconds, got 0")
        start = np.shape(self.position)[:2]
        if len(start) != 2 or 0 in start:
            raise InputError(f"a trajectory needs at least one frame of one world, got {list(start)} of [T, N]")
        for name, shape in _shapes(self.scene).items():
            object.__setattr__(self, name, _shaped(name, getattr(self, name), (*start, *shape)))
        channels = {name: _shaped(f"channel {name!r}", values, start) for name, values in self.channels.items()}
        object.__setattr__(self, "channels", channels)

    def __len__(self) -> int:
        """How many frames there are."""
        return len(self.position)

    @property
    def num_worlds(self) -> int:
        """How many worlds there are."""
        return self.position.shape[1]

    def frame(self, t: int) -> Frame:
        """One moment."""
        arrays = {name: getattr(self, name)[t] for name in ARRAYS}
        return Frame(**arrays, channels={name: values[t] for name, values in self.channels.items()})

    def worlds(self, indices: Sequence[int]) -> Trajectory:
        """Some of the worlds, in the order asked for."""
        chosen = list(indices)
        if not chosen or not all(0 <= i < self.num_worlds for i in chosen):
            raise InputError(f"worlds are numbered 0 to {self.num_worlds - 1} here, got {chosen}")
        return self._part((slice(None), chosen))

    def at(self, t: int) -> Trajectory:
        """One frame alone."""
        return self._part(([t],))

    def subsample(self, stride: int) -> Trajectory:
        """Every so many-th frame, beginning with the first."""
        return replace(self._part((slice(None, None, stride),)), dt=self.dt * stride)

    def contact_points(self, t: int) -> np.ndarray:
        """[N, P, 3] where the points that may touch are at a frame, world axes [m]."""
        return contact_points(self.scene, self.position[t], self.quaternion[t])

    def check(self) -> None:
        """Refuse a trajectory in which a number is not finite, by frame, world and body."""
        scene = self.scene
        owners = {
            "position": [f"body {name!r}" for name in scene.bodies],
            "quaternion": [f"body {name!r}" for name in scene.bodies],
            "force": [f"body {scene.bodies[touch[0]]!r}" for touch in scene.contact_points],
            "activation": [f"muscle {muscle.name!r}" for muscle in scene.muscles],
        }
        fields = [(name, getattr(self, name), owners[name]) for name in ARRAYS]
        fields += [(f"channel {name!r}", values, None) for name, values in self.channels.items()]
        found = [
            _first_nonfinite(name, values, owner) for name, values, owner in fields if not np.isfinite(values).all()
        ]
        if found:
            t, what = min(found)
            raise InputError(
                f"the trajectory has a number that is not finite: frame {t} ({t * self.dt:.3g} s), {what}; draw the "
                "frames before it, or find out why the simulation failed there"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one .npz file, all of it or nothing."""
        header = {"format": FORMAT, "version": VERSION, "dt": self.dt, "channels": list(self.channels)}
        text = json.dumps({**header, "scene": self.scene.to_dict()})
        curves = np.stack([*self.channels.values()]) if self.channels else np.empty((0, 0, 0), np.float32)
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(file, header=np.frombuffer(text.encode(), dtype=np.uint8), channels=curves, **arrays)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trajectory:
        """Read what `save` wrote."""
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            header = json.loads(content["header"].tobytes())
            if header["format"] != FORMAT:
                raise KeyError(header["format"])
        except FileNotFoundError as error:
            raise InputError(f"no file {str(path)!r}; wanted a trajectory that Trajectory.save wrote") from error
        except (
            OSError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
            ValueError,
            KeyError,
            AttributeError,
            TypeError,
        ) as error:
            raise InputError(f"{str(path)!r} is no trajectory, or a damaged one ({error}); record it again") from error
        if header["version"] != VERSION:
            raise InputError(
                f"{str(path)!r} is of version {header['version']}, this ahac reads {VERSION}; record it again"
            )
        return _restored(header, content)

    def _part(self, index: tuple[Any, ...]) -> Trajectory:
        arrays = {name: getattr(self, name)[index] for name in ARRAYS}
        return replace(self, **arrays, channels={name: values[index] for name, values in self.channels.items()})


class Recorder:
    """Gathers frames, one every `dt` seconds, into a trajectory."""

    def __init__(self, scene: Scene, dt: float) -> None:
        self.scene = scene
        self.dt = dt
        self._frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Keep a copy of one more moment, of as many worlds and with the same channels as those before."""
        worlds = len(frame.position)
        arrays = {
            name: _shaped(f"a frame's {name}", getattr(frame, name), (worlds, *shape)).copy()
            for name, shape in _shapes(self.scene).items()
        }
        channels = {name: _shaped(f"channel {name!r}", v, (worlds,)).copy() for name, v in frame.channels.items()}
        if self._frames:
            known = self._frames[0]
            if len(known.position) != worlds or known.channels.keys() != channels.keys():
                raise InputError(
                    f"a frame has {worlds} worlds and the channels {', '.join(channels) or 'none'}; those before have "
                    f"{len(known.position)} and {', '.join(known.channels) or 'none'}"
                )
        self._frames.append(Frame(**arrays, channels=channels))

    def trajectory(self) -> Trajectory:
        """All frames so far."""
        if not self._frames:
            raise InputError("nothing was recorded: add a frame first")
        arrays = {name: np.stack([getattr(frame, name) for frame in self._frames]) for name in ARRAYS}
        names = self._frames[0].channels
        channels = {name: np.stack([frame.channels[name] for frame in self._frames]) for name in names}
        return Trajectory(self.scene, self.dt, **arrays, channels=channels)


def contact_points(scene: Scene, position: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """[..., P, 3] where the points that may touch are, of poses [..., B, 3] and [..., B, 4]."""
    body = [touch[0] for touch in scene.contact_points]
    centre, normal = (
        np.array([touch[k] for touch in scene.contact_points], dtype=np.float32).reshape(-1, 3) for k in (1, 3)
    )
    radius = np.array([touch[2] for touch in scene.contact_points], dtype=np.float32)
    return position[..., body, :] + rotate(quaternion[..., body, :], centre) - normal * radius[:, None]


def _shapes(scene: Scene) -> dict[str, tuple[int, ...]]:
    bodies = len(scene.bodies)
    return {
        "position": (bodies, 3),
        "quaternion": (bodies, 4),
        "force": (len(scene.contact_points), 3),
        "activation": (len(scene.muscles),),
    }


def _shaped(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float32)
    if array.shape != shape:
        raise InputError(f"{name} must have the shape {list(shape)}, got {list(array.shape)}")
    return array


def _first_nonfinite(name: str, values: np.ndarray, owners: list[str] | None) -> tuple[int, str]:
    """The frame of the first number that is not finite, and what it is."""
    t, world, *rest = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    of = "" if owners is None else f"{owners[rest[0]]}, "
    return t, f"world {world}, {of}{name} is {values[t, world, *rest]}"


def _restored(header: Mapping[str, Any], content: Mapping[str, np.ndarray]) -> Trajectory:
    try:
        channels = dict(zip(header["channels"], content["channels"], strict=True))
        arrays = {name: content[name] for name in ARRAYS}
        return Trajectory(Scene.from_dict(header["scene"]), header["dt"], **arrays, channels=channels)
    except (KeyError, ValueError) as error:
        raise InputError(f"this trajectory's parts do not fit together ({error}); record it again") from error
