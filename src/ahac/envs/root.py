"""Split a robot's joints into those that move the torso and those of the limbs."""

from __future__ import annotations

from dataclasses import dataclass

from ahac.core.errors import InputError
from ahac.sim import Joint, JointKind, Model

__all__ = ["Root", "find_root", "is_floating"]


@dataclass(frozen=True)
class Root:
    """Joints between the world and a torso, and all other joints."""

    joints: tuple[Joint, ...]
    """Joints from the world to the torso."""
    non_root_joints: tuple[Joint, ...]
    """All other joints, in the order of their coordinates."""

    @property
    def ball(self) -> Joint | None:
        """Joint that rotates the robot freely; a robot without one moves in a plane or along a line."""
        return next((joint for joint in self.joints if joint.kind is JointKind.BALL), None)


def find_root(model: Model, torso: str) -> Root:
    """Find the joints that connect a torso to the world."""
    if torso not in model.bodies:
        raise InputError(f"{model.name!r} has no body named {torso!r}; it has: {', '.join(model.bodies)}")
    chain = []
    link = model.bodies[torso].link
    if link < 0:
        raise InputError(f"{torso!r} of {model.name!r} is fixed to the world and cannot move; name a body with joints")
    while link >= 0:
        chain.append(link)
        link = model.links[link].parent
    joints = tuple(joint for i in reversed(chain) for joint in model.links[i].joints)
    limbs = tuple(joint for i, link in enumerate(model.links) if i not in chain for joint in link.joints)
    return Root(joints, limbs)


def is_floating(joints: tuple[Joint, ...]) -> bool:
    """Return whether these joints form a free joint, which the model splits into three slides and a ball."""
    return [joint.kind for joint in joints] == [JointKind.SLIDE] * 3 + [JointKind.BALL]
