"""Where numbers go besides the table (`table.py`): TensorBoard and the terminal, against environment steps."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.record_writer import RecordWriter

from ahac.core.files import explain_write_errors

__all__ = ["Display", "Sink", "TensorBoardSink"]

SHOWN = {
    "episode_return": "return", "episode_length": "length", "horizon": "horizon", "stiffness": "stiffness",
    "critic_loss": "critic loss", "critic_epochs": "critic epochs", "actor_grad_norm": "gradient norm", "esnr": "ESNR",
    "kl": "KL", "entropy": "entropy", "temperature": "temperature", "model_error_last": "model error",
    "steps_per_second": "steps/s",
}  # fmt: skip
"""Numbers that the terminal shows, and what it calls them."""


class Sink(Protocol):
    """Takes the numbers of an iteration."""

    def write(self, row: Mapping[str, float]) -> None:
        """Of one iteration; "iteration", "env_steps" and "seconds" are among them."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class TensorBoardSink:
    """TensorBoard events; `tensorboard --logdir runs` shows them.

    They are written at once, not by a thread as TensorBoard's own writer does: an error reaches whoever trains.
    """

    def __init__(self, folder: Path, purge_after: int | None = None) -> None:
        """Events of an earlier process from step `purge_after` on are hidden."""
        self.path = folder / f"events.out.tfevents.{time.time_ns() / 1e9:.6f}.{socket.gethostname()}.{os.getpid()}"
        with explain_write_errors(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self.writer = RecordWriter(self.path.open("wb"))
        self._add(Event(file_version="brain.Event:2"))
        if purge_after is not None:
            self._add(Event(step=purge_after, session_log=SessionLog(status=SessionLog.START)))

    def write(self, row: Mapping[str, float]) -> None:
        """All numbers, against environment steps."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
        self._add(Event(step=int(row["env_steps"]), summary=Summary(value=values)))

    def close(self) -> None:
        """Nothing more will come."""
        with explain_write_errors(self.path):
            self.writer.close()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        with explain_write_errors(self.path):
            self.writer.write(event.SerializeToString())
            self.writer.flush()


class Display(AbstractContextManager["Display"]):
    """Progress on a terminal; plain lines where there is none."""

    def __init__(self, length: tuple[str, int], first: int = 0, every: int = 20) -> None:
        """Of a run of so many iterations or environment steps, of which the first ones are done."""
        self.console = Console(file=sys.stderr)
        self.every, (self.unit, self.total) = every, length
        unit = {"iteration": "iterations", "env_steps": "environment steps"}[self.unit]
        columns = (BarColumn(None), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
        self.progress = Progress(*columns, console=self.console)
        self.bar = self.progress.add_task("training", total=self.total, completed=first)
        self.live = (
            Live(self.progress, console=self.console, refresh_per_second=4) if self.console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            with suppress(OSError):  # the terminal may be gone
                self.live.__exit__(kind, error, trace)

    def write(self, row: Mapping[str, float]) -> None:
        """Show an iteration; training goes on if the terminal is gone."""
        try:
            self._show(row)
        except OSError:
            self.console.file = StringIO()

    def _show(self, row: Mapping[str, float]) -> None:
        done, iteration = int(row[self.unit]), int(row["iteration"])
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
    iteration, steps = int(row["iteration"]), int(row["env_steps"])
    count = f"{iteration}/{total}  {steps} steps" if unit == "iteration" else f"{iteration}  {steps}/{total} steps"
    shown = [f"{title} {row[name]:.4g}" for name, title in SHOWN.items() if name in row]
    return "  ".join([count, f"{row['seconds']:.0f} s", *shown])
