"""Robots as tasks: differentiable environments of N worlds, and the parts to make new ones.

    env = ahac.make("ant", num_envs=128)
    step = env.step(policy(env.obs))                        # differentiable

A task (`Task`) is a record of plain functions: `senses` are parts of observations, `shaping` holds parts of rewards,
`NoisyReset` says how episodes begin. `RobotTask` makes one of any robot.
"""

from ahac.core.env import EnvSpec, Step
from ahac.envs import observations, rewards
from ahac.envs.registry import make, make_task, register_task, tasks
from ahac.envs.resets import NoisyReset
from ahac.envs.robot import MinHeight, RobotTask, locomotion_observations, locomotion_rewards
from ahac.envs.stiffness import SIGNALS
from ahac.envs.task import Action, Draw, ObsTerm, ResetFn, RewardTerm, Task
from ahac.envs.vec_env import VecEnv

__all__ = [
    "SIGNALS",
    "Action",
    "Draw",
    "EnvSpec",
    "MinHeight",
    "NoisyReset",
    "ObsTerm",
    "ResetFn",
    "RewardTerm",
    "RobotTask",
    "Step",
    "Task",
    "VecEnv",
    "locomotion_observations",
    "locomotion_rewards",
    "make",
    "make_task",
    "observations",
    "register_task",
    "rewards",
    "tasks",
]  # fmt: skip
