"""Training loop: iterate, log and save until the run is complete or interrupted.

A crash loses no completed iteration: the state after each one is kept in memory and written if the next one, or a
callback, fails. All ranks run the same loop; only rank 0 writes and calls callbacks, such as the display.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ahac.algos.algorithm import IterationResult
from ahac.core.errors import AhacError, InputError
from ahac.core.files import read_json, set_aside
from ahac.rl.nonfinite import NonFiniteReport
from ahac.training.callbacks import Callback, CallbackLike, CallbackList
from ahac.training.checkpoint import (
    LAST,
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    newest_first,
    save_checkpoint,
)
from ahac.training.csv_log import CsvLog, read_csv
from ahac.training.evaluate import Evaluation
from ahac.training.metrics import EpisodeStats, Stopwatch
from ahac.training.process import StopRequest, catch_signals, exclusive_lock, pin_rank, torch_settings
from ahac.training.run import Run
from ahac.training.sinks import Display, TensorBoardSink

__all__ = ["TrainingError", "finish", "train"]

logger = logging.getLogger("ahac")

MAX_CONSECUTIVE_FAILURES = 10
"""Number of consecutive skipped updates after which training stops."""
MAX_SAVED_FAILURES = 20
"""Number of reproducers that a run keeps; older ones are removed."""
RESERVED = frozenset({"iteration", "env_steps", "seconds", "compile_seconds", "steps_per_second"})
"""Columns of metrics.csv that the trainer writes."""
SMALL_STATE_BYTES = 2**27
"""Maximum state size in bytes for a copy after every iteration. After a crash, larger runs resume from a checkpoint."""


class TrainingError(AhacError, RuntimeError):
    """Training cannot continue."""


def train(
    run: Run, iterations: int | None = None, display: bool = True, callbacks: Iterable[CallbackLike] = ()
) -> bool:
    """Train from the last checkpoint, or from the start if there is none; return whether the run is complete.

    Args:
        run: Run to train.
        iterations: Stop after this iteration of the run; by default at its end.
        display: Whether to show progress.
        callbacks: What rank 0 calls at the start, after each iteration and at the end.
    """
    with _locked(run), CallbackList(run, callbacks) as called:
        return _train_until(run, iterations, display, called)


def finish(run: Run, display: bool = True, callbacks: Iterable[CallbackLike] = ()) -> Evaluation | None:
    """Train to the end, evaluate the policy and write evaluation.json; return None if training was stopped early.

    Only rank 0 evaluates; other ranks return None.
    """
    with _locked(run), CallbackList(run, callbacks) as called:
        if not _train_until(run, None, display, called) or not run.ranks.is_main:
            return None
        evaluation = run.evaluate()
        run.save_evaluation(evaluation, load_checkpoint(run.path_of(LAST)))
        called.on_evaluation(evaluation)
        return evaluation


@contextmanager
def _locked(run: Run) -> Generator[None, None, None]:
    """Lock and repair the run folder on rank 0; if that fails, raise on all ranks."""
    with ExitStack() as stack:

        def lock() -> None:
            run.check_trainable()
            stack.enter_context(exclusive_lock(run.folder))
            run.repair()

        run.ranks.run_on_rank_zero(lock)
        yield


def _train_until(run: Run, iterations: int | None, display: bool, called: CallbackList) -> bool:
    """Train in a locked folder."""
    with torch_settings(run.config, run.device), pin_rank(run.ranks, run.device), catch_signals() as stop:
        with _Loop(run, stop) as loop:
            called.start(loop.callbacks(display))
            while loop.progress < 1.0 and (iterations is None or loop.iteration < iterations):
                if bool(run.ranks.any(torch.tensor(stop.requested))):  # all ranks stop after the same iteration
                    break
                row = loop.advance()
                stop.can_wait = True
                if not called.on_iteration(row):
                    stop.requested = True
        return loop.progress >= 1.0


class _Loop(AbstractContextManager["_Loop"]):
    """State of a run in progress. On exit, even after an error, saves the last completed iteration."""

    def __init__(self, run: Run, stop: StopRequest) -> None:
        self.run = run
        self.stop = stop
        self.episodes = EpisodeStats()
        self.best = float("-inf")
        self.pending: list[str] = []
        """Names of checkpoints of the last completed iteration that are not yet written."""
        self.iteration = self.env_steps = self.failures = 0
        self.started_at = 0.0
        self.clock = Stopwatch()
        self.table: CsvLog | None = None
        self.iterating = False
        """Whether an iteration has begun but is not complete."""
        checksum = ""
        if run.ranks.run_on_rank_zero(run.path_of(LAST).is_file):
            saved = run.restore(LAST)
            checksum = saved.table
            try:
                self._restore(saved)
            except InputError as error:
                raise CheckpointError(f"{run.path_of(LAST)} is damaged: {error}") from error
        else:
            run.ranks.run_on_rank_zero(lambda: _check_not_started(run))
            run.save(LAST, self._state())  # from now on, a missing last checkpoint means it was lost
        self.first = self.iteration
        if run.ranks.is_main:
            self.table = CsvLog(run.folder / "metrics.csv", self.iteration, checksum)
            _discard_later_evaluation(run.folder / "evaluation.json", self.iteration)
        self.completed: Checkpoint | None = self._state()

    def _restore(self, saved: Checkpoint) -> None:
        """Load the counters and episode statistics of a checkpoint."""
        self.iteration = saved.count("iteration")
        self.env_steps = saved.count("env_steps")
        self.best = saved.numbers["best"]
        # Checkpoints of earlier versions lack failures and compile_seconds.
        self.failures = int(saved.numbers.get("failures", 0))
        self.clock = Stopwatch(saved.number("seconds"), saved.numbers.get("compile_seconds", 0.0))
        self.episodes.load_state_dict(saved.section("trainer"))

    def callbacks(self, display: bool) -> list[Callback]:
        """Return the callbacks of every run: TensorBoard and, with `display`, progress on the terminal."""
        if not self.run.ranks.is_main:
            return []
        purge_after = self.env_steps + 1 if self.env_steps else None
        board = TensorBoardSink(self.run.folder / "tensorboard", purge_after)
        return [board, Display(self.run.config.length, self.done)] if display else [board]

    @property
    def done(self) -> int:
        """Completed iterations or environment steps, in the unit of the run's length."""
        return self.iteration if self.run.config.env_steps is None else self.env_steps

    @property
    def progress(self) -> float:
        """Completed fraction of the run; the last iteration may exceed 1."""
        return self.done / self.run.config.length[1]

    def advance(self) -> dict[str, float]:
        """Run one iteration, write its metrics and return them."""
        before = self.clock.seconds
        self.iterating = True
        self.started_at = self.progress
        result = self.run.executor.call(self.run.algo.iterate, self.run.env, self.started_at)
        self.iteration += 1
        self.env_steps += result.env_steps
        failure_metrics = self._handle_failure(result)
        self.episodes.update(result.steps, self.run.ranks)
        seconds = self.clock.seconds
        row = {
            "iteration": float(self.iteration),
            "env_steps": float(self.env_steps),
            "seconds": seconds,
            "compile_seconds": self.clock.compile_seconds,
            "steps_per_second": result.env_steps / max(seconds - before, 1e-9),
            **self.episodes.metrics(),
            **_checked(result.metrics),
            **{f"seconds_{part}": spent for part, spent in result.seconds.items()},
            **failure_metrics,
        }
        with self.stop.uninterrupted():
            if self.table is not None:
                self.table.write(row)
            self._checkpoint(row)
            self.iterating = False
        return row

    def _handle_failure(self, result: IterationResult) -> dict[str, float]:
        """Log a skipped update and save a reproducer; raise a TrainingError after too many in a row."""
        if result.failure is None:
            self.failures = 0
            return {}
        self.failures += 1
        path = self.run.folder / "failures" / f"iteration-{self.iteration:06d}.safetensors"
        if self.run.ranks.is_main:
            self._dump_reproducer(result.failure, path)
        logger.warning("iteration %d skipped the update: %s (%s)", self.iteration, result.failure.message, path)
        if self.failures >= MAX_CONSECUTIVE_FAILURES:
            raise TrainingError(
                f"{self.failures} iterations in a row skipped the update: {result.failure.message}. A shorter horizon, "
                "lower algorithm.actor.learning_rate, softer contact or more substeps may help; reproducers of the "
                f"latest failures are in {path.parent}"
            )
        return {"failures": float(self.failures)}

    def _dump_reproducer(self, failure: NonFiniteReport, path: Path) -> None:
        """Save the state before the failed iteration and its reproducer tensors."""
        start: Mapping[str, torch.Tensor] = {} if self.completed is None else self.completed.tensors
        numbers = {"iteration": float(self.iteration), "progress": self.started_at}
        settings: Mapping[str, Any] = {} if self.completed is None else self.completed.settings
        save_checkpoint(path, Checkpoint({**start, **failure.reproducer}, numbers, settings))
        for old in sorted(path.parent.glob("iteration-*.safetensors"))[:-MAX_SAVED_FAILURES]:
            old.unlink()

    def _checkpoint(self, row: dict[str, float]) -> None:
        """Keep a copy of the state in memory, and write checkpoints if they are due."""
        due = self.iteration % self.run.config.checkpoint_every == 0
        score = row.get("episode_return", float("-inf"))
        better = due and score > self.best
        self.best = score if better else self.best
        small = self.completed is not None and _size(self.completed) <= SMALL_STATE_BYTES
        self.completed = self._state() if small or due else None
        self.pending = []
        if due and self.completed is not None:
            self.pending = [*(["best"] if better else []), f"iteration-{self.iteration:06d}"]
            self._save(self.completed)

    def _state(self) -> Checkpoint:
        numbers = {
            "iteration": float(self.iteration),
            "env_steps": float(self.env_steps),
            "seconds": self.clock.seconds,
            "compile_seconds": self.clock.compile_seconds,
            "best": self.best,
            "failures": float(self.failures),
        }
        table = "" if self.table is None else self.table.checksum
        return replace(self.run.snapshot(numbers, self.episodes.state_dict()), table=table)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._save(self.completed or self._state())
            return
        try:
            self._save_last_good()
        except Exception as second:  # do not hide the first error
            error.add_note(f"saving the last completed iteration also failed: {second!r}")
            logger.error("saving the last completed iteration also failed: %s", second)

    def _save_last_good(self) -> None:
        """Save the last completed iteration; the state during an iteration may be inconsistent."""
        state = self.completed or (None if self.iterating else self._state())
        if state is not None and state.numbers["iteration"] > self.first:
            path = self._save(state)
            logger.warning("saved iteration %d in %s", int(state.numbers["iteration"]), path)

    def _save(self, state: Checkpoint) -> Path:
        """Write the last checkpoint, after the rows of metrics.csv and the other checkpoints of this iteration.

        After a crash in between, the previous last checkpoint remains; resuming from it rewrites what is missing.
        """
        with self.stop.uninterrupted():
            if self.table is not None:
                self.table.sync()
            while self.pending:
                self.run.save(self.pending[0], state)
                self.pending.pop(0)
            return self.run.save(LAST, state)


def _checked(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of an algorithm as floats; raise a TrainingError for names that metrics.csv cannot have."""
    for name in metrics:
        if name in RESERVED or not name.isprintable() or "," in name or '"' in name:
            raise TrainingError(
                f"the algorithm returned a metric named {name!r}, which metrics.csv cannot have; names must not have "
                f"commas or quotes, and must not be one of {', '.join(sorted(RESERVED))}"
            )
    return {name: float(value) for name, value in metrics.items()}


def _discard_later_evaluation(path: Path, iteration: int) -> None:
    """Rename evaluation.json if it is of a later iteration than the last checkpoint; requires the folder lock."""
    try:
        evaluated = read_json(path)["iteration"] if path.is_file() else 0
    except (InputError, KeyError):  # it is damaged, as those who read it report
        return
    if isinstance(evaluated, int) and evaluated > iteration:
        kept = set_aside(path, "replaced", copy=False).name
        logger.warning("%s is of iteration %d, the last checkpoint of %d; kept as %s", path, evaluated, iteration, kept)


def _check_not_started(run: Run) -> None:
    """Raise a CheckpointError if a run without a last checkpoint has trained before, rather than start over."""
    names = run.checkpoint_names()
    table = run.folder / "metrics.csv"
    rows = len(read_csv(table)) if table.is_file() else 0
    if not names and not rows:
        return
    others = ", ".join(names) or "no other checkpoint"
    remedy = (
        f"resume from one of them with `ahac resume {run.folder} --checkpoint {newest_first(names)[0]}`"
        if names
        else f"remove {table} to start from the beginning"
    )
    raise CheckpointError(
        f"{run.folder} has no checkpoint {LAST!r}, but it has trained before: it has {others} and {rows} rows in "
        f"metrics.csv; {remedy}"
    )


def _size(state: Checkpoint) -> int:
    """Return the size of the tensors in bytes."""
    return sum(x.numel() * x.element_size() for x in state.tensors.values())
