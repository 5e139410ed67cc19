"""Trajectories: poses, contact forces, muscle activations and plotted channels over time, and their file format."""

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
    """One time step of N worlds with B bodies, P contact points and M muscles."""

    position: np.ndarray
    """[N, B, 3] body positions [m]."""
    quaternion: np.ndarray
    """[N, B, 4] body quaternions (w, x, y, z)."""
    force: np.ndarray
    """[N, P, 3] force on the robot at each contact point, in world axes [N]."""
    activation: np.ndarray
    """[N, M] muscle activations in [0, 1]."""
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Plotted values, [N] each: reward, stiffness, "torque JOINT", ..."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """T frames of N worlds, `dt` seconds apart; all arrays are float32, time first."""

    scene: Scene
    """What is moving."""
    dt: float
    """Time between frames [s]."""
    position: np.ndarray
    """[T, N, B, 3] body positions [m]."""
    quaternion: np.ndarray
    """[T, N, B, 4] body quaternions (w, x, y, z)."""
    force: np.ndarray
    """[T, N, P, 3] force on the robot at each contact point, in world axes [N]."""
    activation: np.ndarray
    """[T, N, M] muscle activations in [0, 1]."""
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Plotted values, [T, N] each."""

    def __post_init__(self) -> None:
        if check_finite("dt", self.dt, 0.0) == 0.0:
            raise InputError("dt must be more than 0 seconds, got 0")
        start = np.shape(self.position)[:2]
        if len(start) != 2 or 0 in start:
            raise InputError(f"a trajectory needs at least one frame of one world, got [T, N] = {list(start)}")
        for name, shape in _shapes(self.scene).items():
            object.__setattr__(self, name, _shaped(name, getattr(self, name), (*start, *shape)))
        channels = {name: _shaped(f"channel {name!r}", values, start) for name, values in self.channels.items()}
        object.__setattr__(self, "channels", channels)

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.position)

    @property
    def num_worlds(self) -> int:
        """Number of worlds."""
        return self.position.shape[1]

    def frame(self, t: int) -> Frame:
        """Return the frame at index `t`."""
        arrays = {name: getattr(self, name)[t] for name in ARRAYS}
        return Frame(**arrays, channels={name: values[t] for name, values in self.channels.items()})

    def worlds(self, indices: Sequence[int]) -> Trajectory:
        """Return the worlds with these indices, in this order."""
        selection = list(indices)
        if not selection or not all(0 <= i < self.num_worlds for i in selection):
            raise InputError(f"world must be from 0 to {self.num_worlds - 1} in this trajectory, got {selection}")
        return self._part((slice(None), selection))

    def at(self, t: int) -> Trajectory:
        """Return a trajectory of the single frame `t`."""
        return self._part(([t],))

    def subsample(self, stride: int) -> Trajectory:
        """Return every `stride`-th frame, starting with the first."""
        return replace(self._part((slice(None, None, stride),)), dt=self.dt * stride)

    def contact_points(self, t: int) -> np.ndarray:
        """Return the positions of the contact points in frame `t`, [N, P, 3] in world axes [m]."""
        return contact_points(self.scene, self.position[t], self.quaternion[t])

    def check(self) -> None:
        """Raise an InputError that names frame, world and body of the first non-finite number, if there is one."""
        scene = self.scene
        owners = {
            "position": [f"body {name!r}" for name in scene.bodies],
            "quaternion": [f"body {name!r}" for name in scene.bodies],
            "force": [f"body {scene.bodies[point[0]]!r}" for point in scene.contact_points],
            "activation": [f"muscle {muscle.name!r}" for muscle in scene.muscles],
        }
        fields = [(name, getattr(self, name), owners[name]) for name in ARRAYS]
        fields += [(f"channel {name!r}", values, None) for name, values in self.channels.items()]
        errors = [
            _first_nonfinite(name, values, owner) for name, values, owner in fields if not np.isfinite(values).all()
        ]
        if errors:
            t, description = min(errors)
            raise InputError(
                f"the trajectory has a non-finite number: frame {t} ({t * self.dt:.3g} s), {description}; render only "
                "the frames before it, or find out why the simulation failed there"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trajectory to an .npz file, atomically."""
        header = {"format": FORMAT, "version": VERSION, "dt": self.dt, "channels": list(self.channels)}
        text = json.dumps({**header, "scene": self.scene.to_dict()})
        curves = np.stack([*self.channels.values()]) if self.channels else np.empty((0, 0, 0), np.float32)
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(file, header=np.frombuffer(text.encode(), dtype=np.uint8), channels=curves, **arrays)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trajectory:
        """Load a trajectory written by `save`."""
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            header = json.loads(content["header"].tobytes())
            if header["format"] != FORMAT:
                raise KeyError(header["format"])
        except FileNotFoundError as error:
            raise InputError(f"no file {str(path)!r}; expected a trajectory written by Trajectory.save") from error
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
            raise InputError(f"{str(path)!r} is not a trajectory, or is damaged ({error}); record it again") from error
        if header["version"] != VERSION:
            raise InputError(
                f"{str(path)!r} has version {header['version']}, this ahac reads version {VERSION}; record it again"
            )
        return _restored(header, content)

    def _part(self, index: tuple[Any, ...]) -> Trajectory:
        arrays = {name: getattr(self, name)[index] for name in ARRAYS}
        return replace(self, **arrays, channels={name: values[index] for name, values in self.channels.items()})


class Recorder:
    """Collects frames, one every `dt` seconds, into a trajectory."""

    def __init__(self, scene: Scene, dt: float) -> None:
        self.scene = scene
        self.dt = dt
        self._frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Append a copy of a frame; all frames must have the same number of worlds and the same channels."""
        worlds = len(frame.position)
        arrays = {
            name: _shaped(f"a frame's {name}", getattr(frame, name), (worlds, *shape)).copy()
            for name, shape in _shapes(self.scene).items()
        }
        channels = {name: _shaped(f"channel {name!r}", v, (worlds,)).copy() for name, v in frame.channels.items()}
        if self._frames:
            first = self._frames[0]
            if len(first.position) != worlds or first.channels.keys() != channels.keys():
                raise InputError(
                    f"a frame has {worlds} worlds and the channels {', '.join(channels) or 'none'}; previous frames "
                    f"have {len(first.position)} and {', '.join(first.channels) or 'none'}"
                )
        self._frames.append(Frame(**arrays, channels=channels))

    def trajectory(self) -> Trajectory:
        """Return all frames so far as a trajectory."""
        if not self._frames:
            raise InputError("no frames were recorded; add a frame first")
        arrays = {name: np.stack([getattr(frame, name) for frame in self._frames]) for name in ARRAYS}
        names = self._frames[0].channels
        channels = {name: np.stack([frame.channels[name] for frame in self._frames]) for name in names}
        return Trajectory(self.scene, self.dt, **arrays, channels=channels)


def contact_points(scene: Scene, position: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """Return the positions of the contact points [..., P, 3] from body poses [..., B, 3] and [..., B, 4]."""
    body = [point[0] for point in scene.contact_points]
    center, normal = (
        np.array([point[k] for point in scene.contact_points], dtype=np.float32).reshape(-1, 3) for k in (1, 3)
    )
    radius = np.array([point[2] for point in scene.contact_points], dtype=np.float32)
    return position[..., body, :] + rotate(quaternion[..., body, :], center) - normal * radius[:, None]


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
        raise InputError(f"{name} must have shape {list(shape)}, got {list(array.shape)}")
    return array


def _first_nonfinite(name: str, values: np.ndarray, owners: list[str] | None) -> tuple[int, str]:
    """Return the frame of the first non-finite number, and a description of it."""
    t, world, *rest = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    of = "" if owners is None else f"{owners[rest[0]]}, "
    return t, f"world {world}, {of}{name} is {values[t, world, *rest]}"


def _restored(header: Mapping[str, Any], content: Mapping[str, np.ndarray]) -> Trajectory:
    try:
        channels = dict(zip(header["channels"], content["channels"], strict=True))
        arrays = {name: content[name] for name in ARRAYS}
        return Trajectory(Scene.from_dict(header["scene"]), header["dt"], **arrays, channels=channels)
    except (KeyError, ValueError) as error:
        raise InputError(f"the parts of this trajectory are inconsistent ({error}); record it again") from error
