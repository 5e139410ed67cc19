"""Description of an exported policy: everything a robot needs to know to run it, as JSON."""

from __future__ import annotations

from typing import Any

from ahac import __version__
from ahac.deployment.observation import describe_components, describe_observation
from ahac.deployment.program import PolicyProgram
from ahac.deployment.robot import action_delay, describe_actuators, describe_joints, describe_root
from ahac.envs.task import Task
from ahac.training.checkpoint import Checkpoint
from ahac.training.config import RunConfig

__all__ = ["FORMAT_VERSION", "describe"]

FORMAT_VERSION = 1
"""Version of the description's format."""

NOTES = [
    "obs is the concatenation of the observation terms in order; each number is scale * quantity + offset.",
    "Observations are raw: the program contains the normalization. They carry no noise and no delay here; the "
    "measurements of a robot have their own.",
    "steps_ago is the age of a number in control steps: 0 is the latest measurement, 1 the latest action. Where a "
    "history begins before the start, its numbers are those of the first measurement.",
    "actions are in [-1, 1], and are those that last_action refers to in the next step.",
    "controls = middle + scale * actions, in the order of the actuators, before any delay. A position servo exerts "
    "kp * (control - position) - kd * velocity, within force_range.",
    "components are the commands, clocks and sensors of the task by name. A clock's phase is frequency * time + "
    "offset, in cycles; sin_phase and cos_phase are those of the foot `part`.",
    "last_action is zero before the first step. Axes: x forward, y left, z up; quaternions are (w, x, y, z).",
]


def describe(
    task: Task, config: RunConfig, name: str, checkpoint: Checkpoint, program: PolicyProgram
) -> dict[str, Any]:
    """Describe the policy of a checkpoint with the given name."""
    delay = action_delay(task)
    batch = ["batch", program.action_size]
    return {
        "format": "ahac policy",
        "format_version": FORMAT_VERSION,
        "ahac_version": __version__,
        "task": config.task,
        "variant": config.variant,
        "algorithm": config.algo,
        "seed": config.seed,
        "checkpoint": name,
        "iteration": checkpoint.count("iteration"),
        "env_steps": checkpoint.count("env_steps"),
        "inputs": {"obs": {"shape": ["batch", program.obs_size], "type": "float32"}},
        "outputs": {output: {"shape": batch, "type": "float32"} for output in program.outputs},
        "control_rate": 1.0 / task.dt,
        "control_step": task.dt,
        "time_units": {"control_rate": "Hz", "control_step": "s"},
        "observation": describe_observation(task),
        "components": describe_components(task),
        "actuators": describe_actuators(task),
        "joints": describe_joints(task),
        "root": describe_root(task),
        "trained_action_delay": None if delay is None else {"steps": delay.steps},
        "randomized": task.randomized,
        "notes": NOTES,
    }
