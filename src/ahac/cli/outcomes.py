"""Lines about the runs of a sweep: events while it runs, and a summary."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.experiments.sweep import Outcome

__all__ = ["print_event", "summary"]

STATES = ("complete", "finished", "stopped", "waiting", "failed")


def print_event(line: str) -> None:
    """Print a line about the progress of a sweep."""
    sys.stderr.write(printable(line) + "\n")


def summary(outcomes: list[Outcome]) -> int:
    """Print the outcomes of a sweep and return the exit status."""
    counts = Counter(outcome.state for outcome in outcomes)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    sys.stdout.write(f"{len(outcomes)} run{'s' * (len(outcomes) != 1)}: {states}\n")
    for outcome in outcomes:
        if outcome.state == "failed":
            sys.stdout.write(printable(f"{outcome} (log: {outcome.log})") + "\n")
    if counts["failed"]:
        return 1
    return 130 if counts["stopped"] or counts["waiting"] else 0
