"""The small runs that are attacked, and how two of them are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from support.small_runs import bits, table, timed

__all__ = ["ALGOS", "ITERATIONS", "damaged_files", "differences", "names", "numbers_of", "training"]

ALGOS = ("ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt", "ppo", "sac", "svg", "fasttd3")
TASK = "hopper"
WORLDS = 6
ITERATIONS = 12
EVERY = 3
ROWS = 40
"""Rows of the replay buffer, one per step of all worlds; it is full halfway through the run."""

HORIZON = "--algorithm.horizon.initial 16 --algorithm.horizon.min 8 --algorithm.horizon.max 24"
FIRST_ORDER = f"--algorithm.actor.hidden 8 --algorithm.critic.hidden 8 --algorithm.critic.epochs 3 {HORIZON}"
OFF_POLICY = (
    "--algorithm.hidden 8 --algorithm.critic-hidden 8 --algorithm.steps-per-env 8 --algorithm.batch-size 16 "
    f"--algorithm.learning-starts 90 --algorithm.buffer-size {ROWS * WORLDS}"
)
MODEL = (
    "--algorithm.model-hidden 8 --algorithm.latent 4 --algorithm.sequences 8 --algorithm.updates 1 "
    "--algorithm.model-updates 1"
)
ALGORITHM_OPTIONS = {
    "bptt": f"--algorithm.actor.hidden 8 {HORIZON}",
    "ppo": "--algorithm.hidden 8 --algorithm.critic-hidden 8 --algorithm.steps-per-env 16 --algorithm.epochs 2",
    "sac": OFF_POLICY,
    "svg": f"{OFF_POLICY} {MODEL}",
    "fasttd3": OFF_POLICY,
}
OWN_SETTINGS = ("name", "out", "checksum")
KEPT_ASIDE = "metrics.damaged-"


def training(algo: str, out: Path, name: str, device: str = "cpu", seed: int = 0) -> list[str]:
    """The command line of a small run."""
    settings = {
        "algo": algo,
        "num-envs": WORLDS,
        "iterations": ITERATIONS,
        "checkpoint-every": EVERY,
        "eval-episodes": 6,
        "device": device,
        "seed": seed,
        "out": out,
        "name": name,
    }
    flags = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    exact = ["--deterministic"] if device != "cpu" else []
    return ["train", TASK, *flags, *exact, *ALGORITHM_OPTIONS.get(algo, FIRST_ORDER).split()]


def names(folder: Path) -> set[str]:
    """Files of a run, TensorBoard's and the lock apart."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return {name for name in found if not name.startswith("tensorboard") and name != ".lock"}


def damaged_files(folder: Path) -> list[str]:
    """Files of a run that cannot be read, temporary ones apart: a kill must not leave any."""
    found = []
    for name in sorted(name for name in names(folder) if ".tmp" not in name):
        path = folder / name
        try:
            if path.suffix == ".safetensors":
                _tensors(path)
            elif path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
        except (SafetensorError, OSError, ValueError) as error:
            found.append(f"damaged by the kill: {name}: {error}")
    return found


def differences(folder: Path, reference: Path, but: Collection[str] = ()) -> list[str]:
    """What two runs of the same settings do not have in common, times and these files apart."""
    here, there = ({name for name in names(place) if not name.startswith("replay")} for place in (folder, reference))
    found = [f"lost: {name}" for name in sorted(there - here - set(but))]
    for name in sorted(here - there - set(but)):
        if ".tmp" in name:
            found.append(f"temporary file left: {name}")
        elif not name.startswith(KEPT_ASIDE):
            found.append(f"unexpected file: {name}")
    for name in sorted(here & there - set(but)):
        if not _alike(folder / name, reference / name):
            found.append(f"different: {name}")
    found += [f"temporary file left: {name}" for name in sorted(names(folder)) if re.match(r"replay/.*\.tmp", name)]
    if not any(name.startswith("replay") for name in but) and _replay(folder) != _replay(reference):
        found.append("different: replay")
    return found


def numbers_of(path: Path) -> dict[str, float]:
    """Those in a checkpoint's header."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["numbers"])


def _alike(one: Path, other: Path) -> bool:
    if one.name == "manifest.json":  # of a machine and a time
        return isinstance(json.loads(one.read_text(encoding="utf-8")), dict)
    try:
        if one.name == "metrics.csv":
            return table(one.parent) == table(other.parent)
        read = _tensors if one.suffix == ".safetensors" else _settings
        return read(one) == read(other)
    except (SafetensorError, OSError, ValueError):
        return False


def _tensors(path: Path) -> dict[str, Any]:
    """Bits of all tensors, and all numbers but times."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        found: dict[str, Any] = bits({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    numbers, settings = (json.loads(header.get(name, "{}")) for name in ("numbers", "settings"))
    found["settings"] = {key: value for key, value in settings.items() if key not in OWN_SETTINGS}
    return {**found, "version": header.get("version"), **{k: x for k, x in numbers.items() if not timed(k)}}


def _replay(folder: Path) -> dict[int, bytes]:
    """The rows that can be drawn from, by number; segments may begin and end elsewhere after a stop."""
    rows: dict[int, bytes] = {}
    for path in (folder / "replay").glob("rows-*.safetensors"):
        with safe_open(path, framework="pt") as file:
            first = int(path.stem.split("-")[1])
            rows |= {first + k: row.numpy().tobytes() for k, row in enumerate(file.get_tensor("rows"))}
    return {k: rows[k] for k in sorted(rows)[-ROWS:]}


def _settings(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return {key: value for key, value in content.items() if key not in OWN_SETTINGS}
