"""Train a legged robot to follow velocity commands: python examples/walking_robot.py [iterations [file base feet]].

Without a file it takes mjlab's Unitree Go1. With one, the file needs position servos and a keyframe "home":
python examples/walking_robot.py 500 robot.xml trunk FL_foot FR_foot RL_foot RR_foot
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import ahac
from ahac.envs import JointTargets, Task, walk
from ahac.sim import load_model

STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}  # [rad]
SERVOS = JointTargets(scale=0.5, kp=25.0, kd=0.8, strength=23.7, armature=0.005)


def walking() -> Task:
    """Return a task for the file on the command line, else for mjlab's Go1."""
    if len(sys.argv) > 3:
        file, base, *feet = sys.argv[2:]
        return walk(load_model(file, ground=True), base=base, feet=feet, name="walking")
    package = find_spec("mjlab")
    if package is None or package.origin is None:
        sys.exit("the robot file comes with mjlab, which is not installed: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"
    feet = [f"{foot}_foot_collision" for foot in ("FL", "FR", "RL", "RR")]
    return walk(load_model(file, ground=True), base="trunk", feet=feet, stance=STANCE, actions=SERVOS, name="walking")


if __name__ == "__main__":
    ahac.register_task("walking", walking)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    run = ahac.train("walking", "ahac", num_envs=128, iterations=iterations, device="cpu", eval_episodes=32)
    sys.stdout.write(f"return {run.evaluate().summary()['mean']:.0f} in {run.folder}\n")
