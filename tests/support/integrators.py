"""Both integrators, and what the simulator makes of them."""

from collections.abc import Sequence
from typing import get_args

from ahac.sim import ForceLaw, Integrator, compliant, penalty
from ahac.sim.physics.substep import ForceLaws

__all__ = ["EXPLICIT", "IMPLICIT", "INTEGRATORS", "laws_of"]

INTEGRATORS: tuple[Integrator, ...] = get_args(Integrator)


def laws_of(integrator: Integrator, extra: Sequence[ForceLaw] = ()) -> ForceLaws:
    """The laws of a simulator that is given no contact law."""
    implicit = integrator == "implicit"
    return ForceLaws(compliant if implicit else penalty, tuple(extra), implicit=implicit)


EXPLICIT, IMPLICIT = laws_of("explicit"), laws_of("implicit")
