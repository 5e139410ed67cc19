"""Creation of run folders."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import torch

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.networks import Networks, check_networks
from ahac.algos.off_policy import OffPolicyConfig
from ahac.core.device import resolve_run_device
from ahac.core.distributed import ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import atomic_write, write_json
from ahac.core.task_names import is_task_file, split_task_file
from ahac.envs import Task, make_task
from ahac.envs.bundle import check_bundling
from ahac.envs.planning import plan
from ahac.training.config import RunConfig, config_to_file
from ahac.training.manifest import manifest
from ahac.training.preflight import claim_folder, free_names, new_folder, validate_config
from ahac.training.task_source import COPY, ORIGIN, ROBOT, read_source, resolve_task, robot_file, trust

__all__ = ["create_folder"]

logger = logging.getLogger("ahac")


def create_folder(
    config: RunConfig, ranks: ProcessGroup, task: Task | None, networks: Networks
) -> tuple[Path, RunConfig]:
    """Create the folder with its files atomically; return it and the settings with the folder's name."""
    definition = make_task(config.task, config.variant) if task is None else task
    config = validate_config(config, ranks, definition)
    spec = plan(definition).spec(definition, config.num_envs, torch.device("cpu"), torch.float32)
    _check_algorithm(config, definition)
    if isinstance(config.algorithm, ShortHorizonConfig):
        check_networks(config.algorithm, spec, networks)
    given, config = config, resolve_task(config, task, definition)
    about = manifest(config.seed, resolve_run_device(config.device, ranks)) | {"ranks": ranks.size}
    if randomized := definition.randomized:
        about["randomized"] = randomized
    source = b""
    from_file = is_task_file(given.task) and task is None
    if from_file:
        file, _ = split_task_file(given.task)
        about |= {ORIGIN: str(file), ROBOT: robot_file(definition)}
        source = read_source(given, config.task_source)
        trust(config, file)
    preferred = Path(config.out) / (config.name or f"{config.task_name}-{config.algo}-s{config.seed}")
    with new_folder(preferred) as temporary:
        write_json(temporary / "manifest.json", about)
        if from_file:
            with atomic_write(temporary / COPY) as copy:
                copy.write_bytes(source)
        for folder in free_names(preferred):
            named = replace(config, name=folder.name)
            write_json(temporary / "config.json", config_to_file(named), checksum=True)
            if claim_folder(temporary, folder):
                break
        else:
            raise InputError(f"{preferred} and ten thousand numbered folders already exist; choose another name")
    if folder != preferred:
        logger.warning(
            "%s already exists, so this run is stored in %s; to continue the old one: `ahac resume %s`",
            preferred,
            folder,
            preferred,
        )
    return folder, named


def _check_algorithm(config: RunConfig, task: Task) -> None:
    """Raise if the algorithm cannot train with this robot or this number of worlds."""
    settings = config.algorithm
    if isinstance(settings, OffPolicyConfig):
        settings.check_worlds(config.num_envs)
    if isinstance(settings, ShortHorizonConfig):
        settings.check_new(config.num_envs)
        if settings.bundle.enabled:
            check_bundling(task.model)
