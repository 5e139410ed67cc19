"""Settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field

from tyro.conf import Fixed

from ahac.algos.config import FirstOrderConfig
from ahac.core.errors import InputError

__all__ = ["RunConfig"]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that a run is made from; a run's folder holds it as config.json."""

    task: Fixed[str] = "hopper"
    """Name of the task: `ahac list tasks`."""
    algo: Fixed[str] = "ahac"
    """Name of the algorithm: `ahac list algos`."""
    preset: Fixed[str] = "default"
    """Where the hyper-parameters come from: default, paper or released."""
    variant: str = "paper"
    """Of the task's reward, where paper and released code differ."""
    num_envs: int = 256
    """Worlds side by side."""
    iterations: int = 500
    """Rollouts, and updates of the policy."""
    seed: int = 0
    """Of all chance: networks, actions, starts of episodes."""
    device: str = "auto"
    """auto takes CUDA where there is one; else cpu, cuda, cuda:1, ..."""
    deterministic: bool = False
    """Refuse operations whose result may differ from run to run."""
    torch_threads: int = 1
    """Threads of torch on the CPU; more of them fight with the simulator's own."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    eval_episodes: int = 128
    """Episodes of the final evaluation."""
    out: str = "runs"
    """Folder of run folders."""
    name: str = ""
    """Of the run's folder; by default task, algorithm and seed."""
    learner: FirstOrderConfig = field(default_factory=FirstOrderConfig)
    """The algorithm's own settings."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "iterations", "torch_threads", "checkpoint_every", "eval_episodes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
