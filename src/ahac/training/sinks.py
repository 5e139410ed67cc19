"""Where numbers go: a CSV table, TensorBoard, the terminal; all on one axis, environment steps."""

from __future__ import annotations

import csv
import logging
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

__all__ = ["CsvSink", "Display", "Sink", "TensorBoardSink"]

logger = logging.getLogger("ahac")

SHOWN = {
    "episode_return": "return", "episode_length": "length", "horizon": "horizon", "stiffness": "stiffness",
    "critic_loss": "critic loss", "critic_passes": "critic passes", "actor_grad_norm": "gradient norm", "esnr": "ESNR",
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


class CsvSink:
    """metrics.csv: one row per iteration. New columns may come later, and rows after a point may be dropped."""

    def __init__(self, path: Path, keep_until: int = 0) -> None:
        """Append to the table of `path`, of which rows beyond iteration `keep_until` are taken back."""
        self.path = path
        self.rows = [row for row in read_csv(path) if row["iteration"] <= keep_until] if path.exists() else []
        self.columns = list(dict.fromkeys(name for row in self.rows for name in row))
        self._rewrite()

    def write(self, row: Mapping[str, float]) -> None:
        """Append, and start the table anew where a column is new."""
        self.rows.append(dict(row))
        if new := [name for name in row if name not in self.columns]:
            self.columns += new
            self._rewrite()
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    def close(self) -> None:
        """Every row is written already."""

    def _rewrite(self) -> None:
        with self.path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(self.rows)


def read_csv(path: Path) -> list[dict[str, float]]:
    """Rows of a table of numbers; empty cells are left out."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)]


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

    def __init__(self, total: int, first: int = 0, every: int = 20) -> None:
        self.console = Console(file=sys.stderr)
        self.every, self.total = every, total
        columns = (BarColumn(None), MofNCompleteColumn(), TextColumn("iterations"), TimeRemainingColumn())
        self.progress = Progress(*columns, console=self.console)
        self.bar = self.progress.add_task("training", total=total, completed=first)
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
        done = int(row["iteration"])
        if self.live is None:
            if done % self.every == 0 or done in (1, self.total):
                self.console.print(_line(row, self.total), highlight=False, soft_wrap=True)
            return
        self.progress.update(self.bar, completed=done)
        table = Table.grid(padding=(0, 2))
        table.add_row("environment steps", f"{int(row['env_steps']):,}")
        for name, title in SHOWN.items():
            if name in row:
                table.add_row(title, f"{row[name]:,.3g}" if abs(row[name]) < 1000 else f"{row[name]:,.0f}")
        table.add_row(self.progress)
        self.live.update(table)

    def close(self) -> None:
        """Nothing to do."""


def _line(row: Mapping[str, float], total: int) -> str:
    shown = [f"{title} {row[name]:.4g}" for name, title in SHOWN.items() if name in row]
    return f"{int(row['iteration'])}/{total}  {int(row['env_steps'])} steps  {row['seconds']:.0f} s  " + "  ".join(
        shown
    )
