"""A run: its folder, what it was made from, its checkpoints and evaluations.

`start` makes the folder of a new one, `open_run` finds that of an old one; `trainer.train` goes on with either, from
the last checkpoint where there is one.

    config.json       what it is made from             metrics.csv       one row of numbers per iteration
    manifest.json     versions, hardware, git          tensorboard/      the same numbers
    checkpoints/      last, best, iteration-NNNNNN     evaluation.json   what the last policy is worth
    failures/         iterations that learnt nothing   .lock             held by the process that trains it
    replay/           of algorithms that have one, as of the last checkpoint
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
from ahac.algos.registry import make_algorithm
from ahac.core.checks import check_int
from ahac.core.config import flatten
from ahac.core.device import resolve_run_device
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import read_json, remove_leftovers, set_aside, write_json
from ahac.envs import VecEnv, make
from ahac.runtime.cuda_graphs import make_executor
from ahac.runtime.stages import Executor
from ahac.training.checkpoint import (
    LAST,
    Checkpoint,
    CheckpointError,
    checkpoint_names,
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
)
from ahac.training.process import exclusive_lock, torch_settings
from ahac.training.replay_files import ReplayFiles

__all__ = ["Run", "create_run", "open_run", "prepare", "saved_settings"]

logger = logging.getLogger("ahac")

EVAL_SEED = 1_000_003
"""Added to a run's seed: evaluations begin elsewhere than training did."""


class Run:
    """A training run and its folder, into which the first of its ranks writes."""

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
        """Where it runs."""
        return torch.device(resolve_run_device(self.config.device, self.ranks))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Its settings, as config.json and every checkpoint hold them."""
        return config_to_file(self.config)

    @cached_property
    def env(self) -> VecEnv:
        """The environment that it trains in: this rank's share of the worlds."""
        c, worlds = self.config, self.ranks.local_count(self.config.num_envs)
        return make(c.task, num_envs=worlds, device=self.device, seed=c.seed, variant=c.variant, ranks=self.ranks)

    @cached_property
    def algo(self) -> Algorithm:
        """What learns."""
        return make_algorithm(self.config.algorithm, self.env.spec, self.config.seed, self.ranks)

    @cached_property
    def executor(self) -> Executor:
        """Runs the stages of the algorithm, from CUDA graphs where the settings and the device allow it."""
        return make_executor(self.env, [self.algo.generator], self.config.graphs)

    @cached_property
    def replay_files(self) -> ReplayFiles | None:
        """Where the replay of an algorithm that has one is kept."""
        algo = self.algo
        origin = f"{self.config.task}, {self.config.algo}, seed {self.config.seed}"
        return ReplayFiles(self.folder / "replay", algo.replay, origin) if isinstance(algo, HasReplayBuffer) else None

    @property
    def eval_seed(self) -> int:
        """Of its final evaluation."""
        return self.config.seed + EVAL_SEED

    def snapshot(self, numbers: Mapping[str, float], extra: Mapping[str, torch.Tensor]) -> Checkpoint:
        """Where it stands, as a copy."""
        owners = {"algo": self.algo.state_dict(), "env": self.env.state_dict(), "trainer": extra}
        tensors = {f"{owner}/{key}": value for owner, state in owners.items() for key, value in state.items()}
        return Checkpoint(tensors, numbers, self.settings)

    def checkpoint_names(self) -> list[str]:
        """Of the checkpoints in its folder."""
        return checkpoint_names(self.checkpoints)

    def path_of(self, name: str) -> Path:
        """Where the checkpoint of this name is, or would be."""
        return self.checkpoints / f"{name}.safetensors"

    def repair(self) -> None:
        """Remove temporary files of killed processes, and restore a missing config.json; while nothing else trains."""
        for folder in (self.folder, self.checkpoints, self.folder / "replay", self.folder / "failures"):
            remove_leftovers(folder)
        if not (self.folder / "config.json").exists():
            write_json(self.folder / "config.json", self.settings, checksum=True)

    def save(self, name: str, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint under that name."""
        path = self.path_of(name)
        if not self.ranks.is_main:
            return path
        files = self.replay_files if name == LAST else None  # a run goes on from its last checkpoint alone
        added = int(checkpoint.tensors["algo/replay.added"]) if files is not None else 0
        if files is not None:
            files.save(added)
        save_checkpoint(path, checkpoint)
        if files is not None:
            files.prune(added)
        return path

    def restore(self, name: str = LAST, with_env: bool = True) -> Checkpoint:
        """Go back to a checkpoint, by name."""
        path = self.path_of(name)
        saved = self.ranks.run_on_rank_zero(lambda: self._read(path))
        if odd := _differences(saved.settings, self.settings):
            logger.warning("%s was written with other settings than %s: %s", path, self.folder / "config.json", odd)
        try:
            saved.check()
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        try:
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
        """Make a checkpoint the last one, from which training resumes; what it replaces is kept under other names."""
        chosen = self.restore(name)  # what cannot be resumed from changes nothing
        if name != LAST:
            self.ranks.run_on_rank_zero(lambda: self._replace_last(chosen))

    def _replace_last(self, chosen: Checkpoint) -> None:
        last = self.path_of(LAST)
        replaced = (self.folder / "metrics.csv", self.folder / "evaluation.json", last)
        with exclusive_lock(self.folder):
            for path in (path for path in replaced if os.path.lexists(path)):
                logger.warning("%s is kept as %s", path, set_aside(path, "replaced", copy=path.is_file()).name)
            (self.folder / "evaluation.json").unlink(missing_ok=True)  # of another policy than the last one
            save_checkpoint(last, chosen)

    def _read(self, path: Path) -> Checkpoint:
        others = [name for name in self.checkpoint_names() if name != path.stem]
        known = ", ".join(others) or "none"
        if not path.is_file():
            raise CheckpointError(f"{self.folder} has no checkpoint {path.stem!r}; it has: {known}")
        try:
            return load_checkpoint(path)
        except CheckpointError as error:
            remedy = f"try --checkpoint with one of: {known}" if others else "the run has no other checkpoint"
            raise CheckpointError(f"{error}; {remedy}") from error

    def evaluate(self, episodes: int | None = None, seed: int | None = None) -> Evaluation:
        """Whole episodes under the policy's best actions, in an environment of their own, as torch was in training."""
        c = self.config
        count = check_int("episodes", c.eval_episodes if episodes is None else episodes, 1)
        env = make(
            c.task,
            num_envs=min(count, 128),
            device=self.device,
            variant=c.variant,
            seed=self.eval_seed if seed is None else seed,
        )
        with torch_settings(c, self.device):
            return evaluate(env, self.algo.act, count)

    def save_evaluation(self, evaluation: Evaluation, last: Checkpoint) -> Path:
        """Save the evaluation of the last checkpoint, from the run's own evaluation seed."""
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
    """A new run: makes its folder and writes down what it is made from."""
    ranks.local_count(config.num_envs)
    return Run(*ranks.run_on_rank_zero(lambda: _create_folder(config, ranks)), ranks)


def _create_folder(config: RunConfig, ranks: ProcessGroup) -> tuple[Path, RunConfig]:
    """Its folder, and its settings with the folder's name. The folder appears with its files in it, or not at all."""
    validate_config(config, ranks)
    about = manifest(config.seed, resolve_run_device(config.device, ranks)) | {"ranks": ranks.size}
    wanted = Path(config.out) / (config.name or f"{config.task}-{config.algo}-s{config.seed}")
    with new_folder(wanted) as temporary:
        write_json(temporary / "manifest.json", about)
        for folder in free_names(wanted):
            named = replace(config, name=folder.name)
            write_json(temporary / "config.json", config_to_file(named), checksum=True)
            if claim_folder(temporary, folder):
                break
        else:
            raise InputError(f"{wanted} and ten thousand folders like it exist already; choose another name")
    if folder != wanted:
        logger.warning(
            "%s already exists, so this run is stored in %s; to continue the old one: `ahac resume %s`",
            wanted,
            folder,
            wanted,
        )
    return folder, named


def open_run(folder: str | os.PathLike[str], ranks: ProcessGroup = SINGLE_PROCESS, device: str | None = None) -> Run:
    """The run of a folder; on its own device, or on another one, where chance goes on differently."""
    place = Path(folder)
    config = ranks.run_on_rank_zero(lambda: _config(place))
    return Run(place, config if device is None else replace(config, device=device), ranks)


def _config(place: Path) -> RunConfig:
    """The settings of a run, from config.json or, where that is missing, from its last checkpoint."""
    path = place / "config.json"
    if path.is_file():
        content = read_json(path, editable=True)
    elif (saved := saved_settings(place / "checkpoints")) is not None:
        logger.warning("%s is missing; the settings are those of %s", path, saved[0])
        path, content = saved
    else:
        raise InputError(f"{place} is not a run: {explain_missing_run(place)}")
    try:
        return config_from_file(content)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} cannot be read by this version: {error}") from error


def _differences(saved: Mapping[str, object], current: Mapping[str, object]) -> str:
    """Settings that differ between a checkpoint and config.json and should not; empty where there are none."""
    free = NON_SEMANTIC_FIELDS | {"schema", "iterations", "env_steps", "eval_episodes"}
    before, now = flatten(upgrade_settings(saved)), flatten(current)
    odd = [name for name in before.keys() & now.keys() if name not in free and before[name] != now[name]]
    return ", ".join(f"{name} was {before[name]!r}, is {now[name]!r}" for name in sorted(odd))


def saved_settings(checkpoints: Path) -> tuple[Path, dict[str, Any]] | None:
    """Settings in the newest checkpoint of a folder that has them, and its path."""
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
    """A run that is to be resumed: from an earlier checkpoint, or with another length, or as it is.

    With another length, learning rates decay over the new one. They jump at this point, and the result is not that of a
    run of that length from the start.
    """
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
    """The settings with another length, in iterations or in environment steps, which that checkpoint has not passed."""
    if iterations is not None and env_steps is not None:
        raise InputError("the length of a run is a number of iterations or of env_steps; give one of them")
    config = replace(
        run.config, iterations=run.config.iterations if iterations is None else iterations, env_steps=env_steps
    )
    unit, length = config.length
    path = run.path_of(checkpoint)
    done = load_checkpoint(path).count(unit) if path.is_file() else 0
    if length < done:
        raise InputError(
            f"{run.folder} has done {done} {unit.removesuffix('s')}s; the new length must be at least that, got "
            f"{length}; to go back, use --checkpoint"
        )
    return config
