"""Text of a task file for a robot, to start from: `ahac new robot.xml`.

Legged robots with two or four feet get a `walk` task, other floating robots a `RobotTask` that runs along x, and robots
on a fixed base a `Task` that holds a pose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile

from ahac.core.errors import InputError
from ahac.envs.actions import JointTargets, force_bounds
from ahac.envs.components.sensors import foot_points
from ahac.envs.root import is_floating
from ahac.sim import Joint, JointKind, Model, Vec3, World

__all__ = ["task_template"]

HOME = "home"
"""Keyframe that becomes the stance."""
FOOT_HEIGHT = 0.1
"""Feet are the leaves whose lowest point is at most this high above the ground, relative to the height of the base."""
SOLE = 0.03
"""Geoms of a foot are those whose lowest point is at most this much higher than the foot's, in the same unit."""
KNEE = {2: 0.7, 4: 1.4}
"""Angle of bent knees by the number of feet [rad]; hips and ankles turn back by half of it."""
LATERAL = 0.7
"""A joint bends a leg if its axis has at least this component along y."""
PAYLOAD, MAX_PAYLOAD = 0.25, 3.0
"""Largest payload relative to the robot's mass, and its limit [kg]."""
STIFFNESS, DAMPING = 0.6, 0.04
"""Estimated gains: kp relative to weight times height of the base, kd relative to kp."""


@dataclass(frozen=True)
class _Robot:
    """What a template needs to know of a robot."""

    model: Model
    base: str
    """Body with the free joint; empty for a fixed base."""
    feet: Sequence[str]
    """Pattern of each foot's geoms, left feet first in each pair; empty if there are not two or four."""
    has_tall_feet: bool
    """Whether a foot reaches up so far that it must be a shin."""
    height: float
    """Of the base above the lowest point [m]."""
    has_servos: bool
    """Whether every driven joint has a position servo."""
    stance: Mapping[str, float]
    """Joint positions to stand in, if the file has no keyframe for it."""

    @property
    def joints(self) -> list[Joint]:
        """Hinges and slides that are not the root's."""
        root = self.model.links[0].joints if self.base else ()
        kinds = (JointKind.HINGE, JointKind.SLIDE)
        return [joint for joint in self.model.joints if joint not in root and joint.kind in kinds]


def task_template(model: Model, file: str, name: str, floating: bool = False) -> str:
    """Return the text of a task file.

    Args:
        model: The robot, loaded with a ground.
        file: Path of the robot file relative to the task file.
        name: Name of the task, which is that of the function.
        floating: Whether the file is loaded with a free joint added to its base.
    """
    robot = _study(model)
    if robot.feet:
        body, imports = _walking(robot, name), ("Disturbances", "JointTargets", "Task", "WalkRewards", "walk")
    elif robot.base:
        body, imports = _running(robot, name), ("JointTargets", "NoisyReset", "RobotTask", "Task")
    else:
        body, imports = _holding(robot, name), ("JointTargets", "NoisyReset", "Task", "observations", "rewards")
    used = [name for name in imports if name in body or name == "Task"]
    free = ", floating=True" if floating else ""
    return f'''"""A task for {file}.

ahac play THIS_FILE.py:{name}          # does the robot stand with actions of zero?
ahac train THIS_FILE.py:{name}         # Ctrl-C stops; `ahac resume RUN` continues
ahac play runs/{name}-ahac-s0          # watch the policy; also: ahac eval, ahac export
"""

from pathlib import Path

from ahac.envs import {", ".join(used)}
from ahac.sim import load_model

# MJCF or URDF; `ahac inspect` lists joints, bodies, geoms with contact points, and what is not simulated.
ROBOT = Path(__file__).parent / "{file}"
{_stance(robot)}

def {name}() -> Task:
    """Return the task. Errors list the names that exist."""
    model = load_model(ROBOT, ground=True{free})
{body}'''


def _study(model: Model) -> _Robot:
    root = model.links[0]
    world = World(model, _pose(model), [0.0] * model.nv, [0.0] * model.nu)
    base = root.name if is_floating(root.joints) else ""
    geoms = dict.fromkeys(candidate.geom for candidate in model.contact_candidates)
    heights = {geom: [-float(point.depth) for point in foot_points(world, [geom])[0]] for geom in geoms}
    ground = min(map(min, heights.values()), default=0.0)
    extents = {geom: (min(points) - ground, max(points) - ground) for geom, points in heights.items()}
    height = float(world.position(root.name).z) - ground
    driven = [actuator for actuator in model.actuators if actuator.tendon is None]
    has_servos = bool(driven) and all(any(actuator.bias[1:]) for actuator in driven)
    feet = _feet(world, extents, height) if base else {}
    tall = any(_is_tall(extents, pattern, height) for pattern in feet.values())
    return _Robot(model, base, list(feet.values()), tall, height, has_servos, _bent(world, list(feet)))


def _pose(model: Model) -> Sequence[float]:
    return model.keyframes[HOME].q if HOME in model.keyframes else model.rest_q


def _feet(world: World, extents: Mapping[str, tuple[float, float]], base_height: float) -> dict[int, str]:
    """Return a pattern for the geoms of each foot, by its link; empty if the robot does not have two or four.

    Args:
        world: The robot in its stance.
        extents: Heights of the lowest and the highest contact point of each geom above the ground [m].
        base_height: Height of the base above the ground [m].
    """
    model = world.model
    parents = {link.parent for link in model.links}
    leaves: dict[int, list[str]] = {}
    for link, geom in dict.fromkeys((candidate.link, candidate.geom) for candidate in model.contact_candidates):
        leaves.setdefault(link, []).append(geom)
    geoms: dict[int, list[str]] = {}
    for link, names in leaves.items():
        lowest = min(extents[name][0] for name in names)
        if link not in parents and lowest < FOOT_HEIGHT * base_height:
            sole = [name for name in names if extents[name][0] - lowest < SOLE * base_height]
            # A shin that ends in a foot is not part of it; if the foot has no geom of its own, the shin is the foot.
            geoms[link] = [name for name in sole if extents[name][1] < FOOT_HEIGHT * base_height] or sole
    patterns = {link: _pattern(names, list(extents)) for link, names in geoms.items()}
    if len(patterns) not in (2, 4) or None in patterns.values():
        return {}
    place = {link: world.motion.position[link] for link in patterns}
    by_x = sorted(patterns, key=lambda link: -float(place[link].x))
    pairs = [by_x] if len(by_x) == 2 else [by_x[:2], by_x[2:]]
    ordered = [link for pair in pairs for link in sorted(pair, key=lambda link: -float(place[link].y))]
    return {link: pattern for link in ordered if (pattern := patterns[link]) is not None}


def _bent(world: World, feet: Sequence[int]) -> dict[str, float]:
    """Return joint positions with bent knees, for legs that are straight in the rest pose."""
    model = world.model
    stance = {joint.name: _clipped(model.rest_q[joint.q], joint) for joint in model.joints if len(joint.dofs) == 1}
    for foot in feet:
        leg = []
        for link in reversed(model.chain(foot)):
            for joint in model.links[link].joints:
                turn = float((world.motion.rotation[link] @ Vec3.of(joint.axis)).y)
                if joint.kind is JointKind.HINGE and abs(turn) > LATERAL:
                    leg.append((joint, math.copysign(1.0, turn)))
        if len(leg) < 2:
            continue
        (hip, hip_turn), (knee, knee_turn), *ankles = leg
        middle = 0.0 if knee.range is None else sum(knee.range) * knee_turn
        forward = math.copysign(1.0, middle) if middle else (1.0 if len(feet) == 2 else -1.0)
        bent = _clipped(KNEE[len(feet)] * forward * knee_turn, knee)
        stance[knee.name] = bent
        stance[hip.name] = _clipped(-0.5 * bent * knee_turn * hip_turn, hip)
        for ankle, turn in ankles[:1]:
            stance[ankle.name] = _clipped(-0.5 * bent * knee_turn * turn, ankle)
    return stance


def _clipped(position: float, joint: Joint) -> float:
    low, high = joint.range or (-math.inf, math.inf)
    return min(max(position, low), high)


def _is_tall(extents: Mapping[str, tuple[float, float]], pattern: str, base_height: float) -> bool:
    return any(high > FOOT_HEIGHT * base_height for geom, (_, high) in extents.items() if fnmatchcase(geom, pattern))


def _pattern(names: Sequence[str], all_names: Sequence[str]) -> str | None:
    """Return a pattern that matches these names only, or None."""
    candidates = [names[0]] if len(names) == 1 else [f"{_common_start(names)}*"]
    return next((p for p in candidates if {n for n in all_names if fnmatchcase(n, p)} == set(names)), None)


def _common_start(names: Sequence[str]) -> str:
    return "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    )


def _stance(robot: _Robot) -> str:
    """Return the lines that define the stance."""
    if HOME in robot.model.keyframes:
        return f'STANCE = "{HOME}"  # keyframe of the file; actions of zero hold it\n'
    lines = [
        f"# Joint positions to start in and to hold with actions of zero [rad or m]. There is no keyframe {HOME!r},",
        f"# so this is a guess{', with bent knees' * bool(robot.feet)}: check it with `ahac play`, and edit it.",
        "STANCE = {",
    ]
    for joint in robot.joints:
        span = "" if joint.range is None else f"  # range {joint.range[0]:.2f} to {joint.range[1]:.2f}"
        lines.append(f'    "{joint.name}": {robot.stance[joint.name]:.2f},{span}')
    return "\n".join([*lines, "}\n"])


def _actions(robot: _Robot) -> str:
    """Return the lines that define what actions mean; none if no joint can have a target."""
    if not (joints := _driven_joints(robot.model)):
        return ""
    limits = """        # The file has no force limit for some joints: add strength=..., that of your motors [N m or N].
"""
    if all(joint.force_range or force_bounds(robot.model, joint) for joint in joints):
        limits = ""
    if robot.has_servos:
        return f"""        # Actions move the targets of the file's servos by up to this much around the stance [rad].
{limits}        actions=JointTargets(scale=0.5),
"""
    weight = sum(link.mass for link in robot.model.links) * math.hypot(*robot.model.gravity)
    kp = float(f"{max(STIFFNESS * weight * max(robot.height, 0.1), 1.0):.2g}")
    return f"""        # Position servos replace the file's actuators; actions move their targets by up to `scale`
        # around the stance [rad]. The gains are estimated from weight and height: use those of your robot.
{limits}        actions=JointTargets(scale=0.5, kp={kp:g}, kd={kp * DAMPING:.2g}),
"""


def _driven_joints(model: Model) -> list[Joint]:
    """Return the joints that `JointTargets` drives; empty if there is none."""
    try:
        return JointTargets().select(model)
    except InputError:
        return []


def _walking(robot: _Robot, name: str) -> str:
    feet = "".join(f'            "{foot}",\n' for foot in robot.feet)
    shins = (
        """        # These geoms are whole shins. Heights of a foot are means over its contact points: better add a
        # small geom, such as a sphere, at the end of each shin in the robot file, and name these.
"""
        if robot.has_tall_feet
        else ""
    )
    order = "left, right" if len(robot.feet) == 2 else "front left, front right, rear left, rear right"
    alive, history = (10.0, 3) if len(robot.feet) == 2 else (1.0, 1)
    swing = round(min(0.25 * robot.height if len(robot.feet) == 4 else 0.12 * robot.height, 0.1), 2)
    payload = min(PAYLOAD * sum(link.mass for link in robot.model.links), MAX_PAYLOAD)
    return f"""    # Follow velocity commands; the guide "Walking" describes reward, gait and disturbances.
    return walk(
        model,
        name="{name}",
        base="{robot.base}",  # body with the free joint
{shins}        feet=(  # geoms: {order}
{feet}        ),
        stance=STANCE,
{_actions(robot)}        lin_vel_x=(-0.5, 1.0),  # commands [m/s]
        lin_vel_y=(-0.4, 0.4),
        ang_vel_z=(-0.8, 0.8),  # [rad/s]
        swing_height={swing:g},  # of the feet [m]
        history={history},  # measurements of each sensor that the policy sees
        disturbances=Disturbances(payload=(0.0, {payload:.2g})),  # [kg]; other parts: friction, push, delay, ...
        weights=WalkRewards(alive={alive:g}),  # other terms: track_lin_vel_xy, swing_height, foothold, action_rate, ...
    )
"""


def _reset(robot: _Robot) -> str:
    stance = 'keyframe="home"' if HOME in robot.model.keyframes else "keyframe=None, pose=STANCE"
    return f"        reset=NoisyReset({stance}, joint_position=0.05, velocity=0.1),\n"


def _running(robot: _Robot, name: str) -> str:
    return f"""    # Run along x: observations and reward have defaults, see the guide "Your own robot".
    return RobotTask(
        name="{name}",
        model=model,
        torso="{robot.base}",  # body that should run
        terminate_below={0.6 * robot.height:.2g},  # end the episode when it is lower [m]
{_reset(robot)}{_actions(robot)}        dt=0.02,
        episode_steps=500,
    )
"""


def _holding(robot: _Robot, name: str) -> str:
    return f"""
    def pose(world, action):
        \"\"\"Return the squared distance of the joints from zero; rewards are plain functions of the state.\"\"\"
        return sum((q**2 for q in world.q), 0.0)

    return Task(
        name="{name}",
        model=model,
        observation={{
            "positions": lambda world, action: list(world.q),
            "velocities": lambda world, action: [0.1 * v for v in world.v],
            "last action": observations.last_action(),
        }},
        reward={{
            "pose": rewards.weighted(-1.0, pose),
            "effort": rewards.weighted(-0.01, rewards.action_l2()),
        }},
{_reset(robot)}{_actions(robot)}        dt=0.02,
        episode_steps=250,
    )
"""
