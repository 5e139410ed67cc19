"""Recordings: recorded motions that play inside a Jupyter notebook, and pictures of them.

recording = ahac.record(run, seconds=5)    # the last expression of a cell: the player appears below it
recording.pictures("gait.png")             # pictures side by side, for a page that runs no scripts
recording.save("gait.html")                # also .mp4, .gif, .npz
"""

from __future__ import annotations

import html
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.envs import Task, make
from ahac.sim import Model, Simulator
from ahac.training.run import Run, open_run
from ahac.training.viewing import DUMMY_POLICIES, EnvSource, RobotSource, dummy_policy, record_trajectory
from ahac.view.html_player import render_html
from ahac.view.recording import save_recording
from ahac.view.sources import ViewSource
from ahac.view.still import take_still
from ahac.view.trajectory import Trajectory

__all__ = ["Recording", "record"]

HEIGHT = 420
"""Height of the player in a notebook [pixels]."""
AZIMUTH, ELEVATION = 1.35, 0.12
"""Direction of view of pictures [rad]: x to the right, from slightly ahead and above."""
ROBOT_DT, ROBOT_SUBSTEPS = 1.0 / 60.0, 4
"""Steps of a robot without a task, as in `ahac play robot.xml`."""


class Recording:
    """A recorded motion. In a Jupyter notebook it displays itself as a player."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory

    def __repr__(self) -> str:
        t = self.trajectory
        worlds = "1 world" if t.num_worlds == 1 else f"{t.num_worlds} worlds"
        return f"<Recording of {t.scene.name}: {(len(t) - 1) * t.dt:.2f} s, {worlds}>"

    def _repr_html_(self) -> str:
        """Return the player as a frame that can neither reach the notebook nor the network."""
        page = html.escape(render_html(self.trajectory))
        style = f"width: 100%; height: {HEIGHT}px; border: 0"
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="{style}"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording to a file, .html, .mp4, .gif or .npz, and return its path."""
        save_recording(self.trajectory, Path(path))
        return Path(path)

    def pictures(
        self, path: str | os.PathLike[str], count: int = 6, start: float = 0.0, seconds: float | None = None
    ) -> Path:
        """Draw pictures of the first world side by side, and return the path of the image; needs the extra `plot`.

        The pictures follow the robot and leave out what does not move.

        Args:
            path: Image to write, .png or .svg.
            count: Number of pictures.
            start: Time of the first picture [s].
            seconds: Time from the first to the last picture [s]; up to the end by default.
        """
        from ahac.plots.strip import plot_strip

        t, end = self.trajectory, (len(self.trajectory) - 1) * self.trajectory.dt
        last = end if seconds is None else start + seconds
        if not 0.0 <= start <= last <= end + 0.5 * t.dt:
            raise InputError(f"pictures from {start} to {last:.2f} s exceed the recording, which lasts {end:.2f} s")
        frames = np.round(np.linspace(start, last, check_int("count", count, 1)) / t.dt).astype(int)
        upward = [plane.offset for plane in t.scene.planes if plane.normal[2] > 0.99]
        ground = float(np.cos(ELEVATION)) * max(upward) if upward else None
        plot_strip(Path(path), {f"{k * t.dt:.2f} s": self._picture(k) for k in frames.tolist()}, ground)
        return Path(path)

    def _picture(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Return triangles and colors of what moves in a frame, with the root above the origin."""
        t = self.trajectory
        scene = replace(t.scene, visuals=tuple(geom for geom in t.scene.visuals if geom.body != t.scene.bodies[0]))
        position = t.position[frame, 0].copy()
        position[:, :2] -= t.position[frame, 0, t.scene.root, :2]
        if not scene.visuals:
            raise InputError(f"{scene.name} has nothing to draw: no geom on a body that moves; add one")
        still = take_still(scene, position, t.quaternion[frame, 0], AZIMUTH, ELEVATION)
        return still.triangles, still.colors


def record(
    what: Run | Task | Model | str | os.PathLike[str],
    seconds: float = 10.0,
    *,
    agent: str | None = None,
    worlds: int = 1,
    seed: int = 0,
) -> Recording:
    """Record a policy, task or robot, and return a recording, which plays in a Jupyter notebook.

    Args:
        what: A run or its folder; a task, its name or FILE.py:NAME; or a robot, a `Model`.
        seconds: Length of the recording [s].
        agent: Source of the actions: "policy" (default for a run), "zero" (default otherwise) or "random".
        worlds: Number of worlds, side by side.
        seed: Random seed of resets and random actions.
    """
    if agent not in (None, "policy", *DUMMY_POLICIES):
        raise InputError(f"agent must be 'policy', {' or '.join(map(repr, DUMMY_POLICIES))}, got {agent!r}")
    return Recording(record_trajectory(_source(what, agent, check_int("worlds", worlds, 1), seed), seconds))


def _source(what: Run | Task | Model | str | os.PathLike[str], agent: str | None, worlds: int, seed: int) -> ViewSource:
    if isinstance(what, str | os.PathLike) and Path(what).is_dir():
        what = open_run(what)
    if isinstance(what, Run):
        env = make(what.task, num_envs=worlds, device=what.device, seed=seed)
        policy = what.policy if agent in (None, "policy") else dummy_policy(agent, env.spec.action_size, seed)
        return EnvSource(env, policy)
    if agent == "policy":
        raise InputError(f"{what!s:.60} is not a run and has no policy; use agent='zero' or agent='random'")
    if isinstance(what, Model):
        sim = Simulator(what, num_worlds=worlds, dt=ROBOT_DT, substeps=ROBOT_SUBSTEPS)
        return RobotSource(sim, dummy_policy(agent or "zero", what.nu, seed))
    env = make(what if isinstance(what, Task) else str(what), num_envs=worlds, device="cpu", seed=seed)
    return EnvSource(env, dummy_policy(agent or "zero", env.spec.action_size, seed))
