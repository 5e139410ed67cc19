"""A task with the observation of a robot on the ground, and runs whose policies have not been trained."""

from typing import Any

import torch

from ahac.envs import (
    ActionDelay,
    GaitClock,
    JointTargets,
    NoisyReset,
    Task,
    VelocityCommand,
    make_task,
    noisy,
    observations,
    rewards,
)
from ahac.envs.root import find_root
from ahac.sim import World
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run

BASE = "base"
NUMBERS = {"iteration": 0, "env_steps": 0, "seconds": 0.0, "best": 0.0}


def walker(variant: str = "paper") -> Task:
    """ANYmal with joint targets that sees what a robot measures, with noise unless the variant is "quiet"."""
    model = make_task("anymal").model
    reset = NoisyReset(joint_position=0.1, velocity=0.2)
    stance = {joint.name: reset.stance(model)[joint.q] for joint in find_root(model, BASE).non_root_joints}
    noise = 0.0 if variant == "quiet" else 1.0
    command = VelocityCommand(lin_vel_x=(0.2, 1.0), standing=0.0)
    clock = GaitClock(frequency=2.0, offsets=(0.0, 0.3, 0.5, 0.8), random_start=False)
    delay = ActionDelay(12, steps=(0, 1))

    def relative_positions(world: World, action: Any) -> list[Any]:  # noqa: ANN401 - traced scalars
        return [world.joint_position(name) - position for name, position in stance.items()]

    return Task(
        name="walker",
        model=model,
        actions=JointTargets(scale={"*HAA": 0.3, "*FE": 0.5}, kp=100.0, kd=3.0, strength=80.0),
        reset=reset,
        memory={**command.memory, **clock.memory, **delay.memory},
        observation={
            "angular velocity": noisy(observations.base_ang_vel(BASE), std=0.2 * noise),
            "gravity": noisy(observations.projected_gravity(BASE), uniform=0.05 * noise),
            "joint positions": noisy(relative_positions, uniform=0.01 * noise),
            "joint velocities": noisy(observations.limb_joint_vel(BASE, 0.1), std=0.1 * noise),
            "last action": observations.last_action(),
            "command": command.observation,
            "clock": clock.observation,
        },
        reward={"upright": rewards.weighted(-1.0, rewards.flat_orientation_l2(BASE))},
        control=delay.control,
        dt=0.02,
        episode_steps=100,
    )


def untrained(config: RunConfig, observed: int = 64) -> Run:
    """Create a run with a checkpoint whose normalizer has seen some observations, without training."""
    run = create_run(config)
    rng = torch.Generator().manual_seed(3)
    size = run.env.spec.obs_size
    obs = 2.0 * torch.randn(observed, size, generator=rng) + torch.linspace(-1.0, 1.0, size)
    run.algo.normalizer.update(obs)  # pyright: ignore[reportAttributeAccessIssue] - all algorithms have one
    run.save("last", run.snapshot(NUMBERS, {}))
    return run
