"""The only training loop: iterate, log, save, until the run is complete or interrupted."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ahac.algos.algorithm import Report
from ahac.core.errors import AhacError
from ahac.training.checkpoint import Checkpoint, save_checkpoint
from ahac.training.config import RunConfig
from ahac.training.metrics import Episodes, Stopwatch
from ahac.training.run import Run
from ahac.training.sinks import CsvSink, Display, TensorBoardSink

__all__ = ["TrainingError", "train"]

logger = logging.getLogger("ahac")

MOST_FAILURES = 10
"""Iterations in a row that may learn nothing before training stops."""


class TrainingError(AhacError, RuntimeError):
    """A training run that cannot go on."""


def train(run: Run, iterations: int | None = None, display: bool = True) -> bool:
    """Train from the last checkpoint on, or from the start; whether the run is complete.

    Args:
        run: The run.
        iterations: Stop after this iteration of the run's; by default at its end.
        display: Whether progress is shown.
    """
    config = run.config
    last = config.iterations if iterations is None else min(iterations, config.iterations)
    with _torch_settings(config), _interruptible() as stop:
        loop = _Loop(run)
        with Display(config.iterations, loop.iteration) as shown:
            while loop.iteration < last and not stop.is_set():
                row = loop.advance()
                if display:
                    shown.write(row)
        loop.finish()
    return loop.iteration >= config.iterations


@contextmanager
def _torch_settings(config: RunConfig) -> Iterator[None]:
    """A run's threads and determinism, and those of the program afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(config.torch_threads)
    torch.use_deterministic_algorithms(config.deterministic)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


class _Loop:
    """A run in progress."""

    def __init__(self, run: Run) -> None:
        self.run, self.episodes, self.failures = run, Episodes(), 0
        self.iteration, self.env_steps, self.best, seconds = 0, 0, float("-inf"), 0.0
        if (run.checkpoints / "last.safetensors").exists():
            saved = run.restore("last")
            self.iteration, self.env_steps = int(saved.numbers["iteration"]), int(saved.numbers["env_steps"])
            self.best, seconds = saved.numbers["best"], saved.numbers["seconds"]
            self.episodes.load_state_dict(saved.part("trainer"))
        self.clock = Stopwatch(seconds)
        self.sinks = [
            CsvSink(run.folder / "metrics.csv", keep_until=self.iteration),
            TensorBoardSink(run.folder / "tensorboard", purge_after=self.env_steps + 1 if self.env_steps else None),
        ]

    def advance(self) -> dict[str, float]:
        """One iteration, its numbers written."""
        config = self.run.config
        before = self.clock.seconds
        report = self.run.algo.iterate(self.run.env, self.iteration / config.iterations)
        self.iteration += 1
        self.env_steps += report.env_steps
        self._heed(report)
        self.episodes.note(report.steps)
        seconds = self.clock.seconds
        row = {
            "iteration": float(self.iteration), "env_steps": float(self.env_steps), "seconds": seconds,
            "steps_per_second": report.env_steps / (seconds - before), **self.episodes.values(), **report.values,
        }  # fmt: skip
        for sink in self.sinks:
            sink.write(row)
        self._keep(row)
        return row

    def _heed(self, report: Report) -> None:
        """Say what went wrong, keep enough to see it again, and give up when it does not end."""
        if report.trouble is None:
            self.failures = 0
            return
        self.failures += 1
        path = self.run.folder / "failures" / f"iteration-{self.iteration:06d}.safetensors"
        save_checkpoint(path, Checkpoint(report.trouble.reproducer, {"iteration": float(self.iteration)}))
        logger.warning("iteration %d learnt nothing: %s (%s)", self.iteration, report.trouble.what, path)
        if self.failures >= MOST_FAILURES:
            raise TrainingError(
                f"{self.failures} iterations in a row learnt nothing: {report.trouble.what}. A shorter horizon, lower "
                f"learner.actor.rate, softer contact or more substeps may help; the last ones are in {path.parent}"
            )

    def finish(self) -> None:
        """Save where it stands."""
        self._save("last")
        for sink in self.sinks:
            sink.close()

    def _keep(self, row: dict[str, float]) -> None:
        if self.iteration % self.run.config.checkpoint_every:
            return
        score = row.get("episode_return", float("-inf"))
        if score > self.best:
            self.best = score
            self._save("best")
        self._save("last")
        self._save(f"iteration-{self.iteration:06d}")

    def _save(self, name: str) -> Path:
        numbers = {
            "iteration": float(self.iteration), "env_steps": float(self.env_steps), "seconds": self.clock.seconds,
            "best": self.best,
        }  # fmt: skip
        return self.run.save(name, numbers, self.episodes.state_dict())


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a request to end sets, instead of tearing an iteration apart; a second one does."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        logger.warning("ending after this iteration, with a checkpoint; once more to end at once")
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
