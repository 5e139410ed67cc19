"""A legged robot in its stance: height of the base, places of the feet, and the joints of its limbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ahac.core.errors import InputError
from ahac.envs.components.sensors import foot_points
from ahac.envs.observations import to_yaw_frame
from ahac.envs.resets import NoisyReset
from ahac.envs.root import Root, find_root, is_floating
from ahac.sim import JointKind, Model, Real, Vec3, World

__all__ = ["LegPair", "Limb", "Stance", "sideways_gap", "stand"]

LATERAL = 0.7
"""A joint turns about the lateral axis if its axis has at least this component along it."""
SOFT_LIMIT = 0.9
"""Fraction of a joint's range that costs nothing."""


@dataclass(frozen=True)
class Limb:
    """A joint that is not the root's."""

    q: int
    v: int
    stance: float
    """Position in the stance."""
    group: str
    """Reward term of its pose: leg_pose, leg_side_pose or other_pose."""
    range: tuple[float, float] | None
    """Middle 90 % of the joint's range; None without limits."""


@dataclass(frozen=True)
class LegPair:
    """A link of a left leg and its counterpart of the right one."""

    left: int
    right: int
    gap: float
    """Sideways distance of their origins in the stance [m]."""


@dataclass(frozen=True)
class Stance:
    """The robot as it stands in its stance."""

    height: float
    """Height of the base [m]."""
    reset: NoisyReset
    """Reset to the stance on the ground."""
    footholds: Sequence[tuple[float, float]]
    """Places of the feet relative to the base [m]."""
    limbs: Sequence[Limb]
    legs: Sequence[LegPair]
    """Links of the legs; feet are given as (left, right) in pairs."""


def stand(model: Model, reset: NoisyReset, base: str, feet: Sequence[str]) -> Stance:
    """Return where base and feet are when the robot stands on the ground in the pose of its reset."""
    root = find_root(model, base)
    if not is_floating(root.joints):
        raise InputError(f"base must be the body with the free joint of {model.name!r}, got {base!r}")
    q = reset.stance(model)
    world = World(model, q, [0.0] * model.nv, [0.0] * model.nu)
    center, origin = world.position(base), world.motion.origin[model.bodies[base].link]
    found = foot_points(world, feet)
    lowest = max(float(point.depth) for points in found for point in points)
    footholds = []
    for points in found:
        places = [to_yaw_frame(world, base, origin + point.position - center) for point in points]
        x, y = (sum(float(getattr(place, axis)) for place in places) / len(places) for axis in "xy")
        footholds.append((x, y))
    on_ground = replace(reset, height=q[root.joints[2].q] + lowest)
    limbs, legs = _limbs(world, root, feet), _leg_pairs(world, base, feet)
    return Stance(float(center.z) + lowest, on_ground, footholds, limbs, legs)


def sideways_gap(world: World, base: str, left: int, right: int) -> Real:
    """Return how far to the left of another link a link is, from origin to origin in the yaw frame [m]."""
    return to_yaw_frame(world, base, world.motion.position[left] - world.motion.position[right]).y


def _leg_pairs(world: World, base: str, feet: Sequence[str]) -> list[LegPair]:
    """Return the links between the base and the feet, without those that two legs share."""
    model = world.model
    legs = [model.chain(max(_foot_links(model, [pattern])))[::-1] for pattern in feet]
    pairs = []
    for left, right in zip(legs[::2], legs[1::2], strict=False):
        own = ([k for k in left if k not in right], [k for k in right if k not in left])
        pairs += [LegPair(a, b, float(sideways_gap(world, base, a, b))) for a, b in zip(*own, strict=False)]
    return pairs


def _foot_links(model: Model, feet: Sequence[str]) -> set[int]:
    return {c.link for c in model.contact_candidates for pattern in feet if fnmatchcase(c.geom, pattern)}


def _limbs(world: World, root: Root, feet: Sequence[str]) -> list[Limb]:
    """Return all hinges and slides but the root's."""
    model, joints = world.model, root.non_root_joints
    balls = [joint.name for joint in joints if joint.kind is JointKind.BALL]
    if balls:
        raise InputError(f"walk needs limbs of hinges and slides, but {model.name!r} has ball joints: {balls}")
    moving = {k for link in _foot_links(model, feet) for k in model.path(link)}
    limbs = []
    for i, link in enumerate(model.links):
        for joint in link.joints:
            if joint not in joints:
                continue
            lateral = abs(float((world.motion.rotation[i] @ Vec3.of(joint.axis)).y)) > LATERAL
            group = ("leg_pose" if lateral else "leg_side_pose") if joint.v in moving else "other_pose"
            limbs.append(Limb(joint.q, joint.v, float(world.q[joint.q]), group, _soft_range(joint.range)))
    return limbs


def _soft_range(range_: tuple[float, float] | None) -> tuple[float, float] | None:
    if range_ is None:
        return None
    low, high = range_
    margin = 0.5 * (1.0 - SOFT_LIMIT) * (high - low)
    return low + margin, high - margin
