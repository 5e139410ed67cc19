"""Callbacks of every run: TensorBoard and the terminal. metrics.csv, which checkpoints rely on, is `csv_log.CsvLog`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tensorboard.compat.proto import event_pb2, summary_pb2  # pyright: ignore[reportMissingTypeStubs]
from tensorboard.summary.writer.record_writer import RecordWriter  # pyright: ignore[reportMissingTypeStubs]

from ahac.core.files import explain_write_errors
from ahac.core.live_display import LiveDisplay
from ahac.training.callbacks import Callback

if TYPE_CHECKING:
    from ahac.training.run import Run

__all__ = ["TAGS", "Display", "TensorBoardSink", "tag_of", "tagged"]

events: Any = event_pb2
summaries: Any = summary_pb2

SHOWN = {
    "episode_return": "return", "episode_length": "length", "horizon": "horizon", "stiffness": "stiffness",
    "critic_loss": "critic loss", "critic_epochs": "critic epochs", "actor_grad_norm": "gradient norm", "esnr": "ESNR",
    "kl": "KL", "entropy": "entropy", "temperature": "temperature", "model_error_last": "model error",
    "steps_per_second": "steps/s",
}  # fmt: skip
"""Metrics shown in the terminal, with their labels."""


TAGS = {
    # Progress and speed
    "iteration": "time/iteration", "env_steps": "time/env_steps", "seconds": "time/seconds",
    "compile_seconds": "time/compile_seconds", "steps_per_second": "time/steps_per_second",
    # Episodes and rollouts
    "episode_return": "rollout/episode_return", "episode_length": "rollout/episode_length",
    "horizon": "rollout/horizon", "share_cut": "rollout/share_cut", "share_bundled": "rollout/share_bundled",
    "stiffness": "rollout/stiffness", "stiffness_max": "rollout/stiffness_max", "value": "rollout/value",
    "replay": "rollout/replay",
    # Losses and errors of what is fitted
    "actor_loss": "loss/actor", "critic_loss": "loss/critic", "model_error_first": "loss/model_first",
    "model_error_last": "loss/model_last", "reward_error": "loss/reward",
    # Updates
    "actor_grad_norm": "train/actor_grad_norm", "actor_grad_norm_clipped": "train/actor_grad_norm_clipped",
    "critic_epochs": "train/critic_epochs", "esnr": "train/esnr", "growth": "train/growth", "kl": "train/kl",
    "policy_kl": "train/policy_kl", "analytic_share": "train/analytic_share",
    "share_clipped": "train/share_clipped", "epochs_skipped": "train/epochs_skipped",
    "rate": "train/learning_rate", "entropy": "train/entropy",
    "temperature": "train/temperature", "q": "train/q", "share_beyond": "train/share_beyond",
    "failures": "train/failures",
}  # fmt: skip
"""Tags of metrics in TensorBoard and other loggers: the group before the slash, then the name in it."""


def tag_of(metric: str) -> str:
    """Return the tag of a metric: seconds of a phase are in time/, what is not in the table in train/.

    An algorithm can also name a metric with a group of its own, "group/name".
    """
    if metric in TAGS or "/" in metric:
        return TAGS.get(metric, metric)
    return f"time/{metric}" if metric.startswith("seconds_") else f"train/{metric}"


def tagged(row: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of an iteration by their tags."""
    return {tag_of(name): value for name, value in row.items()}


class TensorBoardSink(Callback):
    """Writes TensorBoard event files; view them with `tensorboard --logdir runs`.

    Events are written synchronously, unlike by TensorBoard's own writer thread, so that write errors reach the trainer.
    """

    def __init__(self, folder: Path, purge_after: int | None = None) -> None:
        """Create an event file in `folder`; TensorBoard hides earlier events from step `purge_after` on."""
        self.path = folder / f"events.out.tfevents.{time.time_ns() / 1e9:.6f}.{socket.gethostname()}.{os.getpid()}"
        with explain_write_errors(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self.writer: Any = RecordWriter(self.path.open("wb"))
        self._add(file_version="brain.Event:2")
        if purge_after is not None:
            session_log = events.SessionLog(status=events.SessionLog.START)
            self._add(step=purge_after, session_log=session_log)

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Write the metrics."""
        self.write(metrics)

    def on_training_end(self, run: Run) -> None:
        """Close the event file."""
        self.close()

    def write(self, row: Mapping[str, float]) -> None:
        """Write all metrics of a row against environment steps."""
        values = [summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in tagged(row).items()]
        self._add(step=int(row["env_steps"]), summary=summaries.Summary(value=values))

    def close(self) -> None:
        """Close the event file."""
        with explain_write_errors(self.path):
            self.writer.close()

    def _add(self, **fields: object) -> None:
        """Write an event with the current time."""
        event = events.Event(wall_time=time.time(), **fields)
        with explain_write_errors(self.path):
            self.writer.write(event.SerializeToString())
            self.writer.flush()


class Display(Callback, LiveDisplay):
    """Shows progress on a terminal; prints plain lines if the output is not a terminal."""

    def __init__(self, length: tuple[str, int], first: int = 0, every: int = 20) -> None:
        """Show a run of `length` (unit, total), of which `first` are done; `every` is the interval of plain lines."""
        LiveDisplay.__init__(self, refresh_per_second=4)
        self.every = every
        self.unit, self.total = length
        unit = {"iteration": "iterations", "env_steps": "environment steps"}[self.unit]
        columns = (BarColumn(None), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
        self.progress = Progress(*columns, console=self.console)
        self.bar = self.progress.add_task("training", total=self.total, completed=first)
        if self.live is not None:
            self.live.update(self.progress)

    def on_training_start(self, run: Run) -> None:
        """Open the display."""
        self.__enter__()

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Show the iteration."""
        self.write(metrics)

    def on_training_end(self, run: Run) -> None:
        """Close the display, so that later output does not overwrite it."""
        self.__exit__(None, None, None)

    def write(self, row: Mapping[str, float]) -> None:
        """Show an iteration; if the terminal is closed, training continues without output."""
        with self.drawing():
            self._show(row)

    def _show(self, row: Mapping[str, float]) -> None:
        done = int(row[self.unit])
        iteration = int(row["iteration"])
        if self.live is None:
            if iteration % self.every == 0 or iteration == 1 or done >= self.total:
                self.console.print(_line(row, self.unit, self.total), highlight=False, soft_wrap=True)
            return
        self.progress.update(self.bar, completed=done)
        table = Table.grid(padding=(0, 2))
        table.add_row("environment steps", f"{int(row['env_steps']):,}")
        for name, title in SHOWN.items():
            if name in row:
                table.add_row(title, f"{row[name]:,.3g}" if abs(row[name]) < 1000 else f"{row[name]:,.0f}")
        table.add_row(self.progress)
        self.live.update(table)


def _line(row: Mapping[str, float], unit: str, total: int) -> str:
    iteration = int(row["iteration"])
    steps = int(row["env_steps"])
    count = f"{iteration}/{total}  {steps} steps" if unit == "iteration" else f"{iteration}  {steps}/{total} steps"
    shown = [f"{title} {row[name]:.4g}" for name, title in SHOWN.items() if name in row]
    return "  ".join([count, f"{row['seconds']:.0f} s", *shown])
