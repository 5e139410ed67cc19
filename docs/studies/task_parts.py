"""Tasks of the paper without a part that appendix F discusses: early termination, or auxiliary rewards.

    ahac sweep docs/studies/task-parts.toml --jobs 2
    python docs/studies/task_parts.py runs/task-parts

The second command evaluates the policies on the original tasks and writes docs/results/task-parts.csv.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import ahac
from ahac.envs.ant import ant
from ahac.envs.hopper import hopper
from ahac.envs.humanoid import humanoid
from ahac.envs.robot import RobotTask
from ahac.envs.task import Task
from ahac.experiments.run_sets import RunSet
from ahac.training.evaluate import evaluate
from ahac.training.run import open_run

TABLE = Path(__file__).parents[1] / "results" / "task-parts.csv"
WORLDS = 64
EPISODES = 128
MILESTONES = {"500k": 500_000, "1M": 1_000_000}
"""Environment steps at which the table has training returns."""


def hopper_endless() -> Task:
    """Return Hopper without early termination."""
    return replace(hopper(), name="hopper_endless", recipe="hopper", alive=None)


def ant_endless() -> Task:
    """Return Ant without early termination."""
    return endless(ant())


def humanoid_endless() -> Task:
    """Return Humanoid without early termination."""
    return endless(humanoid())


def hopper_bare() -> Task:
    """Return Hopper with the rewards of speed and effort only."""
    return bare(hopper())


def ant_bare() -> Task:
    """Return Ant with the rewards of speed and effort only."""
    return bare(ant())


def endless(task: Task) -> Task:
    """Return a running task without early termination."""
    assert isinstance(task, RobotTask)
    return replace(task, name=f"{task.name}_endless", recipe=task.name, terminate_below=None)


def bare(task: Task) -> Task:
    """Return a task without the rewards of height, angle and heading."""
    reward = {name: task.reward[name] for name in ("forward", "effort")}
    return replace(task, name=f"{task.name}_bare", recipe=task.name, reward=reward)


def main() -> None:
    """Evaluate the runs in a folder on the tasks with all their parts, and write the table."""
    rows = []
    for files in RunSet([sys.argv[1]]).read():
        run = open_run(files.folder, trust=True)
        run.restore(with_env=False)
        task, part = run.task.name.rsplit("_", 1)
        env = ahac.make(task, num_envs=WORLDS, seed=run.eval_seed)
        result = evaluate(env, run.policy, EPISODES)
        rows.append(
            {
                "run": files.folder.name,
                "task": task,
                "without": {"endless": "early termination", "bare": "height, angle and heading rewards"}[part],
                "seed": run.config.seed,
                "env_steps": int(files.last("env_steps")),
                "seconds": round(files.last("seconds"), 1),
                "evaluation_mean": round(result.mean, 1),
                "evaluation_iqm": round(result.iqm, 1),
                "evaluation_length": round(float(result.lengths.mean()), 1),
                **{
                    f"return_at_{name}_steps": round(files.return_at("env_steps", n), 1)
                    for name, n in MILESTONES.items()
                },
            }
        )
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
