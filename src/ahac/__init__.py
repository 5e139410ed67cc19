"""First-order policy learning through differentiable contact simulation.

    env = ahac.make("ant", num_envs=128)      # `ahac.tasks()` lists the names
    step = env.step(action)                   # differentiable: observation, reward, termination, reset

Subpackages are imported by name: `ahac.sim` is the simulator, `ahac.envs` has the tasks. The names listed here are
imported from their modules on first use, so that `import ahac` is fast.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahac.algos.registry import register_algorithm
    from ahac.deployment.api import export
    from ahac.envs.gym import make_gym
    from ahac.envs.registry import make, register_task, tasks
    from ahac.envs.robot import RobotTask
    from ahac.identification.api import identify
    from ahac.training.api import resume, train
    from ahac.training.callbacks import Callback
    from ahac.training.pretrained import pretrained
    from ahac.training.recording import record

try:
    __version__ = version("ahac")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"

__all__ = [
    "Callback",
    "RobotTask",
    "__version__",
    "export",
    "identify",
    "make",
    "make_gym",
    "pretrained",
    "record",
    "register_algorithm",
    "register_task",
    "resume",
    "tasks",
    "train",
]

_MODULES = {
    "Callback": "ahac.training.callbacks",
    "RobotTask": "ahac.envs.robot",
    "export": "ahac.deployment.api",
    "identify": "ahac.identification.api",
    "make": "ahac.envs.registry",
    "make_gym": "ahac.envs.gym",
    "pretrained": "ahac.training.pretrained",
    "record": "ahac.training.recording",
    "register_algorithm": "ahac.algos.registry",
    "register_task": "ahac.envs.registry",
    "resume": "ahac.training.api",
    "tasks": "ahac.envs.registry",
    "train": "ahac.training.api",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ahac' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    subpackages = [name for name, value in globals().items() if isinstance(value, ModuleType)]
    return sorted({*__all__, *subpackages})
