"""Outcomes as a table, as a list of failures with how to repeat them, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from faults.trials import Outcome

__all__ = ["failed", "failures", "table", "write_json"]

HEAD = ("attack", "trials", "failures", "came to")


def failed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with a problem."""
    return [outcome for outcome in outcomes if outcome.problems]


def table(outcomes: Sequence[Outcome]) -> str:
    """A row per attack, in Markdown."""
    rows: list[tuple[str, str, str, str]] = [HEAD]
    for attack in dict.fromkeys(outcome.attack for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.attack == attack]
        rows.append(_row(attack, chosen))
    rows.append(_row("all", outcomes, details=False))
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _row(attack: str, outcomes: Sequence[Outcome], details: bool = True) -> tuple[str, str, str, str]:
    counts = Counter(("FAILED: " if x.problems else "") + x.result for x in outcomes)
    came_to = ", ".join(f"{result} {count}" for result, count in counts.most_common()) if details else ""
    return attack, str(len(outcomes)), str(len(failed(outcomes))), came_to


def failures(outcomes: Sequence[Outcome], out: Path, again: str) -> str:
    """What failed, where its files are, and the command that repeats it."""
    lines = []
    for outcome in failed(outcomes):
        lines += [f"{outcome.name} ({outcome.attack}): {outcome.what}"]
        lines += [f"    {line}" for problem in outcome.problems for line in problem.splitlines()]
        lines += [
            f"    files: {out / outcome.name}",
            f'    again: make faults ARGS="{f"{again} --trial {outcome.name}".strip()}"',
            "",
        ]
    return "\n".join(lines)


def write_json(path: Path, outcomes: Sequence[Outcome], options: Mapping[str, object]) -> None:
    """All outcomes, and what they were asked with."""
    content = {"options": dict(options), "failures": len(failed(outcomes)), "outcomes": [asdict(x) for x in outcomes]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
