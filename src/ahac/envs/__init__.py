"""Robots as tasks: differentiable environments of N worlds, and the parts to make new ones.

    env = ahac.make("ant", num_envs=128)
    step = env.step(policy(env.obs))                        # differentiable

A task (`Task`) is a record of plain functions: `senses` are parts of observations, `shaping` holds parts of rewards,
`NoisyStart` says how episodes begin. `RobotTask` makes one of any robot.
"""

from ahac.core.env import EnvSpec, Step
from ahac.envs import senses, shaping
from ahac.envs.registry import make, make_task, register_task, tasks
from ahac.envs.robot import RobotTask, above, running_rewards, running_senses
from ahac.envs.starts import NoisyStart
from ahac.envs.stiffness import SIGNALS
from ahac.envs.task import Action, Draw, Sense, Start, Task, Term
from ahac.envs.vec_env import VecEnv

__all__ = [
    "SIGNALS", "Action", "Draw", "EnvSpec", "NoisyStart", "RobotTask", "Sense", "Start", "Step", "Task", "Term",
    "VecEnv", "above", "make", "make_task", "register_task", "running_rewards", "running_senses", "senses", "shaping",
    "tasks",
]  # fmt: skip
