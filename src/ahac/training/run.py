"""Runs: run folder, settings, checkpoints and evaluations.

`create_run` creates the folder of a new run, `open_run` opens an existing one; `trainer.train` trains either, from the
last checkpoint if there is one. A run folder contains:

    config.json       settings                           metrics.csv       one row of metrics per iteration
    manifest.json     versions, hardware, git state      tensorboard/      the same metrics
    checkpoints/      last, best, iteration-NNNNNN       evaluation.json   evaluation of the last checkpoint
    failures/         iterations that skipped the update .lock             locked by the training process
    replay/           replay buffer of the last checkpoint, for algorithms that have one
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ahac.algos.algorithm import Algorithm, HasReplayBuffer
from ahac.algos.policy_state import load_policy_state
from ahac.algos.registry import make_algorithm
from ahac.core.checks import check_int
from ahac.core.config import flatten
from ahac.core.device import resolve_run_device
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import read_json, remove_leftovers, set_aside, write_json
from ahac.envs import VecEnv, make, make_task
from ahac.runtime.cuda_graphs import make_executor
from ahac.runtime.stages import Executor
from ahac.training.checkpoint import (
    LAST,
    Checkpoint,
    CheckpointError,
    checkpoint_names,
    is_policy_only,
    load_checkpoint,
    newest_first,
    save_checkpoint,
)
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig, config_from_file, config_to_file
from ahac.training.evaluate import Evaluation, evaluate
from ahac.training.manifest import manifest
from ahac.training.old_settings import upgrade_settings
from ahac.training.preflight import (
    claim_folder,
    explain_missing_run,
    free_names,
    new_folder,
    validate_config,
    with_integrator,
)
from ahac.training.process import exclusive_lock, torch_settings
from ahac.training.replay_files import ReplayFiles

__all__ = ["Run", "create_run", "open_run", "prepare", "saved_settings"]

logger = logging.getLogger("ahac")

EVAL_SEED = 1_000_003
"""Offset from the training seed to the evaluation seed, so that evaluations start from other states."""


class Run:
    """A training run and its folder. Only rank 0 writes to the folder."""

    def __init__(self, folder: Path, config: RunConfig, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        self.folder = folder
        self.config = config
        self.ranks = ranks

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
        env = make(**c.env_settings, num_envs=worlds, device=self.device, seed=c.seed, ranks=self.ranks)
        for line in env.task.randomized:
            logger.info("randomized in each episode: %s", line)
        return env

    @cached_property
    def algo(self) -> Algorithm:
        """Algorithm, with its networks and optimizers."""
        return make_algorithm(self.config.algorithm, self.env.spec, self.config.seed, self.ranks)

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
        if changes := _differences(saved.settings, self.settings):
            logger.warning(
                "%s was written with settings different from %s: %s", path, self.folder / "config.json", changes
            )
        try:
            saved.check()
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        if saved.policy_only and with_env:
            raise self._no_training_state()
        try:
            if saved.policy_only:
                load_policy_state(self.algo, saved.section("algo"))
            else:
                self.algo.load_state_dict(saved.section("algo"))
            if with_env:
                self.env.load_state_dict(saved.section("env"))
            if with_env and self.replay_files is not None:
                self.replay_files.load(int(saved.tensors["algo/replay.added"]))
        except CheckpointError:
            raise
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{path} does not fit the settings in {self.folder / 'config.json'}: {reason}"
            ) from error
        return saved

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
        env = make(
            **c.env_settings,
            num_envs=min(count, 128),
            device=self.device,
            seed=self.eval_seed if seed is None else seed,
        )
        with torch_settings(c, self.device):
            return evaluate(env, self.algo.act, count)

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


def create_run(config: RunConfig, ranks: ProcessGroup = SINGLE_PROCESS) -> Run:
    """Create a new run: its folder, config.json and manifest.json."""
    ranks.local_count(config.num_envs)
    return Run(*ranks.run_on_rank_zero(lambda: _create_folder(config, ranks)), ranks)


def _create_folder(config: RunConfig, ranks: ProcessGroup) -> tuple[Path, RunConfig]:
    """Create the folder with its files atomically; return it and the settings with the folder's name."""
    validate_config(config, ranks)
    config = with_integrator(config)
    about = manifest(config.seed, resolve_run_device(config.device, ranks)) | {"ranks": ranks.size}
    if randomized := make_task(config.task, config.variant).randomized:
        about["randomized"] = randomized
    preferred = Path(config.out) / (config.name or f"{config.task}-{config.algo}-s{config.seed}")
    with new_folder(preferred) as temporary:
        write_json(temporary / "manifest.json", about)
        for folder in free_names(preferred):
            named = replace(config, name=folder.name)
            write_json(temporary / "config.json", config_to_file(named), checksum=True)
            if claim_folder(temporary, folder):
                break
        else:
            raise InputError(f"{preferred} and ten thousand numbered folders already exist; choose another name")
    if folder != preferred:
        logger.warning(
            "%s already exists, so this run is stored in %s; to continue the old one: `ahac resume %s`",
            preferred,
            folder,
            preferred,
        )
    return folder, named


def open_run(folder: str | os.PathLike[str], ranks: ProcessGroup = SINGLE_PROCESS, device: str | None = None) -> Run:
    """Open the run of a folder. On a `device` other than the run's own, random numbers differ after resuming."""
    path = Path(folder)
    config = ranks.run_on_rank_zero(lambda: _config(path))
    return Run(path, config if device is None else replace(config, device=device), ranks)


def _config(folder: Path) -> RunConfig:
    """Read the settings of a run from config.json or, if that is missing, from its newest checkpoint."""
    path = folder / "config.json"
    if path.is_file():
        content = read_json(path, editable=True)
    elif (saved := saved_settings(folder / "checkpoints")) is not None:
        logger.warning("%s is missing; using the settings in %s", path, saved[0])
        path, content = saved
    else:
        raise InputError(f"{folder} is not a run: {explain_missing_run(folder)}")
    try:
        return config_from_file(content)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} cannot be read by this version: {error}") from error


def _differences(saved: Mapping[str, object], current: Mapping[str, object]) -> str:
    """List result-changing settings that differ between a checkpoint and config.json; empty if none do."""
    ignored = NON_SEMANTIC_FIELDS | {"schema", "iterations", "env_steps", "eval_episodes"}
    before, now = flatten(upgrade_settings(saved)), flatten(current)
    changed = [name for name in before.keys() & now.keys() if name not in ignored and before[name] != now[name]]
    return ", ".join(f"{name} was {before[name]!r}, is {now[name]!r}" for name in sorted(changed))


def saved_settings(checkpoints: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the path and settings of the newest readable checkpoint that has settings; None if there is none."""
    for name in newest_first(checkpoint_names(checkpoints)):
        path = checkpoints / f"{name}.safetensors"
        try:
            settings = load_checkpoint(path).settings
        except CheckpointError:  # another one may be readable
            continue
        if settings:
            return path, dict(settings)
    return None


def prepare(
    run: Run, checkpoint: str | None = None, iterations: int | None = None, env_steps: int | None = None
) -> Run:
    """Prepare a run for resuming, optionally from an earlier checkpoint or with a new length, and return it.

    Learning rates decay over the new length. They jump at this point, so the result differs from a run started with
    that length.
    """
    run.ranks.run_on_rank_zero(run.check_trainable)
    config = run.config
    if iterations is not None or env_steps is not None:
        config = run.ranks.run_on_rank_zero(lambda: _with_new_length(run, checkpoint or LAST, iterations, env_steps))
    if checkpoint is not None:
        run.rewind_to(checkpoint)
    if config is run.config:
        return run
    run.ranks.run_on_rank_zero(lambda: _write_config(run.folder, config))
    return Run(run.folder, config, run.ranks)


def _write_config(folder: Path, config: RunConfig) -> None:
    with exclusive_lock(folder):
        write_json(folder / "config.json", config_to_file(config), checksum=True)


def _with_new_length(run: Run, checkpoint: str, iterations: int | None, env_steps: int | None) -> RunConfig:
    """Return the settings with a new length; raise an InputError if the checkpoint is already past it."""
    if iterations is not None and env_steps is not None:
        raise InputError("the length of a run is either iterations or env_steps, got both; give one of them")
    config = replace(
        run.config, iterations=run.config.iterations if iterations is None else iterations, env_steps=env_steps
    )
    unit, length = config.length
    path = run.path_of(checkpoint)
    done = load_checkpoint(path).count(unit) if path.is_file() else 0
    if length < done:
        raise InputError(
            f"{run.folder} has done {done} {unit.removesuffix('s')}s; the new length must be at least that, got "
            f"{length}; to resume from an earlier state, use --checkpoint"
        )
    return config
