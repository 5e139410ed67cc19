"""Walking for any legged robot: follow velocity commands with a clean gait, despite noise, delays and pushes.

task = walk(load_model("robot.xml"), base="trunk", feet=("FL_foot", "FR_foot", "RL_foot", "RR_foot"), stance="home")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.envs import observations, rewards
from ahac.envs.actions import JointTargets
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.components.delays import ObservationDelay, Steps
from ahac.envs.components.footsteps import Footsteps
from ahac.envs.components.gait import GaitClock
from ahac.envs.components.history import ActionHistory
from ahac.envs.components.noise import noisy
from ahac.envs.components.pushes import RandomPushes
from ahac.envs.components.timing import Range
from ahac.envs.memory import Action
from ahac.envs.randomization import Distribution, uniform
from ahac.envs.resets import NoisyReset
from ahac.envs.stance import Limb, Stance, sideways_gap, stand
from ahac.envs.task import ObsTerm, RewardTerm, Task
from ahac.sim import Model, Real, World, maximum, minimum

__all__ = ["Disturbances", "WalkRewards", "walk"]

RATE = 50
"""Control steps per second."""
GAITS = {2: (0.0, 0.5), 4: (0.0, 0.5, 0.5, 0.0)}
"""Phases of the feet by their number: alternating steps, and a trot of the feet FL, FR, RL, RR."""
FREQUENCIES = {2: 1.5, 4: 2.0}
"""Default gait cycles per second by the number of feet."""
MAX_TILT = 0.5
"""An episode ends when the vertical component of the base's up axis is below this: 60° from vertical."""
MIN_HEIGHT = 0.6
"""An episode ends when the base is lower than this fraction of its height in the stance."""
JOINT_VEL_SCALE = 0.1
"""Scale of observed joint velocities: their unit is 10 rad/s."""


@dataclass(frozen=True, kw_only=True)
class Disturbances:
    """What differs between the simulated robot and a real one; zeros turn parts off."""

    friction: Range = (0.4, 1.2)
    """Friction of all contacts, drawn for each episode."""
    payload: Range = (0.0, 3.0)
    """Mass added to the base [kg], drawn for each episode."""
    motor_strength: Range = (0.9, 1.1)
    """Factor on the torque of each motor, drawn for each episode."""
    push: float = 0.5
    """Largest change of velocity by a push, along x and along y, every five seconds [m/s]."""
    delay: Steps = 1
    """Delay of measurements in control steps of 20 ms: a number, or bounds between which it is drawn."""
    ang_vel_noise: float = 0.2
    """Largest error of the gyroscope [rad/s]."""
    gravity_noise: float = 0.05
    """Largest error of the direction of gravity."""
    joint_pos_noise: float = 0.01
    """Largest error of encoders [rad]."""
    joint_vel_noise: float = 0.5
    """Largest error of joint velocities [rad/s]."""

    def randomize(self, base: str) -> dict[str, Distribution]:
        """Return the randomized parameters of a task."""
        return {
            "geom_friction:*": uniform(*_bounds(self.friction), shared=True),
            f"body_mass:{base}": uniform(*_bounds(self.payload), "add"),
            "actuator_strength:*": uniform(*_bounds(self.motor_strength)),
        }


@dataclass(frozen=True, kw_only=True)
class WalkRewards:
    """Weights of the reward terms of `walk`; a weight of zero leaves a term out."""

    alive: float = 1.0
    """Constant reward per step, so that falling does not pay."""
    track_lin_vel_xy: float = 2.0
    """exp(−e² / std²), with e the error of the horizontal velocity and std 0.35 m/s."""
    track_ang_vel_z: float = 1.5
    """exp(−e² / std²), with e the error of the yaw rate and std 0.5 rad/s."""
    lin_vel_xy_l2: float = -1.0
    """Squared error of the horizontal velocity [(m/s)²]."""
    ang_vel_z_l2: float = -0.3
    """Squared error of the yaw rate [(rad/s)²]."""
    swing_height: float = -300.0
    """Squared difference between the height of a foot and that of its gait clock [m²], summed over feet."""
    slip: float = -0.3
    """Squared horizontal velocity of feet near the ground [(m/s)²], summed over feet."""
    foothold: float = -15.0
    """Squared distance of a foot from where clock and command place it [m²], summed over feet."""
    feet_apart: float = -100.0
    """Squared amount by which a left and a right foot are closer sideways than 80 % of their distance in the stance."""
    legs_apart: float = 0.0
    """The same for matching links of left and right legs, such as the knees of a biped."""
    base_height: float = -30.0
    """Squared difference from the height of the base in the stance [m²]."""
    upright: float = -2.0
    """Squared horizontal part of the direction of gravity in the axes of the base."""
    lin_vel_z_l2: float = -0.5
    """Squared vertical velocity of the base [(m/s)²]."""
    ang_vel_xy_l2: float = -0.05
    """Squared roll and pitch rates of the base [(rad/s)²]."""
    action_rate: float = -0.05
    """Squared change of the action since the last step."""
    joint_vel: float = -5e-4
    """Squared joint velocities [(rad/s)²], summed over joints."""
    joint_limits: float = -10.0
    """Squared distance beyond 90 % of a joint's range."""
    leg_pose: float = -0.1
    """Squared distance from the stance of leg joints that turn about the lateral axis."""
    leg_side_pose: float = -1.0
    """The same for all other leg joints, which turn legs sideways and feet inward."""
    other_pose: float = -2.0
    """The same for joints that move no foot: waist, arms, head."""


DEFAULT_ACTIONS, DEFAULT_DISTURBANCES, DEFAULT_REWARDS = JointTargets(scale=0.5), Disturbances(), WalkRewards()


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
    history: int = 1,
    actions: JointTargets = DEFAULT_ACTIONS,
    disturbances: Disturbances = DEFAULT_DISTURBANCES,
    weights: WalkRewards = DEFAULT_REWARDS,
    episode_seconds: float = 20.0,
) -> Task:
    """Return a task in which a robot follows velocity commands that change every five seconds.

    The policy runs at 50 Hz. It sees gyroscope, direction of gravity, joint positions relative to the stance, joint
    velocities, its last action, the command and a gait clock; measurements are noisy and delayed. Critics see the
    current values of all this without noise and delay, and more.
    Actions are joint position targets around the stance.

    Args:
        model: The robot, on a ground, with a position servo on each joint unless `actions` has gains.
        base: Body whose velocity is commanded.
        feet: Geoms of each foot, one name per foot, where * and ? are wildcards; left feet first in each pair: (left,
            right) or (front left, front right, rear left, rear right).
        stance: Keyframe of the model, or joint positions by name, in which the robot stands.
        name: Name of the task; that of the model by default.
        lin_vel_x: Commanded forward velocity [m/s]: a number or a range.
        lin_vel_y: Commanded velocity to the left [m/s].
        ang_vel_z: Commanded yaw rate [rad/s].
        frequency: Gait cycles per second [Hz]; by default 1.5 for two feet and 2 for four.
        offsets: Phase of each foot in cycles; by default alternating for two feet, a trot for four.
        swing_height: Height of a foot in the middle of its swing [m].
        history: How many measurements of each sensor the policy sees, the latest first.
        actions: Joint targets; by default ± 0.5 rad around the stance, with the model's servos.
        disturbances: Noise, delay, pushes and randomized parameters.
        weights: Weights of the reward terms.
        episode_seconds: Time limit of an episode [s].
    """
    check_int("history", history, 1)
    keyframe, pose = (stance, {}) if isinstance(stance, str) else (None, stance)
    reset = NoisyReset(keyframe=keyframe, pose=pose, joint_position=0.1, root_rotation=0.1, velocity=0.2)
    start = stand(model, reset, base, feet)
    command = VelocityCommand(
        lin_vel_x=lin_vel_x, lin_vel_y=lin_vel_y, ang_vel_z=ang_vel_z, resample_every=5.0, standing=0.05
    )
    clock = _gait_clock(len(feet), frequency, offsets)
    steps = Footsteps(feet, clock, command, base, start.footholds, swing_height)
    last = ActionHistory(len(actions.select(model)), steps=1)
    pushes = RandomPushes(base, velocity=disturbances.push, every=5.0)
    parts = _Parts(base, start, command, clock, steps, pushes, last)
    late = parts.measurements(disturbances, history)
    return _task(name or model.name, model, parts, late, actions, disturbances, weights, round(episode_seconds * RATE))


def _task(
    name: str,
    model: Model,
    parts: _Parts,
    late: Mapping[str, ObservationDelay],
    actions: JointTargets,
    disturbances: Disturbances,
    weights: WalkRewards,
    episode_steps: int,
) -> Task:
    """Put a task together from its parts."""
    known = {
        "last action": observations.last_action(),
        "command": parts.command.observation,
        "clock": parts.clock.observation,
    }
    return Task(
        name=name,
        model=model,
        actions=actions,
        reset=parts.start.reset,
        memory={
            **parts.command.memory,
            **parts.clock.memory,
            **parts.history.memory,
            **parts.pushes.memory,
            **{label: entry for part in late.values() for label, entry in part.memory.items()},
        },
        observation={
            "policy": {**{label: part.observation for label, part in late.items()}, **known},
            "critic": {**parts.exact, **known, **parts.privileged},
        },
        reward=parts.rewards(weights),
        signals=parts.signals,
        forces=[parts.pushes.force],
        randomize=disturbances.randomize(parts.base),
        alive=parts.alive,
        dt=1.0 / RATE,
        episode_steps=episode_steps,
        recipe="g1" if len(parts.steps.feet) == 2 else "go1",
    )


@dataclass(frozen=True)
class _Parts:
    """Parts of the task, and the terms that follow from them."""

    base: str
    start: Stance
    command: VelocityCommand
    clock: GaitClock
    steps: Footsteps
    pushes: RandomPushes
    history: ActionHistory

    @property
    def limbs(self) -> Sequence[Limb]:
        return self.start.limbs

    @property
    def exact(self) -> dict[str, ObsTerm]:
        """Measurements without noise and delay."""
        return {
            "angular velocity": observations.base_ang_vel(self.base),
            "gravity": observations.projected_gravity(self.base),
            "joint positions": self._joint_pos,
            "joint velocities": self._joint_vel,
        }

    @property
    def privileged(self) -> dict[str, ObsTerm]:
        """What only critics see."""
        return {
            "velocity": observations.base_lin_vel(self.base),
            "height": observations.height(self.base),
            "foot heights": self.steps.heights,
            "push": self.pushes.observation,
            "parameters": observations.parameters("*"),
        }

    @property
    def signals(self) -> dict[str, ObsTerm]:
        """What evaluations record, by the names of `ahac.engines.locomotion`."""
        return {
            "command": self.command.observation,
            "velocity": observations.planar_velocity(self.base),
            "foot_height": self.steps.heights,
            "torque": observations.actuator_force(),
            "joint_margin": observations.joint_margin(),
            "push": self.pushes.observation,
        }

    def measurements(self, disturbances: Disturbances, history: int) -> dict[str, ObservationDelay]:
        """Return the measurements with noise and delay."""
        d, count = disturbances, len(self.limbs)
        noise = {
            "angular velocity": (d.ang_vel_noise, 3),
            "gravity": (d.gravity_noise, 3),
            "joint positions": (d.joint_pos_noise, count),
            "joint velocities": (d.joint_vel_noise * JOINT_VEL_SCALE, count),
        }
        return {
            label: ObservationDelay(
                noisy(term, uniform=noise[label][0]), noise[label][1], d.delay, f"late {label}", history
            )
            for label, term in self.exact.items()
        }

    def rewards(self, weights: WalkRewards) -> dict[str, RewardTerm]:
        """Return the weighted reward terms."""
        base, command, steps = self.base, self.command, self.steps
        terms: dict[str, RewardTerm] = {
            "alive": lambda world, action: 1.0,
            "track_lin_vel_xy": command.track_lin_vel_xy(base, std=0.35),
            "track_ang_vel_z": command.track_ang_vel_z(base, std=0.5),
            "lin_vel_xy_l2": command.lin_vel_xy_l2(base),
            "ang_vel_z_l2": command.ang_vel_z_l2(base),
            "swing_height": steps.swing_height_l2,
            "slip": steps.slip_l2,
            "foothold": steps.foothold_l2,
            "feet_apart": steps.feet_apart_l2,
            "legs_apart": lambda world, action: self._legs_apart_l2(world),
            "base_height": lambda world, action: (world.position(base).z - self.start.height) ** 2,
            "upright": rewards.flat_orientation_l2(base),
            "lin_vel_z_l2": rewards.lin_vel_z_l2(base),
            "ang_vel_xy_l2": rewards.ang_vel_xy_l2(base),
            "action_rate": self.history.action_rate_l2,
            "joint_vel": lambda world, action: sum((world.v[limb.v] ** 2 for limb in self.limbs), 0.0),
            "joint_limits": lambda world, action: self._beyond_limits_l2(world),
            **{group: self._pose_l2(group) for group in dict.fromkeys(limb.group for limb in self.limbs)},
        }
        return {label: rewards.weighted(w, term) for label, term in terms.items() if (w := getattr(weights, label))}

    def alive(self, world: World) -> Real:
        """Return a negative number once the base is too low or tilts too far."""
        height, up = world.position(self.base).z, world.rotation(self.base).column(2).z
        return minimum(height - MIN_HEIGHT * self.start.height, up - MAX_TILT)

    def _joint_pos(self, world: World, action: Action) -> list[Real]:
        """Joint positions relative to the stance [rad]."""
        return [world.q[limb.q] - limb.stance for limb in self.limbs]

    def _joint_vel(self, world: World, action: Action) -> list[Real]:
        """Joint velocities [10 rad/s]."""
        return [world.v[limb.v] * JOINT_VEL_SCALE for limb in self.limbs]

    def _pose_l2(self, group: str) -> RewardTerm:
        chosen = [limb for limb in self.limbs if limb.group == group]
        return lambda world, action: sum(((world.q[limb.q] - limb.stance) ** 2 for limb in chosen), 0.0)

    def _legs_apart_l2(self, world: World) -> Real:
        total: Real = 0.0
        for pair in self.start.legs:
            gap = sideways_gap(world, self.base, pair.left, pair.right)
            total = total + maximum(0.0, self.steps.min_gap * pair.gap - gap) ** 2
        return total

    def _beyond_limits_l2(self, world: World) -> Real:
        total: Real = 0.0
        for limb in self.limbs:
            if limb.range is not None:
                (low, high), position = limb.range, world.q[limb.q]
                total = total + maximum(0.0, maximum(low - position, position - high)) ** 2
        return total


def _gait_clock(num_feet: int, frequency: float | None, offsets: Sequence[float] | None) -> GaitClock:
    if offsets is None and num_feet not in GAITS:
        raise InputError(f"walk knows gaits of 2 and 4 feet, got {num_feet}: set offsets, a phase for each foot")
    return GaitClock(
        frequency=FREQUENCIES.get(num_feet, 2.0) if frequency is None else frequency,
        offsets=GAITS[num_feet] if offsets is None else offsets,
    )


def _bounds(value: Range) -> tuple[float, float]:
    low, high = value if isinstance(value, Sequence) else (value, value)
    return low, high
