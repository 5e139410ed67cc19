"""Unitree's Go1 learns to run, by gradients through its physics: python examples/go1.py [iterations], half a minute."""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

import ahac
from ahac.envs import Draw, RobotTask, VecEnv, running_rewards, shaping
from ahac.sim import ContactMaterial, Model, Motor, Real, load_model

STANCE = (0.1, 0.9, -1.8, -0.1, 0.9, -1.8) * 2  # hip, thigh and calf, right and left, in front and behind [rad]


def stand(model: Model, draw: Draw) -> tuple[list[Real], list[Real]]:
    """Episodes begin on four feet, each joint a little off."""
    joints = [angle + draw(-0.05, 0.05) for angle in STANCE]
    return [0.0, 0.0, 0.278, 1.0, 0.0, 0.0, 0.0, *joints], [draw(-0.1, 0.1) for _ in range(model.nv)]


def go1(path: Path) -> RobotTask:
    """Run along x, upright, with the trunk at 25 cm or more."""
    hip, knee = Motor(strength=23.7, armature=0.005, damping=2.0), Motor(strength=35.55, armature=0.01, damping=2.0)
    motors = {"*_hip_joint": hip, "*_thigh_joint": hip, "*_calf_joint": knee}
    # To a foot its leg is light: with the default viscosity and substeps of 1 ms, gradients explode.
    contact = ContactMaterial(stiffness=5e3, damping=5e3, viscosity=100.0, friction=0.8)
    model = load_model(path, motors=motors, contact=contact, ground=True)
    reward = {**running_rewards(model, "trunk"), "height": shaping.stature("trunk", 0.25)}
    return RobotTask(model=model, torso="trunk", terminate_below=0.18, start=stand, reward=reward)


def learn(env: VecEnv, iterations: int, steps: int = 96) -> None:
    """Improve a linear policy, on top of springs of 40 N m/rad towards the stance."""
    spring = 40.0 / torch.tensor([actuator.gear for actuator in env.task.model.actuators])
    weight, bias = torch.zeros(env.spec.obs_size, 12, requires_grad=True), torch.zeros(12, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=0.004)
    slower = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, iterations)
    for iteration in range(iterations):
        obs, alive, gained, distance = env.reset(), torch.ones(env.spec.num_envs), torch.zeros(()), torch.zeros(())
        for _ in range(steps):
            joints = dict(zip(env.layout, obs.split([*env.layout.values()], dim=-1), strict=True))["joint positions"]
            step = env.step(torch.tanh(spring * (torch.tensor(STANCE) - joints) + obs @ weight + bias))
            gained = gained + (alive * step.reward).mean() / steps
            distance = distance + (alive * step.terms[:, 0]).mean() * env.spec.dt  # the first term: speed along x
            obs, alive = step.obs, alive * ~step.done
        optimiser.zero_grad()
        (-gained).backward()
        torch.nn.utils.clip_grad_norm_([weight, bias], 1.0)
        optimiser.step()
        slower.step()
        sys.stdout.write(f"{iteration + 1:3d}: {distance:5.2f} m in {steps / 60:.1f} s, {alive.mean():4.0%} standing\n")


if __name__ == "__main__":
    if (package := find_spec("mjlab")) is None or package.origin is None:
        sys.exit("the robot's file comes with mjlab, which is not installed: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"
    learn(ahac.make(go1(file), num_envs=64), iterations=int(sys.argv[1]) if len(sys.argv) > 1 else 80)
