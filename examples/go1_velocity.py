"""Train a Unitree Go1 to follow velocity commands: python examples/go1_velocity.py [iterations]."""

import sys
from importlib.util import find_spec
from pathlib import Path

import ahac
from ahac.envs import (
    ActionDelay,
    ActionHistory,
    FootContacts,
    GaitClock,
    JointTargets,
    MinHeight,
    NoisyReset,
    RandomPushes,
    Task,
    VelocityCommand,
    noisy,
    observations,
    rewards,
    uniform,
)
from ahac.sim import load_model

STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}  # [rad]
FEET = ("FR", "FL", "RR", "RL")


def go1_velocity() -> Task:
    """Return a task: follow commanded velocities at a trot, with noise, delays, pushes and random parameters."""
    package = find_spec("mjlab")
    if package is None or package.origin is None:
        sys.exit("the robot file comes with mjlab, which is not installed: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"

    command = VelocityCommand(lin_vel_x=(-0.5, 1.0), lin_vel_y=(-0.3, 0.3), ang_vel_z=(-0.7, 0.7))
    clock = GaitClock(frequency=2.0, offsets=(0.0, 0.5, 0.5, 0.0))
    feet = FootContacts([f"{foot}_foot_collision" for foot in FEET], smooth=0.04)
    history = ActionHistory(12, steps=1)
    delay = ActionDelay(12, steps=(0, 1))
    pushes = RandomPushes("trunk", velocity=0.3, every=(2.0, 5.0))
    seen = {
        "angular velocity": noisy(observations.base_ang_vel("trunk"), uniform=0.2),
        "gravity": noisy(observations.projected_gravity("trunk"), uniform=0.05),
        "joint positions": noisy(observations.limb_joint_pos("trunk"), uniform=0.01),
        "joint velocities": noisy(observations.limb_joint_vel("trunk", 0.1), uniform=0.1),
        "last action": observations.last_action(),
        "command": command.observation,
        "clock": clock.observation,
    }
    privileged = {
        "velocity": observations.base_lin_vel("trunk"),
        "height": observations.height("trunk"),
        "contacts": feet.observation,
        "push": pushes.observation,
        "parameters": observations.parameters("*"),
    }
    weighted = {
        "track_lin_vel_xy": (3.0, command.track_lin_vel_xy("trunk")),
        "track_ang_vel_z": (1.0, command.track_ang_vel_z("trunk")),
        "gait": (2.0, clock.track_contacts(feet)),
        "lin_vel_z_l2": (-0.5, rewards.lin_vel_z_l2("trunk")),
        "ang_vel_xy_l2": (-0.05, rewards.ang_vel_xy_l2("trunk")),
        "flat_orientation_l2": (-1.0, rewards.flat_orientation_l2("trunk")),
        "action_rate_l2": (-0.01, history.action_rate_l2),
    }
    return Task(
        name="go1_velocity",
        model=load_model(file, ground=True),
        actions=JointTargets(scale=0.4, kp=25.0, kd=0.8, strength=23.7, armature=0.005),
        reset=NoisyReset(keyframe=None, pose=STANCE, height=0.278, joint_position=0.05, velocity=0.1),
        memory={**command.memory, **clock.memory, **history.memory, **delay.memory, **pushes.memory},
        observation={"policy": seen, "critic": {**seen, **privileged}},
        reward={name: rewards.weighted(weight, term) for name, (weight, term) in weighted.items()},
        control=delay.control,
        forces=[pushes.force],
        randomize={"body_mass:trunk": uniform(-0.5, 1.5, "add"), "geom_friction:*foot*": uniform(0.5, 1.2)},
        alive=MinHeight("trunk", 0.16),
        dt=0.02,
        episode_steps=500,
    )


if __name__ == "__main__":
    ahac.register_task("go1_velocity", go1_velocity)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    run = ahac.train("go1_velocity", "ahac", num_envs=128, iterations=iterations, device="cpu", eval_episodes=32)
    sys.stdout.write(f"return {run.evaluate().summary()['mean']:.0f} in {run.folder}\n")
