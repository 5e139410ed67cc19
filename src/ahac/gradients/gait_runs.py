"""Gait period of policies that SHAC trained with different horizons (the paper's fig:ant_gaits)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ahac.algos.config import ShortHorizonConfig
from ahac.core.checks import check_int, check_non_empty
from ahac.core.errors import InputError
from ahac.envs import make
from ahac.experiments.run_files import RunFiles, find_runs, read_run
from ahac.gradients.gait import gait_period, log_contacts
from ahac.gradients.policies import fingerprint
from ahac.gradients.progress import Track, silent
from ahac.gradients.study import Study, load_or_compute
from ahac.training.api import configure
from ahac.training.config import RunConfig
from ahac.training.run import open_run

__all__ = ["GaitSettings", "gait_configs", "measure_gait", "study"]

KIND = "gaits"


@dataclass(frozen=True, kw_only=True)
class GaitSettings:
    """Settings for measuring the gait of a policy."""

    worlds: int = 8
    """Number of worlds; the period is measured jointly over those that do not fall."""
    steps: int = 300
    """Control steps over which contacts are logged."""
    skip: int = 150
    """Control steps before logging, for the gait to settle."""

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
    """Return run configs of SHAC with every horizon and seed, all horizons of one seed before the next seed.

    Train them with `ahac.experiments.sweep.sweep`.
    """
    base = configure(task, "shac", **settings)
    if not isinstance(base.algorithm, ShortHorizonConfig):
        raise InputError(f"algorithm must have a horizon, like SHAC, got {type(base.algorithm).__name__}")
    configs = []
    for seed in check_non_empty("seeds", seeds):
        for horizon in check_non_empty("horizons", horizons):
            fixed = replace(base.algorithm.horizon, initial=check_int("a horizon", horizon, 1))
            algorithm = replace(base.algorithm, horizon=fixed)
            name = f"{task}-shac-h{horizon:02}-{seed}"
            configs.append(replace(base, name=name, seed=seed, out=out, algorithm=algorithm))
    return configs


def measure_gait(folder: Path, settings: GaitSettings | None = None, redo: bool = False) -> Study:
    """Measure the gait of a run's last checkpoint; the result is cached in the run folder.

    Returns:
        period in control steps, NaN if the gait does not repeat; whole [worlds] bool, the worlds without a fall, over
        which the period is measured; dt [s].
    """
    c = settings or GaitSettings()
    about = {**asdict(c), **fingerprint(folder)}
    return load_or_compute(folder / "gradients" / "gait.npz", "gait", about, lambda: _measure(folder, c, about), redo)


def _measure(folder: Path, c: GaitSettings, about: dict[str, Any]) -> Study:
    run = open_run(folder).with_settings(num_envs=1, device="cpu")
    run.restore("last", with_env=False)
    env = make(run.task, num_envs=c.worlds, seed=run.eval_seed)
    log = log_contacts(env, run.algo.act, c.steps, c.skip, probes=1)
    period = gait_period(log.contact[:, log.whole])
    return Study("gait", about, {"period": np.array(period), "whole": log.whole, "dt": np.array(env.spec.dt)})


def study(out: Path, settings: GaitSettings | None = None, redo: bool = False, track: Track = silent) -> Study:
    """Measure the gaits of all complete SHAC runs with a fixed horizon in a folder; other runs are ignored.

    Returns:
        Per run [R]: horizon, seed, period (control steps), score (mean return of the evaluation).
    """
    runs = [read_run(folder) for folder in find_runs(out)]
    fixed_horizon = [run for run in runs if _has_fixed_horizon(run)]
    complete = [run for run in fixed_horizon if run.complete and run.evaluation is not None]
    if not complete:
        raise InputError(
            f"{out} has no complete run of SHAC with a fixed horizon, got {len(fixed_horizon)} incomplete and "
            f"{len(runs) - len(fixed_horizon)} other runs; start or resume them with `ahac grad gait run --out {out}`"
        )
    tasks = sorted({str(run.settings["task"]) for run in complete})
    if len(tasks) > 1:
        raise InputError(
            f"all runs in {out} must be of the same task, got {', '.join(tasks)}; use a separate folder per task"
        )
    rows = [_row(run, measure_gait(run.folder, settings, redo)) for run in track(complete, "gaits")]
    arrays = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    counts = {
        "runs": len(complete),
        "unfinished": len(fixed_horizon) - len(complete),
        "others": len(runs) - len(fixed_horizon),
    }
    return Study(KIND, {**asdict(settings or GaitSettings()), "task": tasks[0], **counts}, arrays)


def _has_fixed_horizon(run: RunFiles) -> bool:
    """Return whether a run is SHAC with a fixed horizon."""
    horizon = run.settings.get("algorithm", {}).get("horizon", {})
    return run.settings["algo"] == "shac" and horizon.get("rule") == "fixed"


def _row(run: RunFiles, gait: Study) -> dict[str, float]:
    assert run.evaluation is not None, "only complete runs are measured"
    return {
        "horizon": float(run.settings["algorithm"]["horizon"]["initial"]),
        "seed": float(run.settings["seed"]),
        "period": float(gait["period"]),
        "score": float(run.evaluation["mean"]),
    }
