"""Which of a robot's coordinates move it as a whole, and which are its limbs."""

from __future__ import annotations

from dataclasses import dataclass

from ahac.core.errors import InputError
from ahac.sim import Joint, JointKind, Model

__all__ = ["Root", "find_root", "is_floating"]


@dataclass(frozen=True)
class Root:
    """The joints between the world and a torso, and all others."""

    joints: tuple[Joint, ...]
    """From the world to the torso."""
    non_root_joints: tuple[Joint, ...]
    """The rest, in the order of their coordinates."""

    @property
    def ball(self) -> Joint | None:
        """The joint that turns the robot freely; a robot without one moves in a plane or along a line."""
        return next((joint for joint in self.joints if joint.kind is JointKind.BALL), None)


def find_root(model: Model, torso: str) -> Root:
    """How a torso hangs in the world."""
    if torso not in model.bodies:
        raise InputError(f"{model.name!r} has no body named {torso!r}; it has: {', '.join(model.bodies)}")
    carried = []
    link = model.bodies[torso].link
    if link < 0:
        raise InputError(f"{torso!r} of {model.name!r} is fixed to the world: it can neither run nor fall")
    while link >= 0:
        carried.append(link)
        link = model.links[link].parent
    joints = tuple(joint for i in reversed(carried) for joint in model.links[i].joints)
    limbs = tuple(joint for i, link in enumerate(model.links) if i not in carried for joint in link.joints)
    return Root(joints, limbs)


def is_floating(joints: tuple[Joint, ...]) -> bool:
    """Whether these are what a free joint has been split into: three slides and a ball."""
    return [joint.kind for joint in joints] == [JointKind.SLIDE] * 3 + [JointKind.BALL]
