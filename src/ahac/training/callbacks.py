"""Callbacks: code that runs during training, for loggers, early stopping, evaluations and searches.

The trainer calls them on rank 0, in this order:

    on_training_start     the state of the run is loaded
    on_iteration          after each iteration, whose metrics are in metrics.csv and whose state is kept
    on_evaluation         if the final policy is evaluated
    on_error              if training ends with an error
    on_training_end       always, also after an error; the last checkpoint is on disk

A callback reads the run; results change only if it modifies the run. If it raises an error, training ends with that
error, and the last completed iteration is saved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.training.evaluate import Evaluation
    from ahac.training.run import Run

__all__ = ["Callback", "CallbackLike", "CallbackList", "as_callbacks"]

logger = logging.getLogger("ahac")


class Callback:
    """Called during training; override the methods that you need."""

    def on_training_start(self, run: Run) -> None:
        """Do something before the first iteration, also of a resumed run."""

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> bool | None:
        """Do something after an iteration; return False to stop training with a checkpoint, from which it can resume.

        Args:
            run: The run: `run.folder`, `run.config`, `run.algo`, `run.evaluate()`, ...
            metrics: The iteration's row of metrics.csv, with "iteration", "env_steps", "episode_return", ...
        """

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Do something with the evaluation of the final policy, as `ahac train` makes it."""

    def on_error(self, run: Run, error: BaseException) -> None:
        """Do something if training ends with an error or an interrupt; `on_training_end` follows."""

    def on_training_end(self, run: Run) -> None:
        """Do something at the end, whether the run is complete, stopped or failed."""


CallbackLike = Callback | Callable[["Run", Mapping[str, float]], bool | None]
"""A callback, or a function with the arguments and the result of `Callback.on_iteration`."""


class _FunctionCallback(Callback):
    """A function that is called after each iteration."""

    def __init__(self, function: Callable[[Run, Mapping[str, float]], bool | None]) -> None:
        self.function = function

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> bool | None:
        """Call the function."""
        return self.function(run, metrics)


def as_callbacks(given: Iterable[CallbackLike]) -> list[Callback]:
    """Return the given callbacks and functions as callbacks; raise an InputError for anything else."""
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"callbacks must be a list, got {type(given).__name__}; give callbacks=[...]")
    return [_as_callback(each) for each in given]


def _as_callback(given: CallbackLike) -> Callback:
    if isinstance(given, Callback):
        return given
    if isinstance(given, type):
        raise InputError(
            f"a callback must be an object or a function, got the class {given.__name__}; give an instance"
        )
    if not callable(given):
        raise InputError(f"a callback must be an ahac.Callback or a function of a run and its metrics, got {given!r}")
    return _FunctionCallback(given)


class CallbackList(AbstractContextManager["CallbackList"]):
    """Calls several callbacks in their order; on exit, ends those that were started, in the reverse order."""

    def __init__(self, run: Run, callbacks: Iterable[CallbackLike]) -> None:
        """Take callbacks, which only rank 0 calls."""
        self.run = run
        self.callbacks = as_callbacks(callbacks) if run.ranks.is_main else []
        self.started: list[Callback] = []

    def start(self, own: Iterable[Callback]) -> None:
        """Start the trainer's own callbacks, then the others."""
        for callback in [*own, *self.callbacks]:
            callback.on_training_start(self.run)
            self.started.append(callback)

    def on_iteration(self, metrics: Mapping[str, float]) -> bool:
        """Call all; return whether training should continue."""
        answers = [callback.on_iteration(self.run, metrics) for callback in self.started]
        return all(answer is None or bool(answer) for answer in answers)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Call all."""
        for callback in self.started:
            callback.on_evaluation(self.run, evaluation)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        first = error
        while self.started:
            callback = self.started.pop()
            try:
                if error is not None:
                    callback.on_error(self.run, error)
                callback.on_training_end(self.run)
            except Exception as raised:  # the others must end, and the first error must not be hidden
                if first is None:
                    first = raised
                    continue
                first.add_note(f"ending {type(callback).__name__} also failed: {raised!r}")
                logger.error("ending %s also failed: %s", type(callback).__name__, raised)
        if first is not None and first is not error:
            raise first
