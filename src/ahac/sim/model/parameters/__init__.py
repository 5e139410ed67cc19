"""Parameters: constants of a model that become inputs of the simulation."""
