"""Interface of launchers, and import of the packages that some need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Protocol

from ahac.core.errors import InputError
from ahac.training.config import RunConfig

__all__ = ["Job", "Launcher", "describe", "import_optional"]


class Job(Protocol):
    """A run that was started."""

    def poll(self) -> str | None:
        """Return None until the run has ended; then "" if its process ended well, otherwise why it did not."""
        ...

    def stop(self) -> None:
        """Ask the run to stop after its iteration, with a checkpoint; asked twice, it stops immediately."""
        ...

    def close(self) -> None:
        """Wait until a run that was asked to stop has ended; end it if it takes too long."""
        ...


class Launcher(ABC):
    """Where the runs of a sweep train: `open`, then `free_slots` and `start` until all have started, then `close`."""

    here: ClassVar[bool]
    """Whether runs train on this machine, so that their devices can be checked before the first one starts."""

    @abstractmethod
    def open(self, configs: Sequence[RunConfig]) -> None:
        """Prepare to train these runs."""

    @abstractmethod
    def free_slots(self, waiting: int) -> int:
        """Return how many of the waiting runs the next `start` should have; 0 to wait until a run has ended."""

    @abstractmethod
    def start(self, configs: Sequence[RunConfig]) -> list[Job]:
        """Start runs, or resume them from their last checkpoints."""

    @abstractmethod
    def close(self) -> None:
        """Free what `open` has acquired; called once, after all jobs have ended."""


def import_optional(package: str, launcher: str) -> Any:  # noqa: ANN401 - a module without types
    """Return a package that only one launcher needs; raise an InputError that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(
            f"the launcher {launcher!r} needs the package {package}, which cannot be imported ({error}); install it "
            f"with `pip install 'ahac[{launcher}]'`, or use --launcher local"
        ) from error


def describe(error: Exception) -> str:
    """Return the kind of an error of another package and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
