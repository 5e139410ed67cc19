"""What several processes do together, as a program for torchrun, and what one does for comparison.

torchrun --nproc-per-node 2 tests/support/distributed_program.py FOLDER
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

from ahac.algos.config import ShortHorizonConfig, UpdateConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.bundle import BundleConfig
from ahac.core.distributed import ProcessGroup, init_distributed
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make_task
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support.remembering import remembering_task
from support.small_runs import small_algorithm, small_config

WORLDS, ITERATIONS = 8, 5
POISONED = (6, 17)
"""World and step of the case "poisoned", counted from the first of the third iteration of eight."""


def learners() -> dict[str, ShortHorizonConfig]:
    """Of everything that ranks tell each other something different."""
    made = {
        "shac": small_algorithm("hopper", "shac"),
        "growth": small_algorithm("hopper", "ahac"),
        "paper": small_algorithm("hopper", "ahac", "paper"),
        "cut": small_algorithm("hopper", "ahac1"),
    }
    # Horizons that move within a few iterations.
    made |= {
        case: replace(made[case], horizon=replace(made[case].horizon, learning_rate=1e-2, speed=0.2))
        for case in ("growth", "paper")
    }
    probes = replace(made["paper"].stiffness, signal="dynamics", probes=2, limit=50.0, lagrangian=False)
    return {
        **made,
        "probes": replace(made["paper"], stiffness=probes),
        "poisoned": made["shac"],
        "groups": made["shac"],
        "mixed": replace(small_algorithm("hopper", "sapo"), update=UpdateConfig(epochs=2, gradient="mixed")),
        "bundled": replace(made["shac"], bundle=BundleConfig(branches=2, load=0.5)),
    }


def learnt(case: str, ranks: ProcessGroup) -> dict[str, Any]:
    """What some iterations come to, in float64: numbers, and the states of algorithm and worlds."""
    env = VecEnv(
        remembering_task() if case == "groups" else make_task("hopper"),
        num_envs=ranks.local_count(WORLDS),
        dtype=torch.float64,
        seed=3,
        num_threads=1,
        ranks=ranks,
    )
    if case == "poisoned":
        poison(env, ranks)
    algorithm = ShortHorizonActorCritic(learners()[case], env.spec, seed=1, ranks=ranks)
    reports = [algorithm.iterate(env, 0.1 * k) for k in range(ITERATIONS)]
    resets = sum(int(step.done.sum()) for report in reports for step in report.steps)
    return {
        "rows": [{"env_steps": float(r.env_steps), **r.metrics} for r in reports],
        "state": algorithm.state_dict(),
        "env": env.state_dict(),
        "troubles": [r.failure and (r.failure.message, r.failure.worlds, r.failure.reproducer) for r in reports],
        "resets": int(ranks.gather(torch.tensor([resets])).sum()),
    }


def poison(env: VecEnv, ranks: ProcessGroup) -> None:
    """The reward of one world is infinite in one step."""
    world, when = POISONED
    here, plain = ranks.local_slice(torch.arange(WORLDS) == world), env.step
    done = iter(range(1000))

    def step(action: Tensor) -> Step:
        made = plain(action)
        return replace(made, reward=made.reward + torch.where(here, float("inf"), 0.0)) if next(done) == when else made

    env.step = step


def reduced(ranks: ProcessGroup) -> dict[str, Any]:
    """Every way in which ranks put numbers together, of numbers that are easy to know."""
    mine = torch.tensor([1.0, 5.0]) + 10.0 * ranks.rank
    weight = torch.zeros(2, requires_grad=True)
    weight.grad = mine.clone()
    ranks.average_gradients([weight, torch.zeros(1)])
    wide = torch.arange(6.0).reshape(3, 2) + 10.0 * ranks.rank
    found: dict[str, Any] = {
        "share": ranks.local_slice(torch.arange(4)),
        "gather": ranks.gather(mine),
        "gather 1": ranks.gather(wide, dim=1),
        "mean": ranks.mean(mine),
        "max": ranks.max(mine),
        "all": ranks.all(torch.tensor([True, ranks.is_main])),
        "any": ranks.any(torch.tensor([False, ranks.is_main])),
        "one bool": ranks.any(torch.tensor(not ranks.is_main)),
        "firsts": ranks.from_rank_zero(mine),
        "gradient": weight.grad,
        "ask": ranks.run_on_rank_zero(lambda: ranks.rank),
        "means": ranks.means({"a": mine[0], "b": mine[1].double()}),
    }
    try:
        ranks.run_on_rank_zero(lambda: _refuse())
    except InputError as error:
        found["refused"] = str(error)
    return found


def _refuse() -> None:
    raise InputError("not like this")


def together(ranks: ProcessGroup, folder: Path) -> None:
    """Everything that ends well."""
    cases = {case: learnt(case, ranks) for case in learners()}
    run = create_run(small_config(folder, iterations=6, name="begun-by-two"), ranks)
    train(run, 3, display=False)
    train(open_run(folder / "begun-by-one", ranks), display=False)
    stopped = create_run(small_config(folder, name="stopped"), ranks)
    at_the_twentieth_step(stopped.env, ranks, lambda: os.kill(os.getpid(), signal.SIGTERM))
    complete = train(stopped, display=False)
    called: list[float] = []
    halted = create_run(small_config(folder, name="halted"), ranks)
    train(
        halted, display=False, callbacks=[lambda run, metrics: called.append(metrics["iteration"]) or len(called) < 2]
    )
    found = {"cases": cases, "reduced": reduced(ranks), "complete": complete, "folder": run.folder, "called": called}
    torch.save(found, folder / f"rank-{ranks.rank}.pt")


def failing(ranks: ProcessGroup, folder: Path) -> None:
    """The second rank fails in its third iteration."""
    run = create_run(small_config(folder, name="failing"), ranks)
    at_the_twentieth_step(run.env, ranks, lambda: 1 // 0)
    train(run, display=False)


def at_the_twentieth_step(env: VecEnv, ranks: ProcessGroup, happens: Callable[[], object]) -> None:
    """Something, on the second rank alone: in the third iteration of eight steps."""
    plain, done = env.step, iter(range(1000))

    def step(action: Tensor) -> Step:
        if next(done) == 20 and not ranks.is_main:
            happens()
        return plain(action)

    env.step = step


if __name__ == "__main__":
    together(init_distributed(), Path(sys.argv[1]))
    failing(init_distributed(), Path(sys.argv[1]))
