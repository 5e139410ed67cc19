"""Results of a study: arrays and the settings they were computed with, stored in one file."""

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
"""Entry of the file that holds kind and settings as JSON."""


@dataclass(frozen=True, eq=False)
class Study:
    """Arrays by name, for example `study["error"]`."""

    kind: str
    """Kind of study, such as "ball"."""
    settings: Mapping[str, Any]
    """Everything that the arrays depend on, JSON-compatible."""
    arrays: Mapping[str, np.ndarray]
    """The arrays by name."""

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise InputError(f"a study of {self.kind} has no array {name!r}; it has: {', '.join(self.arrays)}")
        return self.arrays[name]

    def save(self, path: Path) -> None:
        """Write the study to an .npz file, atomically."""
        about = json.dumps({"kind": self.kind, "settings": self.settings})
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished:
            np.savez_compressed(unfinished, allow_pickle=False, **{ABOUT: np.array(about)}, **self.arrays)


def load_study(path: Path) -> Study:
    """Load a study written by `Study.save`."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            about = json.loads(str(file[ABOUT]))
            return Study(about["kind"], about["settings"], {name: file[name] for name in file.files if name != ABOUT})
    except FileNotFoundError as error:
        raise InputError(f"no study at {path}; compute it with `ahac grad study`") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged or not a study: {error}; delete it to compute it again") from error


def load_or_compute(
    path: Path, kind: str, settings: Mapping[str, Any], compute: Callable[[], Study], redo: bool = False
) -> Study:
    """Load the study from a file if its settings match; otherwise compute it and save it there."""
    expected = json.loads(json.dumps(settings))
    if path.is_file() and not redo:
        saved = load_study(path)
        if saved.kind == kind and saved.settings == expected:
            return saved
    study = compute()
    study.save(path)
    return study
