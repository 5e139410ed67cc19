"""Parameters: constants of a model that become inputs of the simulation."""

from ahac.sim.model.parameters.selection import Parameters

__all__ = ["Parameters"]
