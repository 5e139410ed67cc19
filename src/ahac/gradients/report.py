"""What a check of gradients found, as records and as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["GradientReport", "GradientRow"]


@dataclass(frozen=True)
class GradientRow:
    """One joint, control, output or contact."""

    name: str
    error: float
    """The largest relative difference between derivative and difference; not a number where nothing was compared."""
    where: str
    """With what, and in which state, the difference is largest."""
    kinks: int
    """Comparisons that were left out because the function has a kink there."""
    touched: int | None = None
    """Of a contact, states in which it touched."""

    def verdict(self, tolerance: float) -> str:
        """ok, WRONG, or not seen where there was nothing to compare."""
        if math.isnan(self.error):
            return "not seen"
        return "ok" if self.error <= tolerance else "WRONG"


@dataclass(frozen=True, eq=False)
class GradientReport:
    """What a check found."""

    name: str
    states: int
    """That were looked at."""
    tolerance: float
    """Largest relative difference that passes."""
    inputs: list[GradientRow]
    """Positions and velocities by joint, and controls."""
    outputs: list[GradientRow]
    """What a step gives: positions, velocities; of a task, parts of observation and reward."""
    contacts: list[GradientRow]
    """Derivatives of contact forces by the state, by shape and plane."""
    errors: np.ndarray
    """[inputs, outputs] the largest relative difference over states; not a number where only kinks were met."""

    @property
    def rows(self) -> list[GradientRow]:
        """All of them."""
        return [*self.inputs, *self.outputs, *self.contacts]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    @property
    def wrong(self) -> list[GradientRow]:
        """What does not agree."""
        return [row for row in self.rows if row.verdict(self.tolerance) == "WRONG"]

    def table(self) -> str:
        """A table for inputs, outputs and contacts each, then the verdict."""
        tables = {"by input": self.inputs, "by output of a step": self.outputs, "by contact": self.contacts}
        lines = [line for title, rows in tables.items() if rows for line in [*self._lines(title, rows), ""]]
        if unseen := [row.name for row in self.rows if row.verdict(self.tolerance) == "not seen"]:
            lines.append(f"not seen in these states: {', '.join(unseen)}")
        told = f"WRONG: {', '.join(row.name for row in self.wrong)}"
        right = f"all derivatives agree with differences to {self.tolerance:g}"
        return "\n".join([*lines, f"{self.name}, {self.states} states: {right if self.passed else told}"])

    def _lines(self, title: str, rows: list[GradientRow]) -> list[str]:
        width = max(len(title), *(len(row.name) for row in rows))
        lines = [f"{title:{width}}  {'error':>8}  {'kinks':>5}  {'verdict':8}  largest with"]
        for row in rows:
            error = "-" if math.isnan(row.error) else f"{row.error:.1e}"
            touched = "" if row.touched is None else f" (touched in {row.touched} states)"
            line = (
                f"{row.name:{width}}  {error:>8}  {row.kinks:>5}  {row.verdict(self.tolerance):8}  {row.where}{touched}"
            )
            lines.append(line.rstrip())
        return lines
