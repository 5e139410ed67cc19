"""Tasks in Python files of users, written FILE.py:NAME.

NAME is a `Task`, or a function that returns one; it may take the name of a variant.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ahac.core.errors import InputError
from ahac.envs.task import Task

__all__ = ["is_task_file", "load_task_file", "read_task_file", "split_task_file"]


def is_task_file(name: str) -> bool:
    """Return whether the name of a task has the form FILE.py:NAME."""
    file, colon, _ = name.rpartition(":")
    return bool(colon) and file.endswith(".py")


def split_task_file(name: str) -> tuple[Path, str]:
    """Return the absolute path of the file and the name of the task in it."""
    file, _, attribute = name.rpartition(":")
    return Path(file).resolve(), attribute


def read_task_file(file: Path, attribute: str) -> bytes:
    """Return the content of a task file; `attribute` is for the error message."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"no file {str(file)!r} can be read ({error.strerror}); expected a Python file that defines the task "
            f"{attribute!r}"
        ) from error


def load_task_file(file: Path, attribute: str, variant: str = "paper", source: bytes | None = None) -> Task:
    """Run a file and return a task of it.

    Args:
        file: The file; `__file__` while it runs, and the folder from which it can import modules.
        attribute: Name of a `Task`, or of a function that returns one.
        variant: Passed to the function if it takes an argument.
        source: Content to run in place of the file's own, such as the copy in a run folder.
    """
    content = read_task_file(file, attribute) if source is None else source
    with _user_code(file):
        module = _run(file, content)
        if not hasattr(module, attribute):
            raise InputError(f"it has no {attribute!r}; it defines: {', '.join(_candidates(module)) or 'no task'}")
        value = getattr(module, attribute)
        task = _call(value, variant) if callable(value) else value
    if not isinstance(task, Task):
        raise InputError(f"{file}:{attribute} must be a Task or a function that returns one, got {type(task).__name__}")
    return task


def _call(function: object, variant: str) -> object:
    assert callable(function)
    return function(variant) if inspect.signature(function).parameters else function()


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of the tasks and functions that a module defines."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [
        name
        for name, value in own.items()
        if isinstance(value, Task) or (inspect.isfunction(value) and value.__module__ == module.__name__)
    ]


@contextmanager
def _user_code(file: Path) -> Iterator[None]:
    """Let the block import modules next to the file, and raise InputError with the file's line on any error."""
    folder = str(file.parent)
    sys.path.insert(0, folder)
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where = f"{file}, line {lines[-1]}" if lines else f"{file}"
        if isinstance(error, InputError):
            raise InputError(f"{where}: {error}") from error
        raise InputError(
            f"{where}: {type(error).__name__}: {error}; the task file failed to run; fix the error and retry"
        ) from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _run(file: Path, source: bytes) -> ModuleType:
    """Run the content of a file as a module with a unique name."""
    name = f"_ahac_task_{hashlib.sha256(str(file).encode() + source).hexdigest()[:16]}"
    module = sys.modules[name] = ModuleType(name)  # dataclasses look their module up
    module.__file__ = str(file)
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
