"""Settings of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.registry import AlgorithmConfig, saved_settings_class
from ahac.core.checks import check_int
from ahac.core.config import from_dict, to_dict
from ahac.core.errors import InputError
from ahac.core.task_names import is_task_file, split_task_file
from ahac.envs import Task
from ahac.sim import Integrator
from ahac.training.names import check_folder_name
from ahac.training.old_settings import upgrade_settings

__all__ = ["NON_SEMANTIC_FIELDS", "OBJECT", "SCHEMA", "TASK", "RunConfig", "config_from_file", "config_to_file"]

SCHEMA = 3
"""Version of the config.json format. Files written by version 0.1.0 have no `schema` and count as 0."""

TASK = "task"
"""Value of `integrator` for the task's own choice; config.json of a run names that choice."""

OBJECT = "object"
"""Value of `task_source` for a `Task` that was given in Python."""

NON_SEMANTIC_FIELDS = frozenset(
    {"name", "out", "device", "graphs", "torch_threads", "checkpoint_every", "deterministic"}
)
"""Settings that do not affect results; runs that differ only in these count as identical.

Comparisons of runs with different seeds ignore `seed` as well.
"""


def _algorithm_kind(saved: Mapping[str, Any]) -> type[Any]:
    """Return the dataclass of the field `algorithm` in saved settings."""
    return saved_settings_class(str(saved.get("algo", RunConfig.algo)))


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run, saved as config.json in its run folder."""

    task: str = field(default="hopper", metadata={"option": False})
    """Task name, see `ahac list tasks`; or FILE.py:NAME, a Task in a Python file or a function that returns one."""
    task_source: str = field(default="", metadata={"option": False})
    """Set by the run: hash of the task's file, or "object" for a Task given in Python; empty for a task by name."""
    algo: str = "ahac"
    """Algorithm name; see `ahac list algos`."""
    preset: str = "default"
    """Source of the hyperparameters: default, paper or released."""
    variant: str = "paper"
    """Reward variant, for tasks whose reward differs between paper and released code: paper or released."""
    integrator: str = "task"
    """Time integration: task (the task's own choice), implicit or explicit."""
    num_envs: int = 256
    """Number of worlds simulated in parallel."""
    iterations: int = 500
    """Number of training iterations, each a rollout followed by one or several policy updates. First-order algorithms
    and FastTD3 decay their learning rates over this length."""
    env_steps: int | None = None
    """Total environment steps; overrides --iterations. Learning rates of first-order algorithms and FastTD3 decay over
    this length."""
    seed: int = 0
    """Random seed for network initialization, action noise and episode resets."""
    device: str = "auto"
    """Device: auto (CUDA if available), cpu, cuda, cuda:1, ..."""
    deterministic: bool = False
    """Allow deterministic kernels only (CUDA; may be slower). CPU runs are always reproducible."""
    tf32: bool = False
    """Use TF32 in torch's matrix products (CUDA): faster for wide networks, with 10 instead of 23 bits of precision."""
    graphs: bool = True
    """Capture iterations as CUDA graphs and replay them (CUDA only). Results are bit-identical either way."""
    torch_threads: int = 1
    """Number of PyTorch CPU threads; more than 1 compete with the simulator's threads."""
    checkpoint_every: int = 50
    """Iterations between checkpoints; one is also written at the end and after a crash."""
    eval_episodes: int = 128
    """Number of episodes in the final evaluation."""
    out: str = "runs"
    """Parent folder of the run folders."""
    name: str = ""
    """Run folder name; if empty, TASK-ALGO-sSEED. A number is appended if it exists."""
    algorithm: AlgorithmConfig = field(default_factory=ShortHorizonConfig, metadata={"kind": _algorithm_kind})
    """Settings of the algorithm."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "iterations", "env_steps", "seed", "checkpoint_every", "eval_episodes"):
            value = getattr(self, name)
            if isinstance(value, float) and value.is_integer():  # 1e6
                object.__setattr__(self, name, int(value))
        for name in ("num_envs", "iterations", "torch_threads", "checkpoint_every", "eval_episodes"):
            check_int(name, getattr(self, name), 1)
        check_int("seed", self.seed, 0)
        if self.integrator not in (TASK, *get_args(Integrator)):
            raise InputError(f"integrator must be task, implicit or explicit, got {self.integrator!r}")
        if self.env_steps is not None:
            check_int("env_steps", self.env_steps, 1)
        if self.name:
            check_folder_name(self.name)

    def with_integrator(self, task: Task) -> Task:
        """Return a task with the integrator of these settings."""
        return task if self.integrator == TASK else task.with_integrator(cast("Integrator", self.integrator))

    @property
    def task_name(self) -> str:
        """Name of the task, without the file of a FILE.py:NAME."""
        return split_task_file(self.task)[1] if is_task_file(self.task) else self.task

    @property
    def length(self) -> tuple[str, int]:
        """Unit of the run's length ("iteration" or "env_steps") and the length in that unit."""
        return ("iteration", self.iterations) if self.env_steps is None else ("env_steps", self.env_steps)


def config_to_file(config: RunConfig) -> dict[str, Any]:
    """Return the content of config.json."""
    return {"schema": SCHEMA, **to_dict(config)}


def config_from_file(content: Mapping[str, Any]) -> RunConfig:
    """Return the config from the content of a config.json of this or an earlier schema.

    Missing settings take the defaults of that schema; an unknown setting raises an InputError that names it. Runs
    before schema 3 used explicit integration. No other default has changed since schema 0, so the defaults of
    `RunConfig` and of the algorithm configs apply to all schemas.
    """
    schema = check_int("schema", content.get("schema", 0), 0)
    if schema > SCHEMA:
        raise InputError(
            f"its schema is {schema}, but this version reads schemas up to {SCHEMA}; install a newer version of ahac"
        )
    return from_dict(RunConfig, {name: value for name, value in upgrade_settings(content).items() if name != "schema"})
