"""Unitree's Go1 learns to run, by gradients through its physics: python examples/go1.py [iterations], half a minute."""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

import ahac
from ahac.envs import NoisyReset, RobotTask, VecEnv, locomotion_rewards, rewards
from ahac.sim import ContactMaterial, Motor, load_model

STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}  # [rad]


def go1(path: Path) -> RobotTask:
    """Run along x, upright, with the trunk at 25 cm or more."""
    hip = Motor(strength=23.7, armature=0.005, damping=2.0)
    knee = Motor(strength=35.55, armature=0.01, damping=2.0)
    motors = {"*_hip_joint": hip, "*_thigh_joint": hip, "*_calf_joint": knee}
    # To a foot its leg is light: with the default viscosity and substeps of 1 ms, gradients explode.
    contact = ContactMaterial(stiffness=5e3, damping=5e3, viscosity=100.0, friction=0.8)
    model = load_model(path, motors=motors, contact=contact, ground=True)
    reward = {**locomotion_rewards(model, "trunk"), "height": rewards.height_reward("trunk", 0.25)}
    start = NoisyReset(keyframe=None, pose=STANCE, height=0.278, joint_position=0.05, velocity=0.1)
    return RobotTask(model=model, torso="trunk", terminate_below=0.18, reset=start, reward=reward)


def learn(env: VecEnv, iterations: int, steps: int = 96) -> None:
    """Improve a linear policy, on top of springs of 40 N m/rad towards the stance."""
    spring = 40.0 / torch.tensor([actuator.gear for actuator in env.task.model.actuators])
    stance = torch.tensor([0.1, 0.9, -1.8, -0.1, 0.9, -1.8] * 2)
    weight = torch.zeros(env.spec.obs_size, 12, requires_grad=True)
    bias = torch.zeros(12, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=0.004)
    slower = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, iterations)
    for iteration in range(iterations):
        obs = env.reset()
        alive = torch.ones(env.spec.num_envs)
        gained = torch.zeros(())
        distance = torch.zeros(())
        for _ in range(steps):
            joints = dict(zip(env.obs_layout, obs.split([*env.obs_layout.values()], dim=-1), strict=True))[
                "joint positions"
            ]
            step = env.step(torch.tanh(spring * (stance - joints) + obs @ weight + bias))
            gained = gained + (alive * step.reward).mean() / steps
            distance = (
                distance + (alive * step.reward_terms[:, 0]).mean() * env.spec.dt
            )  # the first term: speed along x
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
