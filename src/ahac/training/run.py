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

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from ahac.algos.algorithm import Algorithm, Remembers
from ahac.algos.registry import make_algorithm
from ahac.core.checks import whole_number
from ahac.core.config import from_dict, to_dict
from ahac.core.errors import InputError
from ahac.core.files import write_json
from ahac.core.ranks import ALONE, Ranks
from ahac.envs import VecEnv, make
from ahac.training.checkpoint import Checkpoint, CheckpointError, load_checkpoint, read_numbers, save_checkpoint
from ahac.training.config import RunConfig
from ahac.training.evaluate import Evaluation, evaluate
from ahac.training.folders import check, chosen_device, new_folder, what_is_wrong
from ahac.training.manifest import manifest
from ahac.training.process import alone, torch_settings
from ahac.training.replay_files import ReplayFiles

__all__ = ["Run", "open_run", "set_length", "start"]

EVAL_SEED = 1_000_003
"""Added to a run's seed: evaluations begin elsewhere than training did."""
LAST = "last"
"""Name of the checkpoint that a run goes on from."""


class Run:
    """A training run and its folder, into which the first of its ranks writes."""

    def __init__(self, folder: Path, config: RunConfig, ranks: Ranks = ALONE) -> None:
        self.folder, self.config, self.ranks = folder, config, ranks

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @cached_property
    def device(self) -> torch.device:
        """Where it runs."""
        return torch.device(chosen_device(self.config.device, self.ranks))

    @cached_property
    def env(self) -> VecEnv:
        """The environment that it trains in: this rank's share of the worlds."""
        c, worlds = self.config, self.ranks.portion(self.config.num_envs)
        return make(c.task, num_envs=worlds, device=self.device, seed=c.seed, variant=c.variant, ranks=self.ranks)

    @cached_property
    def algo(self) -> Algorithm:
        """What learns."""
        return make_algorithm(self.config.learner, self.env.spec, self.config.seed, self.config.graphs, self.ranks)

    @cached_property
    def replay_files(self) -> ReplayFiles | None:
        """Where the replay of an algorithm that has one is kept."""
        algo = self.algo
        return ReplayFiles(self.folder / "replay", algo.replay) if isinstance(algo, Remembers) else None

    @property
    def eval_seed(self) -> int:
        """Of its final evaluation."""
        return self.config.seed + EVAL_SEED

    def snapshot(self, numbers: Mapping[str, float], extra: Mapping[str, torch.Tensor]) -> Checkpoint:
        """Where it stands, as a copy."""
        owners = {"algo": self.algo.state_dict(), "env": self.env.state_dict(), "trainer": extra}
        tensors = {f"{owner}/{key}": value for owner, state in owners.items() for key, value in state.items()}
        return Checkpoint(tensors, numbers)

    def save(self, name: str, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint under that name."""
        path = self.checkpoints / f"{name}.safetensors"
        if not self.ranks.first:
            return path
        files = self.replay_files if name == LAST else None  # a run goes on from its last checkpoint alone
        added = int(checkpoint.tensors["algo/replay.added"]) if files is not None else 0
        if files is not None:
            files.save(added)
        save_checkpoint(path, checkpoint)
        if files is not None:
            files.prune(added)
        return path

    def restore(self, name: str = "last", with_env: bool = True) -> Checkpoint:
        """Go back to a checkpoint, by name."""
        path = self.checkpoints / f"{name}.safetensors"
        saved = self.ranks.ask(lambda: self._read(path))
        try:
            self.algo.load_state_dict(saved.part("algo"))
            if with_env:
                self.env.load_state_dict(saved.part("env"))
            if with_env and self.replay_files is not None:
                self.replay_files.load(int(saved.tensors["algo/replay.added"]))
        except CheckpointError:
            raise
        except (RuntimeError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"{path} was made by a run with other settings than {self.folder / 'config.json'}: {error}"
            ) from error
        return saved

    def _read(self, path: Path) -> Checkpoint:
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in self.checkpoints.glob("*.safetensors"))) or "none"
            raise CheckpointError(f"{self.folder} has no checkpoint {path.stem!r}; it has: {known}")
        return load_checkpoint(path)

    def evaluate(self, episodes: int | None = None, seed: int | None = None) -> Evaluation:
        """Whole episodes under the policy's best actions, in an environment of their own, as torch was in training."""
        c = self.config
        count = whole_number("episodes", c.eval_episodes if episodes is None else episodes, 1)
        env = make(
            c.task, num_envs=min(count, 128), device=self.device, variant=c.variant,
            seed=self.eval_seed if seed is None else seed,
        )  # fmt: skip
        with torch_settings(c, self.device):
            return evaluate(env, self.algo.act, count)

    def keep(self, evaluation: Evaluation) -> Path:
        """Write down what the policy of the last checkpoint is worth, from the run's own evaluation seed."""
        numbers = read_numbers(self.checkpoints / "last.safetensors")
        about = {"checkpoint": "last", "iteration": int(numbers["iteration"]), "env_steps": int(numbers["env_steps"]),
                 "seed": self.eval_seed}  # fmt: skip
        path = self.folder / "evaluation.json"
        write_json(path, evaluation.summary() | about)
        return path


def start(config: RunConfig, ranks: Ranks = ALONE) -> Run:
    """A new run: makes its folder and writes down what it is made from."""
    ranks.portion(config.num_envs)
    return Run(*ranks.ask(lambda: _begun(config, ranks)), ranks)


def _begun(config: RunConfig, ranks: Ranks) -> tuple[Path, RunConfig]:
    """Its folder, and its settings with the folder's name."""
    check(config, ranks)  # what cannot be made leaves no folder behind
    about = manifest(config.seed, chosen_device(config.device, ranks)) | {"ranks": ranks.size}
    folder = new_folder(Path(config.out) / (config.name or f"{config.task}-{config.algo}-s{config.seed}"))
    config = replace(config, name=folder.name)
    try:
        write_json(folder / "manifest.json", about)
        write_json(folder / "config.json", to_dict(config))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # made a moment ago, and of no use
        raise
    return folder, config


def open_run(folder: str | os.PathLike[str], ranks: Ranks = ALONE, device: str | None = None) -> Run:
    """The run of a folder; on its own device, or on another one, where chance goes on differently."""
    place = Path(folder)
    config = ranks.ask(lambda: _config(place))
    return Run(place, config if device is None else replace(config, device=device), ranks)


def _config(place: Path) -> RunConfig:
    path = place / "config.json"
    if not path.is_file():
        raise InputError(f"{place} is no run: {what_is_wrong(place)}")
    try:
        return from_dict(RunConfig, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read by this version: {error}") from error


def set_length(run: Run, iterations: int | None = None, env_steps: int | None = None) -> Run:
    """The same run with another length, in iterations or in environment steps, written down in its config.json.

    Learning rates fall over the run: in one that is made longer they are higher from here on than they would have been,
    and one that was complete rises from the lowest rate again. Its past is as it was; it is not what a run of that
    length would have been from the start.
    """
    if (iterations is None) == (env_steps is None):
        raise InputError("a run's length is a number of iterations or of env_steps; give one of them")
    return Run(run.folder, run.ranks.ask(lambda: _lengthened(run, iterations, env_steps)), run.ranks)


def _lengthened(run: Run, iterations: int | None, env_steps: int | None) -> RunConfig:
    with alone(run.folder):
        config = replace(
            run.config, iterations=run.config.iterations if iterations is None else iterations, env_steps=env_steps
        )
        unit, length = config.length
        last = run.checkpoints / "last.safetensors"
        done = int(read_numbers(last)[unit]) if last.exists() else 0
        if length < done:
            raise InputError(
                f"{run.folder} has done {done} {unit.removesuffix('s')}s; its length must be at least that, got "
                f"{length}: what was learnt is not taken back"
            )
        write_json(run.folder / "config.json", to_dict(config))
    return config
