"""Live table of the runs of a sweep."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.outcomes import print_event
from ahac.core.live_display import LiveDisplay
from ahac.core.text import printable

if TYPE_CHECKING:
    from rich.table import Table

    from ahac.experiments.sweep import RunState
    from ahac.training.config import RunConfig

__all__ = ["SweepDisplay", "last_row"]

REFRESH_INTERVAL = 1.0
"""Time between two refreshes of the table [s]."""
TAIL_BYTES = 8192
"""More than a row of metrics.csv."""
OTHER_LINES = 5
"""Lines of the terminal that are not rows: title, header, what is left out, and margin."""
NOT_IN_TABLE = (" failed: ", " is in use: ")
"""Parts of events that the table does not show in full: failures, retries and runs in use."""
ORDER = ("running", "in use", "failed", "waiting", "stopped", "finished", "complete")
"""Which rows come first if not all fit."""
COLUMNS = ("run", "state", "progress", "return", "seconds", "steps/s")


class SweepDisplay(LiveDisplay):
    """Shows a table of all runs on a terminal, refreshed every second; one line per event on other streams.

    Above the table are events that say more than its states.

    Pass `on_event` and `on_progress` to `ahac.experiments.sweep.sweep`.
    """

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        super().__init__()
        self.configs = configs
        self._next = 0.0
        self._states: Mapping[str, RunState] = {}

    def draw_last(self) -> None:
        """Show the last states."""
        if self.live is not None and self._states:
            self.live.update(self.table(self._states))

    def on_event(self, line: str) -> None:
        """Print an event; on a terminal only if the table does not show all of it."""
        if self.live is None:
            print_event(line)
        elif any(words in line for words in NOT_IN_TABLE):
            with self.drawing():
                self.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def on_progress(self, states: Mapping[str, RunState]) -> None:
        """Refresh the table, at most once per interval; if the terminal is closed, the sweep continues without it."""
        self._states = states
        if self.live is None or time.monotonic() < self._next:
            return
        with self.drawing():
            self.live.update(self.table(states), refresh=True)
        self._next = time.monotonic() + REFRESH_INTERVAL

    def table(self, states: Mapping[str, RunState]) -> Table:
        """Return the table; if it does not fit the terminal, the runs that train come first."""
        from rich.table import Table

        table = Table(title=_counts(states.values()), title_justify="left", box=None, padding=(0, 2, 0, 0))
        for k, title in enumerate(COLUMNS):
            table.add_column(title, justify="left" if k < 2 else "right", no_wrap=True)
        configs = sorted(self.configs, key=lambda config: ORDER.index(states[config.name]))
        most = max(1, self.console.height - OTHER_LINES)
        for config in configs[:most]:
            table.add_row(*_cells(config, states[config.name]))
        if left_out := configs[most:]:
            table.add_row(f"... {len(left_out)} more: {_counts(states[config.name] for config in left_out)}")
        return table


def last_row(path: Path) -> dict[str, float]:
    """Return the last complete row of a metrics.csv, of which only the first line and the end are read.

    Empty cells are left out. The row is empty if there is none yet, or the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            header = file.readline().decode().strip().split(",")
            start = file.tell()
            file.seek(max(start, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().decode().split("\n")[:-1]  # the last line may be incomplete
        (cells,) = csv.reader(lines[-1:])
        return {name: float(cell) for name, cell in zip(header, cells, strict=True) if cell}
    except (OSError, ValueError):  # not written yet, or being written
        return {}


def _cells(config: RunConfig, state: RunState) -> tuple[str, ...]:
    row = {} if state == "waiting" else last_row(Path(config.out) / config.name / "metrics.csv")
    unit, length = config.length
    progress = f"{row.get(unit, 0):,.0f}/{length:,}"
    shown = "starting" if state == "running" and not row else state
    numbers = (_number(row, name) for name in ("episode_return", "seconds", "steps_per_second"))
    return (printable(config.name), shown, progress, *numbers)


def _number(row: Mapping[str, float], name: str) -> str:
    if name not in row:
        return "-"
    return f"{row[name]:,.1f}" if name == "episode_return" else f"{row[name]:,.0f}"


def _counts(states: Iterable[str]) -> str:
    counts = Counter(states)
    return ", ".join(f"{counts[state]} {state}" for state in ORDER if counts[state])
