"""First-order policy learning through differentiable contact simulation.

    env = ahac.make("ant", num_envs=128)      # `ahac.tasks()` lists the names
    step = env.step(action)                   # differentiable: observation, reward, termination, reset

The package is a house of rooms, each imported by its own name: `ahac.sim` is the simulator, `ahac.envs` the tasks. What
stands here is fetched from its room when it is first used, so that `import ahac` costs nothing.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahac.envs.gym import make_gym
    from ahac.envs.registry import make, register_task, tasks
    from ahac.envs.robot import RobotTask
    from ahac.training.api import resume, train

try:
    __version__ = version("ahac")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"

__all__ = ["RobotTask", "__version__", "make", "make_gym", "register_task", "resume", "tasks", "train"]

_ROOMS = {
    "RobotTask": "ahac.envs.robot",
    "make": "ahac.envs.registry",
    "make_gym": "ahac.envs.gym",
    "register_task": "ahac.envs.registry",
    "resume": "ahac.training.api",
    "tasks": "ahac.envs.registry",
    "train": "ahac.training.api",
}


def __getattr__(name: str) -> object:
    """Fetch what is asked for from its room."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'ahac' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
