"""Reading and writing the settings of a run folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ahac.core.config import flatten
from ahac.core.errors import InputError
from ahac.core.files import read_json, write_json
from ahac.training.checkpoint import CheckpointError, checkpoint_names, load_checkpoint, newest_first
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig, config_from_file, config_to_file
from ahac.training.old_settings import upgrade_settings
from ahac.training.preflight import explain_missing_run
from ahac.training.process import exclusive_lock

__all__ = ["read_settings", "settings_differences", "write_settings"]

logger = logging.getLogger("ahac")


def read_settings(folder: Path) -> RunConfig:
    """Read the settings of a run from config.json or, if that is missing, from its newest checkpoint."""
    path = folder / "config.json"
    if path.is_file():
        try:
            content = read_json(path, editable=True)
        except InputError as error:
            if _saved_settings(folder / "checkpoints") is None:
                raise
            raise InputError(f"{error}; remove it, and the settings in the checkpoints are used") from error
        if "task" not in content:
            raise InputError(f"{path} is not the config of a run: it lacks task")
    elif (saved := _saved_settings(folder / "checkpoints")) is not None:
        logger.warning("%s is missing; using the settings in %s", path, saved[0])
        path, content = saved
    else:
        raise InputError(f"{folder} is not a run: {explain_missing_run(folder)}")
    try:
        return config_from_file(content)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} cannot be read by this version: {error}") from error


def settings_differences(saved: Mapping[str, object], current: Mapping[str, object]) -> str:
    """List result-changing settings that differ between a checkpoint and config.json; empty if none do."""
    ignored = NON_SEMANTIC_FIELDS | {"schema", "iterations", "env_steps", "eval_episodes"}
    before, now = flatten(upgrade_settings(saved)), flatten(current)
    changed = [name for name in before.keys() & now.keys() if name not in ignored and before[name] != now[name]]
    return ", ".join(f"{name} was {before[name]!r}, is {now[name]!r}" for name in sorted(changed))


def _saved_settings(checkpoints: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the path and settings of the newest readable checkpoint that has settings; None if there is none."""
    for name in newest_first(checkpoint_names(checkpoints)):
        path = checkpoints / f"{name}.safetensors"
        try:
            settings = load_checkpoint(path).settings
        except CheckpointError:  # another one may be readable
            continue
        if settings:
            return path, dict(settings)
    return None


def write_settings(folder: Path, config: RunConfig) -> None:
    """Write config.json, unless the folder is in use."""
    with exclusive_lock(folder):
        write_json(folder / "config.json", config_to_file(config), checksum=True)
