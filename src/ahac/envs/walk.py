"""Walking for any legged robot: follow velocity commands with a clean gait, despite noise, delays and pushes.

task = walk(load_model("robot.xml"), base="trunk", feet=("FL_foot", "FR_foot", "RL_foot", "RR_foot"), stance="home")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ahac.core.errors import InputError
from ahac.envs import observations, rewards
from ahac.envs.actions import JointTargets
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.components.delays import ObservationDelay
from ahac.envs.components.footsteps import Footsteps
from ahac.envs.components.gait import GaitClock
from ahac.envs.components.history import ActionHistory
from ahac.envs.components.noise import noisy
from ahac.envs.components.pushes import RandomPushes
from ahac.envs.components.timing import Range
from ahac.envs.memory import Action
from ahac.envs.randomization import uniform
from ahac.envs.resets import NoisyReset
from ahac.envs.root import find_root
from ahac.envs.task import ObsTerm, RewardTerm, Task
from ahac.sim import JointKind, Model, Real, World, minimum

__all__ = ["WalkWeights", "walk"]

GAITS = {2: (0.0, 0.5), 4: (0.0, 0.5, 0.5, 0.0)}
"""Phases of the feet by their number: alternating steps, and a trot with the feet in the order FL, FR, RL, RR."""
FREQUENCY = {2: 1.5, 4: 2.0}
"""Default gait cycles per second by the number of feet."""
TILT = 0.5
"""An episode ends when the base's up axis is more than 60° from vertical: its vertical component is below this."""
LOW = 0.6
"""An episode ends when the base is lower than this fraction of its height in the stance."""
JOINT_VEL_SCALE = 0.1
"""Scale of observed joint velocities: their unit is 10 rad/s."""


@dataclass(frozen=True, kw_only=True)
class WalkWeights:
    """Weights of the reward terms of `walk`."""

    alive: float = 1.0
    """For every step, so that falling never pays."""
    track_lin_vel_xy: float = 2.0
    track_ang_vel_z: float = 1.0
    lin_vel_xy_l2: float = -0.5
    ang_vel_z_l2: float = -0.1
    swing_height: float = -60.0
    slip: float = -0.3
    foothold: float = -4.0
    base_height: float = -30.0
    upright: float = -2.0
    lin_vel_z_l2: float = -0.5
    ang_vel_xy_l2: float = -0.05
    action_rate: float = -0.02
    joint_vel: float = -2e-4
    leg_pose: float = -0.1
    other_pose: float = -2.0
    """Of joints that move no foot: waist, arms, head."""


@dataclass(frozen=True, kw_only=True)
class SensorNoise:
    """Uniform noise of the measurements."""

    ang_vel: float = 0.2
    """Gyroscope [rad/s]."""
    gravity: float = 0.05
    """Direction of gravity."""
    joint_pos: float = 0.01
    """Encoders [rad]."""
    joint_vel: float = 0.5
    """Joint velocities [rad/s]."""


def walk(  # noqa: PLR0913 - keyword-only settings of a public entry point
    model: Model,
    *,
    base: str,
    feet: Sequence[str],
    stance: str | Mapping[str, float] = "home",
    name: str = "",
    lin_vel_x: Range = (-0.5, 1.0),
    lin_vel_y: Range = (-0.4, 0.4),
    ang_vel_z: Range = (-0.8, 0.8),
    frequency: float | None = None,
    offsets: Sequence[float] | None = None,
    swing_height: float = 0.08,
    actions: JointTargets | None = None,
    friction: Range = (0.4, 1.2),
    payload: Range = (0.0, 3.0),
    motor_strength: Range = (0.9, 1.1),
    push: float = 0.5,
    delay: int | tuple[int, int] = 1,
    noise: SensorNoise = SensorNoise(),
    weights: WalkWeights = WalkWeights(),
    episode_seconds: float = 20.0,
) -> Task:
    """Return a task in which a robot follows velocity commands that change every five seconds.

    The policy runs at 50 Hz and sees gyroscope, direction of gravity, joints, its last action, the command and a gait
    clock; measurements are noisy and late. The critic sees everything. Actions are joint position targets around the
    stance.

    Args:
        model: The robot, on a ground, with a position servo on each joint unless `actions` has gains.
        base: Body whose velocity is commanded.
        feet: Geoms of each foot, one name per foot, where * and ? are wildcards; of four feet, front left, front right,
            rear left, rear right.
        stance: Keyframe of the model, or joint positions by name, in which the robot stands.
        name: Name of the task; that of the model by default.
        lin_vel_x: Commanded forward velocity [m/s]: a number or a range.
        lin_vel_y: Commanded velocity to the left [m/s].
        ang_vel_z: Commanded yaw rate [rad/s].
        frequency: Gait cycles per second [Hz].
        offsets: Phase of each foot in cycles; alternating for two feet, a trot for four.
        swing_height: Height of a foot in the middle of its swing [m].
        actions: Joint targets; by default ± 0.5 rad around the stance, with the model's servos.
        friction: Friction of the feet, drawn for each episode.
        payload: Mass added to the base [kg], drawn for each episode.
        motor_strength: Factor on the torques of each motor, drawn for each episode.
        push: Largest change of velocity by a push, every five seconds [m/s].
        delay: Control steps by which measurements are late, or the bounds of a delay drawn for each episode.
        noise: Sensor noise.
        weights: Weights of the reward terms.
        episode_seconds: Time limit of an episode [s].
    """
    if len(feet) not in GAITS and offsets is None:
        raise InputError(f"walk knows gaits of 2 and 4 feet, got {len(feet)}: set offsets, a phase for each foot")
    keyframe, pose = (stance, {}) if isinstance(stance, str) else (None, stance)
    standing = NoisyReset(keyframe=keyframe, pose=pose)
    q = standing.stance(model)
    height, footholds = _stand(model, q, base, feet)
    reset = NoisyReset(
        keyframe=keyframe, pose=pose, height=height, joint_position=0.1, root_rotation=0.1, velocity=0.2
    )
    command = VelocityCommand(
        lin_vel_x=lin_vel_x, lin_vel_y=lin_vel_y, ang_vel_z=ang_vel_z, resample_every=5.0, standing=0.05
    )
    clock = GaitClock(
        frequency=FREQUENCY.get(len(feet), 2.0) if frequency is None else frequency,
        offsets=GAITS[len(feet)] if offsets is None else offsets,
    )
    steps = Footsteps(feet, clock, command, base, footholds, swing_height)
    space = JointTargets(scale=0.5) if actions is None else actions
    limbs = [joint for joint in find_root(model, base).non_root_joints if joint.kind is not JointKind.BALL]
    count = len(space._select(model))
    history = ActionHistory(count, steps=2)
    pushes = RandomPushes(base, velocity=push, every=5.0)
    rest = [q[joint.q] for joint in limbs]

    def joint_pos(world: World, action: Action) -> list[Real]:
        return [world.q[joint.q] - middle for joint, middle in zip(limbs, rest, strict=True)]

    joint_vel = observations.limb_joint_vel(base, JOINT_VEL_SCALE)
    measured: dict[str, tuple[ObsTerm, float, int]] = {
        "angular velocity": (observations.base_ang_vel(base), noise.ang_vel, 3),
        "gravity": (observations.projected_gravity(base), noise.gravity, 3),
        "joint positions": (joint_pos, noise.joint_pos, len(limbs)),
        "joint velocities": (joint_vel, noise.joint_vel * JOINT_VEL_SCALE, len(limbs)),
    }
    late = {
        label: ObservationDelay(noisy(term, uniform=size), count, delay, f"late {label}")
        for label, (term, size, count) in measured.items()
    }
    known = {
        "last action": observations.last_action(),
        "command": command.observation,
        "clock": clock.observation,
    }
    privileged: dict[str, ObsTerm] = {
        **{label: term for label, (term, _, _) in measured.items()},
        **known,
        "velocity": observations.base_lin_vel(base),
        "height": observations.height(base),
        "foot heights": steps.heights,
        "push": pushes.observation,
        "parameters": observations.parameters("*"),
    }
    legs = _leg_dofs(model, feet)
    w = weights
    terms: dict[str, tuple[float, RewardTerm]] = {
        "alive": (w.alive, lambda world, action: 1.0),
        "track_lin_vel_xy": (w.track_lin_vel_xy, command.track_lin_vel_xy(base, std=0.35)),
        "track_ang_vel_z": (w.track_ang_vel_z, command.track_ang_vel_z(base, std=0.5)),
        "lin_vel_xy_l2": (w.lin_vel_xy_l2, command.lin_vel_xy_l2(base)),
        "ang_vel_z_l2": (w.ang_vel_z_l2, command.ang_vel_z_l2(base)),
        "swing_height": (w.swing_height, steps.swing_height_l2),
        "slip": (w.slip, steps.slip_l2),
        "foothold": (w.foothold, steps.foothold_l2),
        "base_height": (w.base_height, lambda world, action: (world.position(base).z - height) ** 2),
        "upright": (w.upright, rewards.flat_orientation_l2(base)),
        "lin_vel_z_l2": (w.lin_vel_z_l2, rewards.lin_vel_z_l2(base)),
        "ang_vel_xy_l2": (w.ang_vel_xy_l2, rewards.ang_vel_xy_l2(base)),
        "action_rate": (w.action_rate, history.action_rate_l2),
        "joint_vel": (w.joint_vel, lambda world, action: sum((world.v[joint.v] ** 2 for joint in limbs), 0.0)),
        "leg_pose": (w.leg_pose, _pose_l2([(j.q, r) for j, r in zip(limbs, rest, strict=True) if j.v in legs])),
        "other_pose": (w.other_pose, _pose_l2([(j.q, r) for j, r in zip(limbs, rest, strict=True) if j.v not in legs])),
    }
    delays = [entry for part in late.values() for entry in part.memory.items()]
    return Task(
        name=name or model.name,
        model=model,
        actions=space,
        reset=reset,
        memory={**command.memory, **clock.memory, **history.memory, **pushes.memory, **dict(delays)},
        observation={
            "policy": {**{label: part.observation for label, part in late.items()}, **known},
            "critic": privileged,
        },
        reward={label: rewards.weighted(weight, term) for label, (weight, term) in terms.items() if weight},
        forces=[pushes.force],
        randomize={
            "geom_friction:*": uniform(*friction, shared=True),
            f"body_mass:{base}": uniform(*payload, "add"),
            "actuator_strength:*": uniform(*motor_strength),
        },
        alive=lambda world: minimum(
            world.position(base).z - LOW * height, world.rotation(base).column(2).z - TILT
        ),
        dt=0.02,
        episode_steps=round(episode_seconds / 0.02),
    )


def _stand(
    model: Model, q: Sequence[float], base: str, feet: Sequence[str]
) -> tuple[float, list[tuple[float, float]]]:
    """Return the height of the base and the positions of the feet relative to it when the robot stands in a pose."""
    world = World(model, q, [0.0] * model.nv, [0.0] * model.nu)
    center = world.position(base)
    found = [[p for p in world.contact_points if fnmatchcase(p.candidate.geom, pattern)] for pattern in feet]
    lowest = max((float(p.depth) for points in found for p in points), default=0.0)
    origin = world.motion.origin[model.bodies[base].link]
    footholds = []
    for pattern, points in zip(feet, found, strict=True):
        if not points:
            geoms = ", ".join(dict.fromkeys(p.candidate.geom for p in world.contact_points)) or "none"
            raise InputError(f"no contact point is on a foot geom named {pattern!r}; geoms with contact points: {geoms}")
        offsets = [origin + p.position - center for p in points]
        footholds.append((sum(float(o.x) for o in offsets) / len(points), sum(float(o.y) for o in offsets) / len(points)))
    return float(center.z) + lowest, footholds


def _leg_dofs(model: Model, feet: Sequence[str]) -> set[int]:
    """Return the velocity coordinates that move a foot."""
    links = {c.link for c in model.contact_candidates for pattern in feet if fnmatchcase(c.geom, pattern)}
    return {k for link in links for k in model.path(link)}


def _pose_l2(joints: Sequence[tuple[int, float]]) -> RewardTerm:
    return lambda world, action: sum(((world.q[i] - middle) ** 2 for i, middle in joints), 0.0)
