"""The report of the study paper-main, from the archives and tables in docs/results.

    python docs/studies/paper_main_report.py

writes docs/results/report/report.html, the same as Markdown, and its figures. Of some runs only a line of a table was
kept, of AHAC on Hopper only metrics. Runs of SHAC on Humanoid were trained twice: metrics are from the second time,
evaluations, and the last iterations of four runs, from the first. SAC on SNU Humanoid was not evaluated.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import shutil
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from ahac.experiments.archives import SUFFIX, unpack
from ahac.experiments.report.page import write_report
from ahac.experiments.study import configure_runs, find_study, read_study
from ahac.training.config import RunConfig, config_to_file

RESULTS = Path(__file__).parents[1] / "results"
STUDY = "paper-main"
OTHERS = ("ablation", "ahac1", "first-order", "gait")
"""Beginnings of the names of archives of other studies."""
BASELINES: dict[str, dict[str, Any]] = {
    "hopper-svg": {"iterations": 500},
    "ant-svg": {"iterations": 500},
    "ant-sac": {"num_envs": 128, "iterations": 3000, "algorithm": {"batch_size": 4096, "updates": 1}},
}
"""Groups that were trained before the study, and their settings that differ from it; their lines are in h200.csv."""
SHORTER = ("anymal-sac-s2", "humanoid-sac-s1", "humanoid-sac-s2")
"""Runs that were started with as many iterations as other seeds had when they were stopped. As learning rates are
constant, stopping the full run there gives the same, and the report treats all seeds as stopped."""
NOTES = (
    "Most runs shared a GPU with others, and some trained on a CPU core: do not compare seconds between algorithms.",
    "Of runs whose files were lost, a line of a table was kept: such a run has no learning curve, or only its last "
    "point, and no machine. Curves and seconds of SHAC on Humanoid are from a second training with the same results.",
    "Three SAC runs (Anymal seed 2, Humanoid seeds 1 and 2) were started with as many iterations as the other seeds "
    "had reached when they were stopped; here they count as stopped as well.",
)
AXES = ("iteration", "env_steps", "seconds", "episode_return")

Row = dict[str, str]


def read_table(path: Path) -> list[Row]:
    """Return the rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_metrics(path: Path) -> dict[str, list[Row]]:
    """Return the rows of a compressed table of metrics, by run."""
    runs: defaultdict[str, list[Row]] = defaultdict(list)
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            runs[row["run"]].append(row)
    return runs


def write_metrics(path: Path, rows: list[Row]) -> None:
    """Write metrics.csv with the columns that a report needs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, AXES, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def complete(folder: Path, row: Row, config: RunConfig, metrics: list[Row]) -> None:
    """Add to a run folder what the line of a table knows: settings, the last iteration, the evaluation."""
    folder.mkdir(exist_ok=True)
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text(json.dumps(config_to_file(config)), encoding="utf-8")
    path = folder / "metrics.csv"
    rows = read_table(path) if path.exists() else list(metrics)
    if not rows or int(rows[-1]["iteration"]) < int(row["iterations"]):
        seconds = rows[-1]["seconds"] if rows else row["seconds"]
        rows.append({"iteration": row["iterations"], "env_steps": row["env_steps"], "seconds": seconds})
    write_metrics(path, rows)
    mean, iqm = float(row["evaluation_mean"]), float(row["evaluation_iqm"])
    evaluation = {"iteration": int(row["iterations"]), "mean": mean, "iqm": iqm, "interval": [iqm, iqm]}
    (folder / "evaluation.json").write_text(json.dumps(evaluation), encoding="utf-8")


def as_trained(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """Return settings of the study, changed to those of an earlier run."""
    algorithm = replace(config.algorithm, **settings.get("algorithm", {}))
    return replace(config, **{**settings, "algorithm": algorithm})


def read_runs() -> tuple[list[Row], dict[str, RunConfig]]:
    """Return the lines of the runs in the tables, and the settings of each."""
    rows = read_table(RESULTS / f"{STUDY}.csv")
    rows += [row for row in read_table(RESULTS / "h200.csv") if row["group"] in BASELINES]
    planned = [run for run in read_study(find_study(STUDY)).runs if run.name in {row["run"] for row in rows}]
    configs = {config.name: config for config in configure_runs(planned, STUDY, {})}
    return rows, {row["run"]: as_trained(configs[row["run"]], BASELINES.get(row["group"], {})) for row in rows}


def main() -> None:
    """Write the report."""
    rows, configs = read_runs()
    metrics = read_metrics(RESULTS / "metrics" / "hopper-ahac.csv.xz")
    out = RESULTS / "report"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / STUDY
        folder.mkdir()
        for archive in sorted((RESULTS / "archives").glob(f"*{SUFFIX}")):
            if not archive.name.startswith(OTHERS):
                unpack(archive, folder)
        for run in {path.name for path in folder.iterdir()} - {row["run"] for row in rows}:
            shutil.rmtree(folder / run)
        for row in rows:
            run = folder / row["run"]
            if row["run"] in SHORTER:
                settings = json.loads((run / "config.json").read_text(encoding="utf-8"))
                settings["iterations"] = configs[row["run"]].iterations
                (run / "config.json").write_text(json.dumps(settings), encoding="utf-8")
            if row["evaluation_mean"] and not (run / "evaluation.json").exists():
                complete(run, row, configs[row["run"]], metrics.get(row["run"], []))
        os.chdir(temporary)  # so that the page has no path of this machine
        write_report(
            [STUDY],
            out / "report.html",
            markdown=out / f"{STUDY}.md",
            reference="paper",
            title="Report: the paper's tasks and algorithms",
            notes=NOTES,
        )


if __name__ == "__main__":
    main()
