"""Train a Unitree Go1 to run with gradients through its physics: python examples/go1.py [iterations], half a minute."""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

import ahac
from ahac.envs import NoisyReset, RobotTask, VecEnv, locomotion_rewards, rewards
from ahac.sim import ContactMaterial, Motor, load_model

STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}  # [rad]


def go1(path: Path) -> RobotTask:
    """Return a task: run along x, upright, with the trunk at 25 cm or more."""
    hip = Motor(strength=23.7, armature=0.005, damping=2.0)
    knee = Motor(strength=35.55, armature=0.01, damping=2.0)
    motors = {"*_hip_joint": hip, "*_thigh_joint": hip, "*_calf_joint": knee}
    # The effective mass of a leg at its foot is small: with the default viscosity and 1 ms substeps, gradients explode.
    contact = ContactMaterial(stiffness=5e3, damping=5e3, viscosity=100.0, friction=0.8)
    model = load_model(path, motors=motors, contact=contact, ground=True)
    reward = {**locomotion_rewards(model, "trunk"), "height": rewards.height_reward("trunk", 0.25)}
    reset = NoisyReset(keyframe=None, pose=STANCE, height=0.278, joint_position=0.05, velocity=0.1)
    return RobotTask(model=model, torso="trunk", terminate_below=0.18, reset=reset, reward=reward)


def train(env: VecEnv, iterations: int, steps: int = 96) -> None:
    """Train a linear policy on top of springs of 40 N m/rad toward the stance."""
    spring = 40.0 / torch.tensor([actuator.gear for actuator in env.task.model.actuators])
    stance = torch.tensor([0.1, 0.9, -1.8, -0.1, 0.9, -1.8] * 2)
    weight = torch.zeros(env.spec.obs_size, 12, requires_grad=True)
    bias = torch.zeros(12, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.004)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, iterations)
    for iteration in range(iterations):
        obs = env.reset()
        alive = torch.ones(env.spec.num_envs)
        mean_reward = torch.zeros(())
        distance = torch.zeros(())
        for _ in range(steps):
            terms = dict(zip(env.obs_layout, obs.split([*env.obs_layout.values()], dim=-1), strict=True))
            step = env.step(torch.tanh(spring * (stance - terms["joint positions"]) + obs @ weight + bias))
            mean_reward = mean_reward + (alive * step.reward).mean() / steps
            forward_speed = step.reward_terms[:, 0]
            distance = distance + (alive * forward_speed).mean() * env.spec.dt
            obs = step.obs
            alive = alive * ~step.done
        optimizer.zero_grad()
        (-mean_reward).backward()
        torch.nn.utils.clip_grad_norm_([weight, bias], 1.0)
        optimizer.step()
        scheduler.step()
        sys.stdout.write(f"{iteration + 1:3d}: {distance:5.2f} m in {steps / 60:.1f} s, {alive.mean():4.0%} standing\n")


if __name__ == "__main__":
    if (package := find_spec("mjlab")) is None or package.origin is None:
        sys.exit("the robot file comes with mjlab, which is not installed: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"
    train(ahac.make(go1(file), num_envs=64), iterations=int(sys.argv[1]) if len(sys.argv) > 1 else 80)
