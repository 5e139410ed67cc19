"""First-order policy learning through differentiable contact simulation.

The package is a house of rooms, each imported by its own name: `ahac.sim` is the simulator. This file stays light, so
that `import ahac` costs nothing.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ahac")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"

__all__ = ["__version__"]
