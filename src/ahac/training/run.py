"""A run: its folder, what it was made from, its checkpoints and evaluations.

`start` makes the folder of a new one, `open_run` finds that of an old one; `trainer.train` goes on with either, from
the last checkpoint where there is one.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ahac.algos.first_order import FirstOrder, horizon_rule
from ahac.core.config import from_dict, to_dict
from ahac.core.errors import InputError
from ahac.core.machine import usable_cores
from ahac.envs import VecEnv, make, make_task
from ahac.training.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from ahac.training.config import RunConfig
from ahac.training.evaluate import Evaluation, evaluate

__all__ = ["Run", "open_run", "start"]

logger = logging.getLogger("ahac")

EVAL_SEED = 1_000_003
"""Added to a run's seed: evaluations begin elsewhere than training did."""


class Run:
    """A training run and its folder."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder, self.config = folder, config

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @cached_property
    def device(self) -> torch.device:
        """Where it runs."""
        return torch.device(chosen_device(self.config.device))

    @cached_property
    def env(self) -> VecEnv:
        """The environment that it trains in."""
        c = self.config
        return make(c.task, num_envs=c.num_envs, device=self.device, seed=c.seed, variant=c.variant)

    @cached_property
    def algo(self) -> FirstOrder:
        """What learns."""
        return FirstOrder(self.config.learner, self.env.spec, self.config.seed)

    def save(self, name: str, numbers: dict[str, float], extra: dict[str, torch.Tensor]) -> Path:
        """Write a checkpoint of that name."""
        owners = {"algo": self.algo.state_dict(), "env": self.env.state_dict(), "trainer": extra}
        tensors = {f"{owner}/{key}": value for owner, state in owners.items() for key, value in state.items()}
        path = self.checkpoints / f"{name}.safetensors"
        save_checkpoint(path, Checkpoint(tensors, numbers))
        return path

    def restore(self, name: str = "last", with_env: bool = True) -> Checkpoint:
        """Go back to a checkpoint, by name."""
        path = self.checkpoints / f"{name}.safetensors"
        if not path.is_file():
            known = sorted(p.stem for p in self.checkpoints.glob("*.safetensors"))
            raise CheckpointError(f"{self.folder} has no checkpoint {name!r}; it has: {', '.join(known) or 'none'}")
        saved = load_checkpoint(path)
        try:
            self.algo.load_state_dict(saved.part("algo"))
            if with_env:
                self.env.load_state_dict(saved.part("env"))
        except (RuntimeError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"{path} was made by a run with other settings than {self.folder / 'config.json'}: {error}"
            ) from error
        return saved

    def evaluate(self, episodes: int | None = None, seed: int | None = None) -> Evaluation:
        """Whole episodes under the policy's best actions, in an environment of their own."""
        count = self.config.eval_episodes if episodes is None else episodes
        c = self.config
        env = make(
            c.task, num_envs=min(count, 128), device=self.device, variant=c.variant,
            seed=c.seed + EVAL_SEED if seed is None else seed,
        )  # fmt: skip
        return evaluate(env, self.algo.act, count)


def start(config: RunConfig) -> Run:
    """A new run: makes its folder and writes down what it is made from."""
    # What cannot be made leaves no folder behind.
    make_task(config.task, config.variant)
    chosen_device(config.device)
    horizon_rule(config.learner)
    named = config.name or f"{config.task}-{config.algo}-s{config.seed}"
    folder = _free(Path(config.out) / named)
    folder.mkdir(parents=True)
    config = replace(config, name=folder.name)
    _write_json(folder / "config.json", to_dict(config))
    _write_json(folder / "manifest.json", _manifest(config))
    return Run(folder, config)


def open_run(folder: str | os.PathLike[str]) -> Run:
    """The run of a folder."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} is no run: it has no config.json")
    try:
        config = from_dict(RunConfig, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read by this version: {error}") from error
    return Run(Path(folder), config)


def chosen_device(device: str) -> str:
    """CUDA for "auto", where there is one; a device that is not here is refused."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and device.partition(":")[0] != "cuda":
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch finds no CUDA device here; use cpu or auto")
    return device


def _free(folder: Path) -> Path:
    """This folder, or the first like it that is not there yet."""
    candidates = (folder if k == 1 else folder.with_name(f"{folder.name}-{k}") for k in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _manifest(config: RunConfig) -> dict[str, object]:
    """Versions, hardware, time and git state."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": config.seed,
        "host": platform.node(),
        "platform": platform.platform(),
        "cores": usable_cores(),
        "gpu": gpu,
        "device": chosen_device(config.device),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("ahac", "torch", "warp-lang", "mujoco", "numpy")},
        "git": _git_state(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> dict[str, object] | None:
    """Commit of the source tree that runs, and whether it was changed; None outside of one."""
    here = Path(__file__).parent
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=here, capture_output=True, text=True, check=True, timeout=10).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "changed": bool(changes.strip())}
