"""FastTD3 on Gymnasium's MuJoCo tasks with a small setting, on one thread of the CPU.

    python docs/studies/baselines/train_fasttd3.py hopper --minutes 15 [--env-steps N] [--seed 0] [--out fasttd3.csv]

Training stops after the steps of the case, or N, or after some minutes. About ten times in between, and at the end, the
policy plays the same ten episodes without noise; their mean return is a row of the file. The learning rate falls over
these steps.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from gym_worlds import GymWorlds, make

from ahac.algos.fasttd3 import FastTD3, FastTD3Config

EPISODES = 10
EVAL_SEED = 10_000
EVALUATIONS = 10
COLUMNS = ("task", "seed", "steps", "updates", "mean", "sd", "minutes")

SMALL = FastTD3Config(
    hidden=(256, 256),
    critic_hidden=(256, 256),
    batch_size=256,
    buffer_size=1_000_000,
    steps_per_env=25,
    learning_starts=10_000,
    learning_rate=6e-4,
    final_learning_rate=6e-5,
    weight_decay=0.01,
    reward_scale=0.1,
    v_min=-125.0,
    v_max=125.0,
)


@dataclass(frozen=True)
class Case:
    """A task, its budget and its settings."""

    task: str
    env_steps: int
    worlds: int = 32
    settings: FastTD3Config = SMALL


CASES = {
    "inverted_pendulum": Case(
        "InvertedPendulum-v5", 60_000, settings=replace(SMALL, learning_starts=2000, v_min=-25.0, v_max=25.0)
    ),
    "half_cheetah": Case("HalfCheetah-v5", 400_000),
    "hopper": Case("Hopper-v5", 400_000, settings=replace(SMALL, v_min=-50.0, v_max=50.0)),
}


def evaluate(task: str, algo: FastTD3) -> np.ndarray:
    """Returns of the same episodes for everyone, without noise."""
    env, returns = make(task), []
    for k in range(EPISODES):
        obs, _ = env.reset(seed=EVAL_SEED + k)
        total, over = 0.0, False
        while not over:
            action = algo.act(torch.from_numpy(obs.astype(np.float32))[None])[0].numpy()
            obs, reward, ended, cut, _ = env.step(action)
            total, over = total + float(reward), bool(ended or cut)
        returns.append(total)
    return np.array(returns)


def main() -> None:
    """Train, and write a row per evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--env-steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "fasttd3.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[options.case]
    env_steps = options.env_steps or case.env_steps
    env = GymWorlds(case.task, case.worlds, options.seed)
    algo = FastTD3(case.settings, env.spec, options.seed)
    done, updates, spent = 0, 0, 0.0
    while done < env_steps and spent < 60.0 * options.minutes:
        start = time.perf_counter()
        result = algo.iterate(env, done / env_steps)
        spent += time.perf_counter() - start
        before, done = done, done + result.env_steps
        updates += case.settings.updates * len(result.steps) if "q" in result.metrics else 0
        last = done >= env_steps or spent >= 60.0 * options.minutes
        if last or done * EVALUATIONS // env_steps > before * EVALUATIONS // env_steps:
            returns = evaluate(case.task, algo)
            row = (case.task, options.seed, done, updates, f"{returns.mean():.1f}", f"{returns.std(ddof=1):.1f}")
            metrics = {name: round(x, 4) for name, x in result.metrics.items()}
            sys.stderr.write(f"{row} {spent / 60.0:.1f} min {metrics}\n")
            new = not options.out.exists()
            with options.out.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if new:
                    writer.writerow(COLUMNS)
                writer.writerow((*row, f"{spent / 60.0:.1f}"))


if __name__ == "__main__":
    main()
