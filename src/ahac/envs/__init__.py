"""Robot tasks as differentiable vectorized environments, and the building blocks for new tasks.

    env = ahac.make("ant", num_envs=128)
    step = env.step(policy(env.obs))                        # differentiable

A `Task` is a dataclass of plain functions: observation terms (`observations`), reward terms (`rewards`), a reset
(`NoisyReset`) and, if needed, `Memory` that lasts from step to step. `RobotTask` fills in defaults for any robot.
"""

from ahac.core.env import STIFFNESS_SIGNALS, EnvSpec, Step
from ahac.envs import observations, rewards
from ahac.envs.actions import JointTargets
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.components.curriculum import Curriculum
from ahac.envs.components.delays import ActionDelay, ObservationDelay
from ahac.envs.components.footsteps import Footsteps
from ahac.envs.components.gait import GaitClock
from ahac.envs.components.history import ActionHistory, ObservationHistory
from ahac.envs.components.noise import noisy
from ahac.envs.components.pushes import RandomPushes
from ahac.envs.components.sensors import FootContacts
from ahac.envs.components.steering import command_ranges, hold_command, release_command, set_command
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory
from ahac.envs.randomization import Distribution, log_uniform, normal, uniform
from ahac.envs.registry import make, make_task, register_task, tasks
from ahac.envs.resets import NoisyReset
from ahac.envs.robot import MinHeight, RobotTask, locomotion_observations, locomotion_rewards
from ahac.envs.task import ActionSpace, ControlFn, Observation, ObsTerm, ResetFn, RewardTerm, Task
from ahac.envs.vec_env import VecEnv
from ahac.envs.walk import Disturbances, WalkRewards, walk

__all__ = [
    "STIFFNESS_SIGNALS",
    "Action",
    "ActionDelay",
    "ActionHistory",
    "ActionSpace",
    "ControlFn",
    "Curriculum",
    "Distribution",
    "Disturbances",
    "Draw",
    "EnvSpec",
    "FootContacts",
    "Footsteps",
    "GaitClock",
    "JointTargets",
    "Memory",
    "MinHeight",
    "NoisyReset",
    "ObsTerm",
    "Observation",
    "ObservationDelay",
    "ObservationHistory",
    "RandomPushes",
    "ResetFn",
    "RewardTerm",
    "RobotTask",
    "Step",
    "Task",
    "VecEnv",
    "VelocityCommand",
    "WalkRewards",
    "command_ranges",
    "hold_command",
    "locomotion_observations",
    "locomotion_rewards",
    "log_uniform",
    "make",
    "make_task",
    "noisy",
    "normal",
    "observations",
    "register_task",
    "release_command",
    "rewards",
    "set_command",
    "tasks",
    "uniform",
    "walk",
]
