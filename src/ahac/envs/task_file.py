"""Tasks in Python files of users, written FILE.py:NAME.

NAME is a `Task`, or a function that returns one; it may take the name of a variant.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ahac.core.errors import InputError
from ahac.core.text import suggestion
from ahac.envs.task import Task

__all__ = ["call_factory", "load_task_file", "read_task_file"]

_helpers: set[str] = set()
"""Modules that task files have imported from their own folders."""


def read_task_file(file: Path, attribute: str) -> bytes:
    """Return the content of a task file; `attribute` is for the error message."""
    try:
        return file.read_bytes()
    except OSError as error:
        others = [other.name for other in file.parent.glob("*.py")]
        raise InputError(
            f"no file {str(file)!r} can be read ({error.strerror}){suggestion(file.name, others)}; expected a Python "
            f"file that defines the task {attribute!r}"
        ) from error


def load_task_file(
    file: Path, attribute: str, variant: str = "paper", copy: Path | None = None, imports: bool = True
) -> Task:
    """Run a file and return a task of it.

    Args:
        file: The file; `__file__` while it runs.
        attribute: Name of a `Task`, or of a function that returns one.
        variant: Passed to the function if it has such a parameter; otherwise only the default is accepted.
        copy: File whose content to run in place of the file's own: the copy in a run folder.
        imports: Whether the file can import modules next to it.
    """
    code = file if copy is None else copy
    content = read_task_file(code, attribute)
    with _user_code(code, file.parent if imports else None):
        module = _run(file, content, code)
        if not hasattr(module, attribute):
            raise InputError(f"it has no {attribute!r}; it defines: {', '.join(_candidates(module)) or 'no task'}")
        value = getattr(module, attribute)
        task = call_factory(value if callable(value) else lambda: value, variant)
    if not isinstance(task, Task):
        raise InputError(f"{code}:{attribute} must be a Task or a function that returns one, got {type(task).__name__}")
    return task


def call_factory(function: Callable[..., object], variant: str) -> object:
    """Call a function with the variant, if it has a parameter of that name or one without a default."""
    parameters = inspect.signature(function).parameters
    if "variant" in parameters:
        return function(variant=variant)
    if any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values()):
        return function(variant)
    if variant != "paper":
        raise InputError(f"this task has no variants, got variant={variant!r}; omit it")
    return function()


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of the tasks and functions that a module defines."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [
        name
        for name, value in own.items()
        if isinstance(value, Task) or (inspect.isfunction(value) and value.__module__ == module.__name__)
    ]


@contextmanager
def _user_code(code: Path, folder: Path | None) -> Iterator[None]:
    """Let the block import modules from a folder, and raise InputError with the file's line on any error."""
    _forget_helpers_of_other_folders(folder)
    before = set(sys.modules)
    if folder is not None:
        sys.path.insert(0, str(folder))
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(code)]
        where = f"{code}, line {lines[-1]}" if lines else f"{code}"
        if isinstance(error, InputError):
            raise InputError(f"{where}: {error}") from error
        raise InputError(
            f"{where}: {type(error).__name__}: {error}; the task file failed to run; fix the error and retry"
        ) from error
    finally:
        if folder is not None:
            if str(folder) in sys.path:
                sys.path.remove(str(folder))
            _helpers.update(name for name in set(sys.modules) - before if _folder_of(name) == folder)


def _forget_helpers_of_other_folders(folder: Path | None) -> None:
    """Forget modules that other task files have imported: this one may have modules of the same names."""
    for name in [name for name in _helpers if _folder_of(name) != folder]:
        sys.modules.pop(name, None)
        _helpers.discard(name)


def _folder_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else Path(file).parent


def _run(file: Path, source: bytes, code: Path) -> ModuleType:
    """Run the content of a file as a module with a unique name."""
    name = f"_ahac_task_{hashlib.sha256(str(file).encode() + source).hexdigest()[:16]}"
    module = sys.modules[name] = ModuleType(name)  # dataclasses look their module up
    module.__file__ = str(file)
    try:
        exec(compile(source, str(code), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
