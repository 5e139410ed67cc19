"""PPO and SAC beside those of Stable-Baselines3: the same tasks, settings, budgets and seeds, policies judged alike.

    python docs/studies/baselines/compare_sb3.py --out docs/studies/baselines/sb3.csv [--only ppo-pendulum] [--seeds 5]

Stable-Baselines3 is not among this project's dependencies: `pip install stable-baselines3` first. Both sides see tasks
with actions in [-1, 1], and after training play the same 20 episodes with their best actions. Rows that the file has
already are not trained again. `--table` prints what it has.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gym_worlds import GymWorlds, make

from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.sac import SAC, SACConfig

EPISODES = 20
EVAL_SEED = 10_000
COLUMNS = ("case", "task", "algorithm", "side", "seed", "steps", "mean", "seconds")
Act = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A task and an algorithm, with the settings of both sides."""

    task: str
    worlds: int
    env_steps: int
    ours: PPOConfig | SACConfig
    theirs: dict[str, object]


def ppo(
    task: str, env_steps: int, *, worlds: int, steps: int, passes: int, minibatches: int, rate: float, gamma: float
) -> Case:
    """Two hidden layers of 64 and tanh on both sides; nothing normalised, no clipped values, a constant rate."""
    ours = PPOConfig(
        hidden=(64, 64),
        critic_hidden=(64, 64),
        activation="tanh",
        init_log_std=0.0,
        steps_per_env=steps,
        epochs=passes,
        minibatches=minibatches,
        learning_rate=rate,
        target_kl=None,
        clip_range=0.2,
        clip_range_vf=None,
        value_coef=1.0,
        action_bound_coef=0.0,
        max_grad_norm=0.5,
        normalize_obs=False,
        normalize_value=False,
        reward_scale=1.0,
        gamma=gamma,
        gae_lambda=0.95,
    )
    # Their loss of the critic is the mean square, ours half of it.
    theirs = {
        "n_steps": steps,
        "n_epochs": passes,
        "batch_size": steps * worlds // minibatches,
        "learning_rate": rate,
        "gamma": gamma,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "ent_coef": 0.0,
    }
    return Case(task, worlds, env_steps, ours, theirs)


def sac(task: str, env_steps: int, *, rate: float, gamma: float) -> Case:
    """Two hidden layers of 64 and ReLU on both sides, one world, one update per step."""
    ours = SACConfig(
        hidden=(64, 64),
        critic_hidden=(64, 64),
        activation="relu",
        log_std_bounds=(-20.0, 2.0),
        learning_rate=rate,
        init_alpha=1.0,
        alpha_learning_rate=rate,
        tau=0.005,
        buffer_size=100_000,
        batch_size=256,
        steps_per_env=125,
        updates=1,
        learning_starts=500,
        normalize_obs=False,
        gamma=gamma,
    )
    theirs = {
        "learning_rate": rate,
        "gamma": gamma,
        "tau": 0.005,
        "buffer_size": 100_000,
        "batch_size": 256,
        "learning_starts": 500,
        "train_freq": 1,
        "gradient_steps": 1,
        "ent_coef": "auto",
    }
    return Case(task, 1, env_steps, ours, theirs)


CASES = {
    "ppo-pendulum": ppo("Pendulum-v1", 61_440, worlds=4, steps=1024, passes=10, minibatches=32, rate=1e-3, gamma=0.9),
    "ppo-inverted": ppo("InvertedPendulum-v5", 40_960, worlds=4, steps=512, passes=10, minibatches=16, rate=1e-3,
                        gamma=0.99),
    "sac-pendulum": sac("Pendulum-v1", 5_000, rate=1e-3, gamma=0.99),
    "sac-reacher": sac("Reacher-v5", 5_000, rate=1e-3, gamma=0.99),
}  # fmt: skip


def ours(case: Case, seed: int) -> Act:
    """Train with this project."""
    env = GymWorlds(case.task, case.worlds, seed)
    kind = PPO if isinstance(case.ours, PPOConfig) else SAC
    algo, done = kind(case.ours, env.spec, seed), 0  # pyright: ignore[reportArgumentType]
    while done < case.env_steps:
        report = algo.iterate(env, done / case.env_steps)
        done += report.env_steps
    return lambda obs: algo.act(torch.from_numpy(obs.astype(np.float32))[None])[0].numpy()


def theirs(case: Case, seed: int) -> Act:
    """Train with Stable-Baselines3."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.vec_env import DummyVecEnv
    from torch import nn

    env = DummyVecEnv([lambda: make(case.task) for _ in range(case.worlds)])
    env.seed(seed)
    on_policy = isinstance(case.ours, PPOConfig)
    net = {"net_arch": [64, 64], "activation_fn": nn.Tanh if on_policy else nn.ReLU}
    kind = sb3.PPO if on_policy else sb3.SAC
    algo = kind("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=net, **case.theirs)  # pyright: ignore
    algo.learn(case.env_steps)
    return lambda obs: algo.predict(obs, deterministic=True)[0]


def judged(task: str, act: Act) -> float:
    """Mean return of the same episodes for everyone."""
    env, returns = make(task), []
    for k in range(EPISODES):
        obs, _ = env.reset(seed=EVAL_SEED + k)
        total, over = 0.0, False
        while not over:
            obs, reward, ended, cut, _ = env.step(np.clip(act(obs), -1.0, 1.0))
            total, over = total + float(reward), bool(ended or cut)
        returns.append(total)
    return float(np.mean(returns))


def table(rows: list[dict[str, str]]) -> str:
    """Mean, spread and range over seeds, side by side."""
    lines = [
        "| case | steps | side | seeds | mean | sd | worst | best | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        for side in ("ahac", "sb3"):
            found = [row for row in rows if (row["case"], row["side"]) == (case, side)]
            if found:
                scores = np.array([float(row["mean"]) for row in found])
                seconds = np.mean([float(row["seconds"]) for row in found])
                lines.append(
                    f"| {case} | {found[0]['steps']} | {side} | {len(found)} | {scores.mean():.1f} | "
                    f"{scores.std(ddof=1) if len(scores) > 1 else 0.0:.1f} | {scores.min():.1f} | {scores.max():.1f} | "
                    f"{seconds:.0f} |"
                )
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "sb3.csv")
    parser.add_argument("--only", choices=list(CASES), nargs="*", default=list(CASES))
    parser.add_argument("--sides", choices=["ahac", "sb3"], nargs="*", default=["ahac", "sb3"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    rows = list(csv.DictReader(options.out.open(encoding="utf-8"))) if options.out.exists() else []
    if options.table:
        sys.stdout.write(table(rows) + "\n")
        return
    torch.set_num_threads(1)
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    known = {(row["case"], row["side"], row["seed"]) for row in rows}
    for seed in range(options.seeds):
        for name in options.only:
            for side, learn in (("ahac", ours), ("sb3", theirs)):
                if side not in options.sides or (name, side, str(seed)) in known:
                    continue
                case, start = CASES[name], time.perf_counter()
                act = learn(case, seed)
                seconds = time.perf_counter() - start
                row = {
                    "case": name,
                    "task": case.task,
                    "algorithm": name.partition("-")[0],
                    "side": side,
                    "seed": str(seed),
                    "steps": str(case.env_steps),
                    "mean": f"{judged(case.task, act):.2f}",
                    "seconds": f"{seconds:.0f}",
                }
                rows.append(row)
                with options.out.open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    writer.writeheader()
                    writer.writerows(rows)
                sys.stderr.write(f"{row}\n")


if __name__ == "__main__":
    main()
