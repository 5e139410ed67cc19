"""Settings of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.registry import AlgorithmConfig
from ahac.core.checks import check_int
from ahac.core.config import from_dict, to_dict
from ahac.core.errors import InputError
from ahac.training.names import check_folder_name
from ahac.training.old_settings import upgrade_settings

__all__ = ["NON_SEMANTIC_FIELDS", "SCHEMA", "RunConfig", "config_from_file", "config_to_file"]

SCHEMA = 2
"""Version of config.json. Files of version 0.1.0 have none, which counts as 0."""

NON_SEMANTIC_FIELDS = frozenset(
    {"name", "out", "device", "graphs", "torch_threads", "checkpoint_every", "deterministic"}
)
"""Settings in which two runs may differ, and still be the same; where it is about seeds, those, too."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that a run is made from; a run's folder holds it as config.json."""

    task: str = "hopper"
    """Name of the task: `ahac list tasks`."""
    algo: str = "ahac"
    """Name of the algorithm: `ahac list algos`."""
    preset: str = "default"
    """Where the hyper-parameters come from: default, paper or released."""
    variant: str = "paper"
    """Which reward the task has, where the two differ: paper or released."""
    num_envs: int = 256
    """Worlds side by side."""
    iterations: int = 500
    """Rollouts, and updates of the policy; learning rates fall over all of them."""
    env_steps: int | None = None
    """World-steps after which the run is complete, and over which learning rates fall; then iterations do not count."""
    seed: int = 0
    """Of all chance: networks, actions, starts of episodes."""
    device: str = "auto"
    """auto takes CUDA where there is one; else cpu, cuda, cuda:1, ..."""
    deterministic: bool = False
    """Refuse what may give other bits when run again; on the CPU a run repeats without, on CUDA it may be slower."""
    graphs: bool = True
    """On CUDA, record iterations and replay them (CUDA graphs); the results are the same, to the bit."""
    torch_threads: int = 1
    """Threads of torch on the CPU; more of them fight with the simulator's own."""
    checkpoint_every: int = 50
    """Iterations between checkpoints; one more is written at the end, and after a crash."""
    eval_episodes: int = 128
    """Episodes of the final evaluation."""
    out: str = "runs"
    """Folder of run folders."""
    name: str = ""
    """Name of the run's folder; if empty, made of task, algorithm and seed. A number follows where it is taken."""
    algorithm: AlgorithmConfig = field(default_factory=ShortHorizonConfig)
    """The algorithm's own settings."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "iterations", "torch_threads", "checkpoint_every", "eval_episodes"):
            check_int(name, getattr(self, name), 1)
        check_int("seed", self.seed, 0)
        if self.env_steps is not None:
            check_int("env_steps", self.env_steps, 1)
        if self.name:
            check_folder_name(self.name)

    @property
    def length(self) -> tuple[str, int]:
        """What the run's length is counted in, "iteration" or "env_steps", and how many there are."""
        return ("iteration", self.iterations) if self.env_steps is None else ("env_steps", self.env_steps)


def config_to_file(config: RunConfig) -> dict[str, Any]:
    """What config.json holds."""
    return {"schema": SCHEMA, **to_dict(config)}


def config_from_file(content: Mapping[str, Any]) -> RunConfig:
    """The config in a config.json of this or an earlier schema.

    Missing settings take the defaults of that schema, unknown ones are refused by name. No default has changed since
    schema 0, so the defaults of `RunConfig` and of the algorithm configs apply to all schemas.
    """
    schema = check_int("schema", content.get("schema", 0), 0)
    if schema > SCHEMA:
        raise InputError(f"it has schema {schema}, this version reads up to {SCHEMA}; install a newer version of ahac")
    return from_dict(RunConfig, {name: value for name, value in upgrade_settings(content).items() if name != "schema"})
