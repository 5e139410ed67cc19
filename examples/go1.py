"""Train a Unitree Go1 to run, from its file as it is: python examples/go1.py [iterations]."""

import sys
from importlib.util import find_spec
from pathlib import Path

import ahac
from ahac.envs import NoisyReset, RobotTask, locomotion_rewards, rewards
from ahac.sim import Servo, load_model

STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}  # [rad]


def my_go1() -> RobotTask:
    """Return a task: run along x, upright, with the trunk at 25 cm or more."""
    package = find_spec("mjlab")
    if package is None or package.origin is None:
        sys.exit("the robot file comes with mjlab, which is not installed: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"
    servos = {
        "*_hip_joint": Servo(stiffness=20.0, damping=1.0, strength=23.7, armature=0.005, reach=0.4),
        "*_thigh_joint": Servo(stiffness=20.0, damping=1.0, strength=23.7, armature=0.005, stance=0.9, reach=0.6),
        "*_calf_joint": Servo(stiffness=40.0, damping=1.5, strength=35.5, armature=0.012, stance=-1.8, reach=0.6),
    }
    model = load_model(file, motors=servos, ground=True)
    reward = {**locomotion_rewards(model, "trunk"), "height": rewards.height_reward("trunk", 0.25)}
    reset = NoisyReset(keyframe=None, pose=STANCE, height=0.278, joint_position=0.05, velocity=0.1)
    return RobotTask(
        name="my_go1",
        model=model,
        torso="trunk",
        terminate_below=0.18,
        reward=reward,
        reset=reset,
        dt=0.02,
        episode_steps=500,
    )


if __name__ == "__main__":
    ahac.register_task("my_go1", my_go1)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    run = ahac.train("my_go1", "ahac", num_envs=128, iterations=iterations, device="cpu", eval_episodes=32)
    sys.stdout.write(f"return {run.evaluate().summary()['mean']:.0f} in {run.folder}\n")
