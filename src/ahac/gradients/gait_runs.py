"""Does a policy's gait follow the horizon it was trained with? SHAC for many horizons (the paper's fig:ant_gaits)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ahac.algos.config import ShortHorizonConfig
from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.envs import make
from ahac.experiments.run_files import RunFiles, find_runs, read_run
from ahac.gradients.checks import non_empty
from ahac.gradients.gait import gait_period, log_contacts
from ahac.gradients.policies import fingerprint
from ahac.gradients.progress import Track, silent
from ahac.gradients.study import Study, load_or_compute
from ahac.training.api import configure
from ahac.training.config import RunConfig
from ahac.training.run import Run, open_run

__all__ = ["GaitSettings", "gait_configs", "measure_gait", "study"]

KIND = "gaits"
EVAL_SEED = 2_000_003
"""Added to a run's seed: gaits are watched elsewhere than training began."""


@dataclass(frozen=True, kw_only=True)
class GaitSettings:
    """How the gait of a policy is measured."""

    worlds: int = 8
    """That are watched, and taken together if they do not fall meanwhile."""
    steps: int = 300
    """Over which contacts are compared."""
    skip: int = 150
    """Before, for the gait to settle."""

    def __post_init__(self) -> None:
        for name, least in (("worlds", 1), ("steps", 8), ("skip", 0)):
            check_int(name, getattr(self, name), least)


def gait_configs(
    horizons: Sequence[int],
    seeds: Sequence[int],
    task: str = "ant",
    out: str = "runs/gaits",
    **settings: Any,  # noqa: ANN401 - fields of RunConfig
) -> list[RunConfig]:
    """The runs of the study: SHAC with every horizon and seed, a seed of all horizons after the other.

    `ahac.experiments.sweep.sweep` trains them.
    """
    base = configure(task, "shac", **settings)
    if not isinstance(base.algorithm, ShortHorizonConfig):
        raise InputError(f"algorithm must have a horizon, as SHAC's has, got a {type(base.algorithm).__name__}")
    made = []
    for seed in non_empty("seeds", seeds):
        for horizon in non_empty("horizons", horizons):
            fixed = replace(base.algorithm.horizon, initial=check_int("a horizon", horizon, 1))
            algorithm = replace(base.algorithm, horizon=fixed)
            name = f"{task}-shac-h{horizon:02}-{seed}"
            made.append(replace(base, name=name, seed=seed, out=out, algorithm=algorithm))
    return made


def measure_gait(folder: Path, settings: GaitSettings | None = None, redo: bool = False) -> Study:
    """The gait of a run's last policy; kept in the run's folder.

    Returns:
        period in control steps, not a number where the gait does not repeat; whole [worlds] bool, without a fall: these
        are what it is of; dt [s].
    """
    c = settings or GaitSettings()
    about = {**asdict(c), **fingerprint(folder)}
    return load_or_compute(folder / "gradients" / "gait.npz", "gait", about, lambda: _measured(folder, c, about), redo)


def _measured(folder: Path, c: GaitSettings, about: dict[str, Any]) -> Study:
    opened = open_run(folder)
    run = Run(opened.folder, replace(opened.config, num_envs=1, device="cpu"))
    run.restore("last", with_env=False)
    o = run.config
    env = make(o.task, num_envs=c.worlds, seed=o.seed + EVAL_SEED, variant=o.variant)
    feet = log_contacts(env, run.algo.act, c.steps, c.skip, probes=1)
    period = gait_period(feet.contact[:, feet.whole])
    return Study("gait", about, {"period": np.array(period), "whole": feet.whole, "dt": np.array(env.spec.dt)})


def study(out: Path, settings: GaitSettings | None = None, redo: bool = False, track: Track = silent) -> Study:
    """What the runs of a folder came to: those of SHAC with a fixed horizon, all of one task; others are left out.

    Returns:
        By run [R]: horizon, seed, period (control steps), score (mean return of the evaluation).
    """
    records = [read_run(folder) for folder in find_runs(out)]
    wanted = [record for record in records if _has_fixed_horizon(record)]
    done = [record for record in wanted if record.complete and record.evaluation is not None]
    if not done:
        raise InputError(
            f"{out} holds no complete run of SHAC with a fixed horizon, got {len(wanted)} that are not complete and "
            f"{len(records) - len(wanted)} others; `ahac grad gait run --out {out}` makes them, or goes on with them"
        )
    tasks = sorted({str(record.settings["task"]) for record in done})
    if len(tasks) > 1:
        raise InputError(
            f"the runs in {out} must be of one task, got {', '.join(tasks)}; give each task a folder of its own"
        )
    rows = [_row(record, measure_gait(record.folder, settings, redo)) for record in track(done, "gaits")]
    arrays = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    counts = {"runs": len(done), "unfinished": len(wanted) - len(done), "others": len(records) - len(wanted)}
    return Study(KIND, {**asdict(settings or GaitSettings()), "task": tasks[0], **counts}, arrays)


def _has_fixed_horizon(record: RunFiles) -> bool:
    """Whether it is of SHAC with the same horizon all along."""
    horizon = record.settings.get("algorithm", {}).get("horizon", {})
    return record.settings["algo"] == "shac" and horizon.get("rule") == "fixed"


def _row(record: RunFiles, gait: Study) -> dict[str, float]:
    assert record.evaluation is not None, "only complete runs are looked at"
    return {
        "horizon": float(record.settings["algorithm"]["horizon"]["initial"]),
        "seed": float(record.settings["seed"]),
        "period": float(gait["period"]),
        "score": float(record.evaluation["mean"]),
    }
