"""What a study found: plain arrays, and the settings that they belong to, as one file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ahac.core.errors import InputError
from ahac.core.files import atomic_write

__all__ = ["Study", "load_or_compute", "load_study"]

ABOUT = "about"
"""The entry of the file that is no array: kind and settings, as JSON."""


@dataclass(frozen=True, eq=False)
class Study:
    """Arrays by name; `study["error"]` is one of them."""

    kind: str
    settings: Mapping[str, Any]
    """Everything that the arrays depend on, as JSON has it."""
    arrays: Mapping[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise InputError(f"a study of {self.kind} has no array {name!r}; it has: {', '.join(self.arrays)}")
        return self.arrays[name]

    def save(self, path: Path) -> None:
        """Write it, all of it or nothing."""
        about = json.dumps({"kind": self.kind, "settings": self.settings})
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished:
            np.savez_compressed(unfinished, allow_pickle=False, **{ABOUT: np.array(about)}, **self.arrays)


def load_study(path: Path) -> Study:
    """Read what `Study.save` wrote."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            about = json.loads(str(file[ABOUT]))
            return Study(about["kind"], about["settings"], {name: file[name] for name in file.files if name != ABOUT})
    except FileNotFoundError as error:
        raise InputError(f"there is no study at {path}; `ahac grad study` makes one") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged or no study: {error}; move it away, and it is made anew") from error


def load_or_compute(
    path: Path, kind: str, settings: Mapping[str, Any], compute: Callable[[], Study], redo: bool = False
) -> Study:
    """The study of a file if it has these settings; else a new one, which the file then holds."""
    wanted = json.loads(json.dumps(settings))
    if path.is_file() and not redo:
        found = load_study(path)
        if found.kind == kind and found.settings == wanted:
            return found
    made = compute()
    made.save(path)
    return made
