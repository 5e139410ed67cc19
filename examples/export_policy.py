"""Export a policy and run it in MuJoCo, without ahac: python examples/export_policy.py [seconds].

The policy is the pretrained one of the Unitree Go1; `ahac.export` takes any run. The file contains normalization,
network and action scaling, and a JSON file next to it says how to build the observation from sensors. The second
program, run_exported_policy.py, knows only these two files and the robot's MJCF; its loop is what a robot would run.
"""

import json
import subprocess
import sys
from pathlib import Path

import ahac

COMMAND = (0.5, 0.0, 0.0)  # velocities forward and to the left [m/s], yaw rate [rad/s]


def describe(description: Path) -> str:
    """Return what the policy observes and drives, and how often."""
    about = json.loads(description.read_text(encoding="utf-8"))
    terms = ", ".join(f"{term['name']} ({term['size']})" for term in about["observation"])
    return f"{about['control_rate']:.0f} Hz, {len(about['actuators'])} actuators, observations: {terms}"


def run_in_mujoco(policy: Path, robot: Path, seconds: float) -> list[float]:
    """Run the policy with the command in a program of its own; return the robot's final qpos."""
    script = Path(__file__).with_name("run_exported_policy.py")
    arguments = [sys.executable, script, policy, robot, seconds, *COMMAND]
    done = subprocess.run([str(x) for x in arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.partition("qpos is ")[2])


if __name__ == "__main__":
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    run = ahac.pretrained("go1", device="cpu")
    policy = ahac.export(run, "go1.onnx")  # runs it and compares its actions before it writes anything
    sys.stdout.write(f"{policy}: {describe(policy.with_suffix('.json'))}\n")

    robot = Path(ahac.__file__).parent / "envs" / "assets" / "go1.xml"  # your robot's file
    x, y, z, *_ = run_in_mujoco(policy, robot, seconds)
    sys.stdout.write(f"in MuJoCo after {seconds:g} s: x = {x:.2f} m, y = {y:.2f} m, trunk at {z:.2f} m\n")
    sys.stdout.write(f"mean speed {x / seconds:.2f} m/s, command {COMMAND[0]:.2f} m/s\n")
