"""The only training loop: iterate, log, save, until the run is complete or interrupted.

Nothing is lost on a crash: the state after every completed iteration is kept in memory, and written when something
goes wrong in the next one. Of several ranks all do the same here; the first alone shows and writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import torch

from ahac.algos.algorithm import IterationResult
from ahac.core.errors import AhacError, InputError
from ahac.rl.nonfinite import NonFiniteReport
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
from ahac.training.sinks import Display, Sink, TensorBoardSink

__all__ = ["TrainingError", "finish", "train"]

logger = logging.getLogger("ahac")

MAX_CONSECUTIVE_FAILURES = 10
"""Iterations in a row that may learn nothing before training stops."""
MAX_SAVED_FAILURES = 20
"""Reproducers that a run keeps, the latest ones."""
SMALL_STATE_BYTES = 2**27
"""Bytes of state of which a copy is taken after every iteration. A heavier run goes back to a checkpoint on a crash."""


class TrainingError(AhacError, RuntimeError):
    """A training run that cannot go on."""


def train(run: Run, iterations: int | None = None, display: bool = True) -> bool:
    """Train from the last checkpoint on, or from the start; whether the run is complete.

    Args:
        run: The run.
        iterations: Stop after this iteration of the run's; by default at its end.
        display: Whether progress is shown.
    """
    with _locked(run):
        return _train_until(run, iterations, display)


def finish(run: Run, display: bool = True) -> Evaluation | None:
    """Train to the end, and keep what the policy is worth; None where an end was asked for before.

    Of several ranks the first evaluates; the others have done their part, and get None.
    """
    with _locked(run):
        if not _train_until(run, None, display) or not run.ranks.is_main:
            return None
        found = run.evaluate()
        run.save_evaluation(found, load_checkpoint(run.path_of(LAST)))
        return found


@contextmanager
def _locked(run: Run) -> Iterator[None]:
    """Hold the run's folder, for all ranks or for none."""
    with ExitStack() as stack:

        def hold() -> None:
            stack.enter_context(exclusive_lock(run.folder))
            run.repair()

        run.ranks.run_on_rank_zero(hold)
        yield


def _train_until(run: Run, iterations: int | None, display: bool) -> bool:
    """Train in a folder that is held."""
    shows = display and run.ranks.is_main
    with torch_settings(run.config, run.device), pin_rank(run.ranks, run.device), catch_signals() as stop:
        with _Loop(run, stop) as loop, Display(run.config.length, loop.done) if shows else nullcontext() as shown:
            while loop.progress < 1.0 and (iterations is None or loop.iteration < iterations):
                if bool(run.ranks.any(torch.tensor(stop.requested))):  # of one rank: all end after the same iteration
                    break
                row = loop.advance()
                stop.can_wait = True
                if shown is not None:
                    shown.write(row)
        return loop.progress >= 1.0


class _Loop(AbstractContextManager["_Loop"]):
    """A run in progress; however it ends, its last completed iteration is saved and its sinks are closed."""

    def __init__(self, run: Run, stop: StopRequest) -> None:
        self.run = run
        self.stop = stop
        self.episodes = EpisodeStats()
        self.best = float("-inf")
        self.pending: list[str] = []
        """Checkpoints of the last completed iteration that are still to be written."""
        self.iteration = self.env_steps = self.failures = 0
        self.started_at = 0.0
        self.clock = Stopwatch()
        self.table: CsvLog | None = None
        self.sinks: list[Sink] = []
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
            run.save(LAST, self._state())  # from now on, a run without it has lost it
        self.first = self.iteration
        if run.ranks.is_main:
            self.table = CsvLog(run.folder / "metrics.csv", self.iteration, checksum)
            purge_after = self.env_steps + 1 if self.env_steps else None
            self.sinks = [self.table, TensorBoardSink(run.folder / "tensorboard", purge_after)]
        self.completed: Checkpoint | None = self._state()

    def _restore(self, saved: Checkpoint) -> None:
        """Resume from the counters of a checkpoint."""
        self.iteration = saved.count("iteration")
        self.env_steps = saved.count("env_steps")
        self.best = saved.numbers["best"]
        # Checkpoints of earlier versions have no failures and no compile_seconds.
        self.failures = int(saved.numbers.get("failures", 0))
        self.clock = Stopwatch(saved.number("seconds"), saved.numbers.get("compile_seconds", 0.0))
        self.episodes.load_state_dict(saved.section("trainer"))

    @property
    def done(self) -> int:
        """How far it is, in what the run's length is counted in."""
        return self.iteration if self.run.config.env_steps is None else self.env_steps

    @property
    def progress(self) -> float:
        """From 0 to 1 over the run; the last iteration may go past its end."""
        return self.done / self.run.config.length[1]

    def advance(self) -> dict[str, float]:
        """One iteration, its numbers written."""
        before = self.clock.seconds
        self.started_at = self.progress
        report = self.run.executor.call(self.run.algo.iterate, self.run.env, self.started_at)
        self.iteration += 1
        self.env_steps += report.env_steps
        trouble = self._handle_failure(report)
        self.episodes.update(report.steps, self.run.ranks)
        seconds = self.clock.seconds
        row = {
            "iteration": float(self.iteration),
            "env_steps": float(self.env_steps),
            "seconds": seconds,
            "compile_seconds": self.clock.compile_seconds,
            "steps_per_second": report.env_steps / max(seconds - before, 1e-9),
            **self.episodes.metrics(),
            **report.metrics,
            **{f"seconds_{part}": spent for part, spent in report.seconds.items()},
            **trouble,
        }
        with self.stop.uninterrupted():
            for sink in self.sinks:
                sink.write(row)
            self._checkpoint(row)
        return row

    def _handle_failure(self, report: IterationResult) -> dict[str, float]:
        """Say what went wrong, keep enough to see it again, and give up when it does not end."""
        if report.failure is None:
            self.failures = 0
            return {}
        self.failures += 1
        path = self.run.folder / "failures" / f"iteration-{self.iteration:06d}.safetensors"
        if self.run.ranks.is_main:
            self._dump_reproducer(report.failure, path)
        logger.warning("iteration %d learnt nothing: %s (%s)", self.iteration, report.failure.message, path)
        if self.failures >= MAX_CONSECUTIVE_FAILURES:
            raise TrainingError(
                f"{self.failures} iterations in a row learnt nothing: {report.failure.message}. A shorter horizon, lower "
                f"algorithm.actor.learning_rate, softer contact or more substeps may help; the last ones are in {path.parent}"
            )
        return {"failures": float(self.failures)}

    def _dump_reproducer(self, trouble: NonFiniteReport, path: Path) -> None:
        """Where the iteration began and what it did."""
        start = {} if self.completed is None else self.completed.tensors
        numbers = {"iteration": float(self.iteration), "progress": self.started_at}
        settings = {} if self.completed is None else self.completed.settings
        save_checkpoint(path, Checkpoint({**start, **trouble.reproducer}, numbers, settings))
        for old in sorted(path.parent.glob("iteration-*.safetensors"))[:-MAX_SAVED_FAILURES]:
            old.unlink()

    def _checkpoint(self, row: dict[str, float]) -> None:
        """Remember where it stands, and save it when it is time to."""
        due = self.iteration % self.run.config.checkpoint_every == 0
        score = row.get("episode_return", float("-inf"))
        better = due and score > self.best
        self.best = score if better else self.best
        light = self.completed is not None and _size(self.completed) <= SMALL_STATE_BYTES
        self.completed = self._state() if light or due else None
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
            try:
                self._save(self.completed or self._state())
            finally:
                self._close()
            return
        for what, act in (
            ("saving the last completed iteration", self._save_last_good),
            ("closing the tables", self._close),
        ):
            try:
                act()
            except Exception as second:  # whatever it is, the first error is the one to be seen
                error.add_note(f"{what} failed, too: {second!r}")
                logger.error("%s failed, too: %s", what, second)

    def _save_last_good(self) -> None:
        """Save the last completed iteration; the one in progress may have changed anything."""
        if self.completed is not None and self.completed.numbers["iteration"] > self.first:
            path = self._save(self.completed)
            logger.warning("iteration %d is saved in %s", int(self.completed.numbers["iteration"]), path)

    def _save(self, state: Checkpoint) -> Path:
        """Write the last checkpoint, after the rows of the table and the other checkpoints that belong to it.

        A crash before the last one leaves the previous: resuming from there writes whatever is missing.
        """
        with self.stop.uninterrupted():
            if self.table is not None:
                self.table.sync()
            while self.pending:
                self.run.save(self.pending[0], state)
                self.pending.pop(0)
            return self.run.save(LAST, state)

    def _close(self) -> None:
        for sink in self.sinks:
            sink.close()


def _check_not_started(run: Run) -> None:
    """A run that has trained before never starts from zero by itself."""
    names, table = run.checkpoint_names(), run.folder / "metrics.csv"
    rows = len(read_csv(table)) if table.is_file() else 0
    if not names and not rows:
        return
    there = ", ".join(names) or "no other checkpoint"
    remedy = (
        f"resume from one of them with `ahac resume {run.folder} --checkpoint {newest_first(names)[0]}`"
        if names
        else f"remove {table} to start from the beginning"
    )
    raise CheckpointError(
        f"{run.folder} has no checkpoint {LAST!r}, but it has trained before: it has {there} and {rows} rows in "
        f"metrics.csv; {remedy}"
    )


def _size(state: Checkpoint) -> int:
    """Bytes of its tensors."""
    return sum(x.numel() * x.element_size() for x in state.tensors.values())
