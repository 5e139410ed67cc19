"""Go1 with explicit integration: 32 substeps per control step, the fewest with which its feet are stable."""

from __future__ import annotations

from dataclasses import replace

from ahac.envs import make_task
from ahac.envs.task import Task


def go1_explicit() -> Task:
    """Return Go1 with explicit integration."""
    return replace(make_task("go1"), name="go1_explicit", recipe="go1", integrator="explicit", substeps=32)
