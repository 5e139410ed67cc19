"""Figures of the AHAC paper: return at convergence, over ten seeds."""

from __future__ import annotations

__all__ = ["ALGORITHMS", "REFERENCE", "RETURNS"]

REFERENCE = "paper"
"""Name of these figures for `--reference`."""
ALGORITHMS = ("ahac", "shac", "ppo", "sac", "svg")
"""Algorithms in the order of the rows below."""
RETURNS: dict[str, dict[str, float]] = {
    task: dict(zip(ALGORITHMS, returns, strict=True))
    for task, returns in {
        "hopper": (5216.0, 4837.0, 4742.0, 4126.0, 3983.0),
        "ant": (9313.0, 7662.0, 6605.0, 6275.0, 5482.0),
        "anymal": (17562.0, 15157.0, 12029.0, 11788.0, 10104.0),
        "humanoid": (9846.0, 8387.0, 7293.0, 7285.0, 7731.0),
        "snu_humanoid": (6746.0, 5924.0, 4114.0, 3620.0, 3086.0),
    }.items()
}
"""Return by task and algorithm."""
