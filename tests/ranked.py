"""What several processes do together, as a program for torchrun, and what one does for comparison.

torchrun --nproc-per-node 2 tests/ranked.py FOLDER
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ahac.algos.config import FirstOrderConfig
from ahac.algos.first_order import FirstOrder
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.core.ranks import Ranks, join
from ahac.envs import VecEnv, make
from ahac.training.run import open_run, start
from ahac.training.trainer import train
from small_runs import small_config, small_learner

WORLDS, ITERATIONS = 8, 5
POISONED = (6, 17)
"""World and step of the case "poisoned", counted from the first of the third iteration of eight."""


def learners() -> dict[str, FirstOrderConfig]:
    """Of everything that ranks tell each other something different."""
    made = {
        "shac": small_learner("hopper", "shac"), "growth": small_learner("hopper", "ahac"),
        "paper": small_learner("hopper", "ahac", "paper"), "cut": small_learner("hopper", "ahac1"),
    }  # fmt: skip
    # Horizons that move within a few iterations.
    made |= {case: replace(made[case], horizon=replace(made[case].horizon, rate=1e-2, speed=0.2))
             for case in ("growth", "paper")}  # fmt: skip
    probes = replace(made["paper"].stiffness, signal="dynamics", probes=2, limit=50.0, lagrangian=False)
    return {**made, "probes": replace(made["paper"], stiffness=probes), "poisoned": made["shac"]}


def learnt(case: str, ranks: Ranks) -> dict[str, Any]:
    """What some iterations come to, in float64: numbers, and the states of learner and worlds."""
    env = make("hopper", num_envs=ranks.portion(WORLDS), dtype=torch.float64, seed=3, num_threads=1, ranks=ranks)
    if case == "poisoned":
        poison(env, ranks)
    learner = FirstOrder(learners()[case], env.spec, seed=1, ranks=ranks)
    reports = [learner.iterate(env, 0.1 * k) for k in range(ITERATIONS)]
    resets = sum(int(step.done.sum()) for report in reports for step in report.steps)
    return {
        "rows": [{"env_steps": float(r.env_steps), **r.values} for r in reports],
        "state": learner.state_dict(), "env": env.state_dict(),
        "troubles": [r.trouble and (r.trouble.what, r.trouble.worlds, r.trouble.reproducer) for r in reports],
        "resets": int(ranks.gather(torch.tensor([resets])).sum()),
    }  # fmt: skip


def poison(env: VecEnv, ranks: Ranks) -> None:
    """The reward of one world is infinite in one step."""
    world, when = POISONED
    here, plain = ranks.share(torch.arange(WORLDS) == world), env.step
    done = iter(range(1000))

    def step(action: Tensor) -> Step:
        made = plain(action)
        return replace(made, reward=made.reward + torch.where(here, float("inf"), 0.0)) if next(done) == when else made

    env.step = step


def reduced(ranks: Ranks) -> dict[str, Any]:
    """Every way in which ranks put numbers together, of numbers that are easy to know."""
    mine = torch.tensor([1.0, 5.0]) + 10.0 * ranks.rank
    weight = torch.zeros(2, requires_grad=True)
    weight.grad = mine.clone()
    ranks.average_gradients([weight, torch.zeros(1)])
    wide = torch.arange(6.0).reshape(3, 2) + 10.0 * ranks.rank
    found: dict[str, Any] = {
        "share": ranks.share(torch.arange(4)), "gather": ranks.gather(mine), "gather 1": ranks.gather(wide, dim=1),
        "mean": ranks.mean(mine), "max": ranks.max(mine), "all": ranks.all(torch.tensor([True, ranks.first])),
        "any": ranks.any(torch.tensor([False, ranks.first])), "one bool": ranks.any(torch.tensor(not ranks.first)),
        "firsts": ranks.firsts(mine), "gradient": weight.grad, "ask": ranks.ask(lambda: ranks.rank),
        "means": ranks.means({"a": mine[0], "b": mine[1].double()}),
        "merged": ranks.merged(mine.mean(), mine.var(correction=0)),
    }  # fmt: skip
    try:
        ranks.ask(lambda: _refuse())
    except InputError as error:
        found["refused"] = str(error)
    return found


def _refuse() -> None:
    raise InputError("not like this")


def together(ranks: Ranks, folder: Path) -> None:
    """Everything that ends well."""
    cases = {case: learnt(case, ranks) for case in learners()}
    run = start(small_config(folder, iterations=6, name="begun-by-two"), ranks)
    train(run, 3, display=False)
    train(open_run(folder / "begun-by-one", ranks), display=False)
    stopped = start(small_config(folder, name="stopped"), ranks)
    at_the_twentieth_step(stopped.env, ranks, lambda: os.kill(os.getpid(), signal.SIGTERM))
    complete = train(stopped, display=False)
    found = {"cases": cases, "reduced": reduced(ranks), "complete": complete, "folder": run.folder}
    torch.save(found, folder / f"rank-{ranks.rank}.pt")


def failing(ranks: Ranks, folder: Path) -> None:
    """The second rank fails in its third iteration."""
    run = start(small_config(folder, name="failing"), ranks)
    at_the_twentieth_step(run.env, ranks, lambda: 1 // 0)
    train(run, display=False)


def at_the_twentieth_step(env: VecEnv, ranks: Ranks, happens: Callable[[], object]) -> None:
    """Something, on the second rank alone: in the third iteration of eight steps."""
    plain, done = env.step, iter(range(1000))

    def step(action: Tensor) -> Step:
        if next(done) == 20 and not ranks.first:
            happens()
        return plain(action)

    env.step = step


if __name__ == "__main__":
    together(join(), Path(sys.argv[1]))
    failing(join(), Path(sys.argv[1]))
