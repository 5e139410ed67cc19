"""What an engine offers to the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gradient_comparison.cases import Array, Case

__all__ = ["Engine", "Rollouts"]


class Rollouts(Protocol):
    """A case in an engine, for a fixed number of worlds N; inputs [N, nx] are positions, velocities, held controls."""

    def states(self, inputs: Array, steps: Sequence[int]) -> Array:
        """Return positions and velocities [len(steps), N, nq + nv] after these numbers of steps."""
        ...

    def gradients(self, inputs: Array, steps: int) -> Array:
        """Return the gradients [N, nx] of the weighted sum of the final state with respect to the inputs."""
        ...


class Engine(Protocol):
    """A way to simulate and differentiate."""

    @property
    def settings(self) -> str:
        """What the page says about integrator, solver and mode of differentiation."""
        ...

    def load(self, case: Case, worlds: int, double: bool) -> Rollouts:
        """Return rollouts of a case, in float64 if `double`."""
        ...
