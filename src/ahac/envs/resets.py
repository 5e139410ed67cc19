"""Episode resets: a pose from the model file plus uniform noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.envs.draws import Draw
from ahac.envs.root import is_floating
from ahac.sim import JointKind, Keyframe, Model, Quat, Real, Vec3, cos, norm, sin

__all__ = ["PAPER_RESET", "NoisyReset"]


@dataclass(frozen=True, kw_only=True)
class NoisyReset:
    """Reset to a pose with noise; a noise of x is uniform in [−x, x]."""

    keyframe: str | None = "start"
    """Keyframe of the model file that gives the pose; None uses the file's reference pose."""
    root_position: float = 0.0
    """Noise on the root's slide joints [m]."""
    root_rotation: float = 0.0
    """Largest rotation of a free root, about an axis of random direction [rad]."""
    joint_position: float = 0.0
    """Noise on hinges and on all other slides [rad] or [m]. On a ball joint the imaginary part of the quaternion gets
    this noise, which is a rotation of about twice as much around each axis."""
    velocity: float = 0.0
    """Noise on all velocities [m/s] and [rad/s]."""
    pose: Mapping[str, float] = field(default_factory=dict)
    """Joint positions that override the pose, by name of the hinge or slide; the wildcards * and ? are allowed
    [rad] or [m]."""
    height: float | None = None
    """Height of a free root that overrides the pose [m]."""

    def __post_init__(self) -> None:
        for name in ("root_position", "root_rotation", "joint_position", "velocity"):
            check_finite(f"NoisyReset.{name}", getattr(self, name), least=0.0)
        for name, coordinate in self.pose.items():
            check_finite(f"NoisyReset.pose[{name!r}]", coordinate)
        if self.height is not None:
            check_finite("NoisyReset.height", self.height)

    def __call__(self, model: Model, draw: Draw) -> tuple[list[Real], list[Real]]:
        """Draw initial positions and velocities for one world."""
        pose, rest_v = self._pose(model)
        q: list[Real] = list(pose)
        for link in model.links:
            root = link.parent < 0
            for joint in link.joints:
                i = joint.q
                if joint.kind is JointKind.BALL:
                    free = root and is_floating(link.joints)
                    rotation = self._root_rotation_noise(draw) if free else self._ball_joint_noise(draw)
                    q[i : i + 4] = Quat.of(q[i : i + 4]) * rotation
                else:
                    scale = self.root_position if root and joint.kind is JointKind.SLIDE else self.joint_position
                    q[i] = q[i] + _noise(draw, scale)
        return q, [v + _noise(draw, self.velocity) for v in rest_v]

    def activations(self, model: Model) -> Sequence[float]:
        """Return the activations with which an episode begins: those of the keyframe, else zero."""
        return (0.0,) * model.na if self.keyframe is None else model.keyframes[self.keyframe].act

    def stance(self, model: Model) -> list[float]:
        """Return the positions around which episodes begin."""
        return self._pose(model)[0]

    def _pose(self, model: Model) -> tuple[list[float], Sequence[float]]:
        if self.keyframe is not None and self.keyframe not in model.keyframes:
            names = ", ".join(model.keyframes) or "none"
            raise InputError(
                f"model {model.name!r} has no keyframe {self.keyframe!r}; it has: {names}. Use keyframe=None for the "
                "file's reference pose"
            )
        start = Keyframe(q=model.rest_q, v=(0.0,) * model.nv)
        if self.keyframe is not None:
            start = model.keyframes[self.keyframe]
        q = list(start.q)
        single = {joint.name: joint for joint in model.joints if len(joint.dofs) == 1}
        for pattern, coordinate in self.pose.items():
            matched = [joint for name, joint in single.items() if fnmatchcase(name, pattern)]
            if not matched:
                raise InputError(f"no hinge or slide matches {pattern!r}; the model has: {', '.join(single)}")
            for joint in matched:
                q[joint.q] = float(coordinate)
        if self.height is not None:
            if not is_floating(model.links[0].joints):
                raise InputError(f"height needs a free joint, which {model.name!r} lacks; set a slide in pose instead")
            q[2] = float(self.height)
        return q, start.v

    def _root_rotation_noise(self, draw: Draw) -> Quat:
        """Draw a rotation by up to ± `root_rotation` about an axis of random direction."""
        if not self.root_rotation:
            return Quat(1.0, Vec3(0.0, 0.0, 0.0))
        half = 0.5 * draw(-self.root_rotation, self.root_rotation)
        direction = Vec3(*(draw(-1.0, 1.0) for _ in range(3)))
        return Quat(cos(half), direction * (sin(half) / norm(direction)))

    def _ball_joint_noise(self, draw: Draw) -> Quat:
        """Draw a unit quaternion whose imaginary part has noise ± `joint_position` before normalization."""
        imaginary = Vec3(*(_noise(draw, self.joint_position) for _ in range(3)))
        return Quat(1.0, imaginary).normalized()


PAPER_RESET = NoisyReset(root_position=0.1, root_rotation=math.pi / 24, joint_position=0.2, velocity=0.25)
"""Reset of the paper's robots with a free joint, with the noise of the released code."""


def _noise(draw: Draw, scale: float) -> Real:
    return draw(-scale, scale) if scale else 0.0
