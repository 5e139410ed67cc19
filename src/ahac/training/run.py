"""Runs: run folder, settings, checkpoints and evaluations.

`create_run` creates the folder of a new run, `open_run` opens an existing one; `trainer.train` trains either, from the
last checkpoint if there is one. A run folder contains:

    config.json       settings                           metrics.csv       one row of metrics per iteration
    manifest.json     versions, hardware, git state      tensorboard/      the same metrics
    checkpoints/      last, best, iteration-NNNNNN       evaluation.json   evaluation of the last checkpoint
    failures/         iterations that skipped the update .lock             locked by the training process
    replay/           replay buffer of the last checkpoint, for algorithms that have one
    task.py           copy of the task's file, for tasks given as FILE.py:NAME
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ahac.algos.algorithm import Algorithm, HasReplayBuffer
from ahac.algos.networks import BUILT_IN, CriticFactory, Networks, PolicyFactory, with_networks
from ahac.algos.policy_state import load_policy_state
from ahac.algos.registry import make_algorithm
from ahac.core.checks import check_int
from ahac.core.device import resolve_run_device
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import remove_leftovers, set_aside, write_json
from ahac.envs import Task, VecEnv, make
from ahac.runtime.cuda_graphs import make_executor
from ahac.runtime.stages import Executor
from ahac.training.checkpoint import (
    LAST,
    Checkpoint,
    CheckpointError,
    checkpoint_names,
    is_policy_only,
    load_checkpoint,
    save_checkpoint,
)
from ahac.training.config import OBJECT, RunConfig, config_to_file
from ahac.training.create import create_folder
from ahac.training.csv_log import read_columns
from ahac.training.evaluate import Evaluation, evaluate
from ahac.training.process import exclusive_lock, torch_settings
from ahac.training.replay_files import ReplayFiles
from ahac.training.run_settings import read_settings, settings_differences
from ahac.training.task_source import COPY, task_of_run

__all__ = ["Run", "create_run", "open_run"]

logger = logging.getLogger("ahac")

EVAL_SEED = 1_000_003
"""Offset from the training seed to the evaluation seed, so that evaluations start from other states."""


class Run:
    """A training run and its folder. Only rank 0 writes to the folder."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        task: Task | None = None,
        trusted: bool = False,
        networks: Networks = BUILT_IN,
    ) -> None:
        """Represent the run of a folder.

        Args:
            folder: Run folder.
            config: Settings.
            ranks: Processes that train together.
            task: The task, if it was given as an object.
            trusted: Whether to run the folder's task.py even if this user has not trained with it.
            networks: Custom networks, if the run has any.
        """
        self.folder = folder
        self.config = config
        self._folder_config = config  # as in config.json; `with_settings` changes `config` only
        self.ranks = ranks
        self._given = task
        self._trusted = trusted
        self._networks = networks
        self._has_policy = False

    def __repr__(self) -> str:
        c = self.config
        return f"<Run {self.folder}: {c.algo} on {c.task_name}, seed {c.seed}, {c.num_envs} worlds, device {c.device}>"

    def with_settings(self, **changes: Any) -> Run:  # noqa: ANN401 - fields of RunConfig
        """Return the same run with other settings in memory; the folder does not change."""
        config = replace(self.config, **changes)
        run = Run(self.folder, config, self.ranks, task=self._given, trusted=self._trusted, networks=self._networks)
        run._folder_config = self._folder_config
        return run

    @cached_property
    def task(self) -> Task:
        """The run's task."""
        if self._given is not None:
            return self.config.with_integrator(self._given)
        return task_of_run(self.folder, self.config, self._trusted)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @cached_property
    def device(self) -> torch.device:
        """Device on which this rank computes."""
        return torch.device(resolve_run_device(self.config.device, self.ranks))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings as saved in config.json and in every checkpoint."""
        return config_to_file(self.config)

    @cached_property
    def env(self) -> VecEnv:
        """Training environment with this rank's share of the worlds."""
        c = self.config
        worlds = self.ranks.local_count(c.num_envs)
        env = make(self.task, num_envs=worlds, device=self.device, seed=c.seed, ranks=self.ranks)
        for line in env.task.randomized:
            logger.info("randomized in each episode: %s", line)
        return env

    @cached_property
    def algo(self) -> Algorithm:
        """Algorithm, with its networks and optimizers."""
        return make_algorithm(self.config.algorithm, self.env.spec, self.config.seed, self.ranks, self._networks)

    @cached_property
    def executor(self) -> Executor:
        """Runs the stages of the algorithm, from CUDA graphs if the settings and the device allow it."""
        return make_executor(self.env, [self.algo.generator], self.config.graphs)

    @cached_property
    def replay_files(self) -> ReplayFiles | None:
        """Replay buffer on disk; None if the algorithm has no replay buffer."""
        algo = self.algo
        origin = f"{self.config.task}, {self.config.algo}, seed {self.config.seed}"
        return ReplayFiles(self.folder / "replay", algo.replay, origin) if isinstance(algo, HasReplayBuffer) else None

    @property
    def eval_seed(self) -> int:
        """Seed of the final evaluation."""
        return self.config.seed + EVAL_SEED

    @property
    def policy_only(self) -> bool:
        """Whether this is a pretrained policy, which has no training state."""
        return is_policy_only(self.path_of(LAST))

    def check_trainable(self) -> None:
        """Raise a CheckpointError if training cannot resume because this is a pretrained policy."""
        if self.policy_only:
            raise self._no_training_state()

    def _no_training_state(self) -> CheckpointError:
        return CheckpointError(
            f"{self.folder} cannot be resumed: a pretrained policy has no optimizer state; train with "
            f"`ahac train {self.config.task}`"
        )

    def snapshot(self, numbers: Mapping[str, float], extra: Mapping[str, torch.Tensor]) -> Checkpoint:
        """Return a copy of the current state, with counters and tensors of the trainer."""
        owners = {"algo": self.algo.state_dict(), "env": self.env.state_dict(), "trainer": extra}
        tensors = {f"{owner}/{key}": value for owner, state in owners.items() for key, value in state.items()}
        return Checkpoint(tensors, numbers, self.settings)

    def checkpoint_names(self) -> list[str]:
        """Return the names of the checkpoints in the run folder."""
        return checkpoint_names(self.checkpoints)

    def path_of(self, name: str) -> Path:
        """Return the path of a checkpoint, which need not exist."""
        return self.checkpoints / f"{name}.safetensors"

    def repair(self) -> None:
        """Remove temporary files of killed processes and restore a missing config.json; requires the folder lock."""
        for folder in (self.folder, self.checkpoints, self.folder / "replay", self.folder / "failures"):
            remove_leftovers(folder)
        if not (self.folder / "config.json").exists():
            write_json(self.folder / "config.json", self.settings, checksum=True)

    def save(self, name: str, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint under a name and return its path."""
        path = self.path_of(name)
        self._has_policy = True
        if not self.ranks.is_main:
            return path
        files = self.replay_files if name == LAST else None  # others are saved without replay buffer
        added = int(checkpoint.tensors["algo/replay.added"]) if files is not None else 0
        if files is not None:
            files.save(added)
        save_checkpoint(path, checkpoint)
        if files is not None:
            files.prune(added)
        return path

    def restore(self, name: str = LAST, with_env: bool = True) -> Checkpoint:
        """Load a checkpoint into the algorithm and, unless `with_env` is False, the environment and replay buffer."""
        path = self.path_of(name)
        saved = self.ranks.run_on_rank_zero(lambda: self._read(path))
        file = self.folder / "config.json"
        if changes := settings_differences(saved.settings, config_to_file(self._folder_config)):
            logger.warning("%s was written with settings different from %s: %s", path, file, changes)
        try:
            saved.check()
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        if saved.policy_only and with_env:
            raise self._no_training_state()
        algo = self.algo
        try:
            if saved.policy_only:
                load_policy_state(algo, saved.section("algo"))
            else:
                algo.load_state_dict(saved.section("algo"))
            if with_env:
                self.env.load_state_dict(saved.section("env"))
            if with_env and self.replay_files is not None:
                self.replay_files.load(int(saved.tensors["algo/replay.added"]))
        except CheckpointError:
            raise
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            self._has_policy = False
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{path} does not fit the settings in {file}: {reason}") from error
        self._has_policy = True
        return saved

    @property
    def policy(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """The trained policy without action noise: maps observations [N, obs] to actions [N, actions].

        It is that of the last training or `restore` in this program; otherwise that of the last checkpoint, or the
        initial one if the run has no checkpoint.
        """
        if not self._has_policy and self.path_of(LAST).is_file():
            self.restore(LAST, with_env=False)
        return self.algo.act

    def metrics(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the columns of metrics.csv, one number per iteration; NaN where an iteration has none."""
        return read_columns(self.folder / "metrics.csv")

    def record(self, path: str | os.PathLike[str], seconds: float = 10.0, seed: int = 0) -> Path:
        """Record the policy in one world and return the path of the file.

        Args:
            path: File to write: .html (a page that plays in any browser), .mp4, .gif or .npz.
            seconds: Length of the recording [s].
            seed: Random seed of the resets.
        """
        from ahac.training.viewing import EnvSource, record_trajectory
        from ahac.view.recording import check_target, save_recording

        target = Path(path)
        check_target(target)
        policy, env = self.policy, make(self.task, num_envs=1, device=self.device, seed=seed)
        save_recording(record_trajectory(EnvSource(env, policy), seconds), target)
        return target

    def play(self, worlds: int = 4, port: int | None = None, open_browser: bool = True, seed: int = 0) -> None:
        """Show the policy in the browser until it is interrupted.

        Args:
            worlds: Number of worlds.
            port: Port of the viewer; the first free one from 8080 by default.
            open_browser: Whether to open the browser; the address is logged either way.
            seed: Random seed of the resets.
        """
        from ahac.training.viewing import EnvSource
        from ahac.view.server import check_viewer
        from ahac.view.viewer import serve

        check_viewer()
        policy, env = self.policy, make(self.task, num_envs=worlds, device=self.device, seed=seed)
        source = EnvSource(env, policy, self)
        serve(source, port=port, worlds=worlds, open_browser=open_browser, announce=logger.warning)

    def rewind_to(self, name: str) -> None:
        """Make a checkpoint the last one, from which training resumes; keep the replaced files under other names."""
        checkpoint = self.restore(name)  # raises before anything changes if training cannot resume from it
        if name != LAST:
            self.ranks.run_on_rank_zero(lambda: self._replace_last(checkpoint))

    def _replace_last(self, checkpoint: Checkpoint) -> None:
        last = self.path_of(LAST)
        replaced = (self.folder / "metrics.csv", self.folder / "evaluation.json", last)
        with exclusive_lock(self.folder):
            for path in (path for path in replaced if os.path.lexists(path)):
                logger.warning("%s is kept as %s", path, set_aside(path, "replaced", copy=path.is_file()).name)
            (self.folder / "evaluation.json").unlink(missing_ok=True)  # it evaluated the replaced checkpoint
            save_checkpoint(last, checkpoint)

    def _read(self, path: Path) -> Checkpoint:
        others = [name for name in self.checkpoint_names() if name != path.stem]
        available = ", ".join(others) or "none"
        if not path.is_file():
            raise CheckpointError(f"{self.folder} has no checkpoint {path.stem!r}; it has: {available}")
        try:
            return load_checkpoint(path)
        except CheckpointError as error:
            remedy = f"try --checkpoint with one of: {available}" if others else "the run has no other checkpoint"
            raise CheckpointError(f"{error}; {remedy}") from error

    def evaluate(self, episodes: int | None = None, seed: int | None = None) -> Evaluation:
        """Evaluate the policy over complete episodes in a separate environment, with the torch settings of training."""
        c = self.config
        count = check_int("episodes", c.eval_episodes if episodes is None else episodes, 1)
        policy = self.policy
        env = make(
            self.task, num_envs=min(count, 128), device=self.device, seed=self.eval_seed if seed is None else seed
        )
        with torch_settings(c, self.device):
            return evaluate(env, policy, count)

    def save_evaluation(self, evaluation: Evaluation, last: Checkpoint) -> Path:
        """Write evaluation.json for an evaluation of the last checkpoint with `eval_seed`, and return its path."""
        about = {
            "checkpoint": LAST,
            "iteration": last.count("iteration"),
            "env_steps": last.count("env_steps"),
            "seed": self.eval_seed,
        }
        path = self.folder / "evaluation.json"
        write_json(path, evaluation.summary() | about, checksum=True)
        return path


def create_run(
    config: RunConfig,
    ranks: ProcessGroup = SINGLE_PROCESS,
    task: Task | None = None,
    *,
    policy: PolicyFactory | None = None,
    critic: CriticFactory | None = None,
) -> Run:
    """Create a new run: its folder, config.json, manifest.json and, for a task FILE.py:NAME, a copy of the file.

    Args:
        config: Settings.
        ranks: Processes that train together.
        task: The task, if it is not given by its name in the settings.
        policy: Custom network of the policy, see `ahac.algos.networks.Networks`.
        critic: Custom network of the critic.
    """
    ranks.local_count(config.num_envs)
    networks = Networks(policy, critic)
    named = replace(config, algorithm=with_networks(config.algorithm, networks))
    folder, config = ranks.run_on_rank_zero(lambda: create_folder(named, ranks, task, networks))
    return Run(folder, config, ranks, task=task, trusted=True, networks=networks)  # the user named the task


def open_run(
    folder: str | os.PathLike[str],
    ranks: ProcessGroup = SINGLE_PROCESS,
    device: str | None = None,
    *,
    task: Task | None = None,
    trust: bool = False,
    policy: PolicyFactory | None = None,
    critic: CriticFactory | None = None,
) -> Run:
    """Open the run of a folder.

    Args:
        folder: Run folder.
        ranks: Processes that train together.
        device: Another device than the run's own; random numbers then differ after resuming.
        task: The task, if the run was trained with a `Task` object.
        trust: Whether to run the folder's task.py even if this user has not trained with it on this machine.
        policy: Custom network of the policy, if the run was trained with one.
        critic: Custom network of the critic, if the run was trained with one.
    """
    path = Path(folder)
    config = ranks.run_on_rank_zero(lambda: read_settings(path))
    if task is not None and config.task_source != OBJECT:
        raise InputError(f"{path} was not trained with a Task object but with {config.task}; omit task")
    if trust and config.task_source not in ("", OBJECT):
        logger.warning("%s is trusted and runs as the task of the run", path / COPY)
    run = Run(path, config, ranks, task=task, trusted=trust, networks=Networks(policy, critic))
    return run if device is None else run.with_settings(device=device)
