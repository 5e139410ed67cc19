"""Where numbers go besides the table (`table.py`): TensorBoard and the terminal, against environment steps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.utils.tensorboard.writer import SummaryWriter

__all__ = ["Display", "Sink", "TensorBoardSink"]

SHOWN = {
    "episode_return": "return", "episode_length": "length", "horizon": "horizon", "stiffness": "stiffness",
    "critic_loss": "critic loss", "critic_passes": "critic passes", "actor_grad_norm": "gradient norm", "esnr": "ESNR",
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
    """TensorBoard events; `tensorboard --logdir runs` shows them."""

    def __init__(self, folder: Path, purge_after: int | None = None) -> None:
        self.writer = SummaryWriter(str(folder), purge_step=purge_after)

    def write(self, row: Mapping[str, float]) -> None:
        """All numbers, against environment steps."""
        for name, value in row.items():
            self.writer.add_scalar(name, value, int(row["env_steps"]))

    def close(self) -> None:
        """Flush what is left."""
        self.writer.close()


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
            self.live.__exit__(kind, error, trace)

    def write(self, row: Mapping[str, float]) -> None:
        """Show an iteration."""
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
