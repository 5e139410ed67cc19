"""Benchmarks of the bare simulator; each returns rows of plain numbers."""

from __future__ import annotations

import time

import torch

from ahac.bench.clock import interleaved
from ahac.bench.robots import MujocoSteps, in_contact, load
from ahac.bench.rows import Row
from ahac.sim import Simulator, State

__all__ = ["against_mujoco", "compile_times", "throughput"]

DT = 1 / 60
SUBSTEPS = 16
INTEGRATOR = "explicit"
"""As in MuJoCo's `mj_step`, a substep evaluates and factorizes everything once."""
ROLLOUT = 16
"""Control steps per measurement, so that a GPU does not wait for the host between launches."""


class _Steps:
    """Rollouts of one simulator, forward only or forward and backward."""

    def __init__(self, robot: str, worlds: int, device: str, threads: int | None) -> None:
        model = load(robot)
        self.sim = Simulator(
            model,
            num_worlds=worlds,
            dt=DT,
            substeps=SUBSTEPS,
            integrator=INTEGRATOR,
            device=device,
            num_threads=threads,
        )
        state, self.control = in_contact(robot, self.sim)
        self.state = State(state.q.requires_grad_(), state.v.requires_grad_())
        self.control.requires_grad_()

    def forward(self) -> None:
        with torch.no_grad():
            self._roll()

    def _roll(self) -> State:
        state = self.state
        for _ in range(ROLLOUT):
            state = self.sim.step(state, self.control)
        return state

    def both(self) -> None:
        end = self._roll()
        inputs = (self.state.q, self.state.v, self.control)
        torch.autograd.grad((end.q, end.v), inputs, (torch.ones_like(end.q), torch.ones_like(end.v)))


def against_mujoco(robot: str, worlds: int, seconds: float) -> list[Row]:
    """Time a substep of one world with gradients, and an `mj_step` of the same robot in contact, on one core."""
    steps = _Steps(robot, worlds, "cpu", 1)
    reference = MujocoSteps(robot, count=200)
    took = interleaved({"forward": steps.forward, "both": steps.both, "mj_step": reference}, steps.sim.device, seconds)
    share = 1e6 / (worlds * SUBSTEPS * ROLLOUT)
    mj_step = took["mj_step"] * 1e6 / reference.count
    return [
        {
            "robot": robot,
            "worlds": worlds,
            "forward [us]": took["forward"] * share,
            "forward+backward [us]": took["both"] * share,
            "mj_step [us]": mj_step,
            "contacts in mj_step": reference.contacts,
            "mj_step / forward+backward": mj_step / (took["both"] * share),
        }
    ]


def throughput(robot: str, sizes: list[int], device: str, threads: list[int], seconds: float) -> list[Row]:
    """Measure control steps per second, forward only and with backward, by number of worlds and threads."""
    rows = []
    for worlds in sizes:
        by_threads = {n: _Steps(robot, worlds, device, n) for n in threads}
        works = {f"{n}{kind}": getattr(s, kind) for n, s in by_threads.items() for kind in ("forward", "both")}
        took = interleaved(works, by_threads[threads[0]].sim.device, seconds)
        base = took[f"{threads[0]}both"]
        for n, steps in by_threads.items():
            model = steps.sim.model
            rows.append(
                {
                    "robot": robot,
                    "device": device,
                    "threads": n if device == "cpu" else "-",
                    "worlds": worlds,
                    "forward [steps/s]": worlds * ROLLOUT / took[f"{n}forward"],
                    "forward+backward [steps/s]": worlds * ROLLOUT / took[f"{n}both"],
                    "forward+backward [ms]": took[f"{n}both"] * 1e3 / ROLLOUT,
                    "speed-up": base / took[f"{n}both"],
                    "kept [kB/world/step]": (model.nq + model.nv) * SUBSTEPS * 4 / 1e3,
                }
            )
    return rows


def compile_times(robot: str, device: str) -> Row:
    """Measure the seconds to load the model, to trace it, and to run the first step and its backward pass."""
    start = time.perf_counter()
    model = load(robot)
    loaded = time.perf_counter()
    sim = Simulator(model, num_worlds=16, dt=DT, substeps=SUBSTEPS, integrator=INTEGRATOR, device=device)
    traced = time.perf_counter()
    rest = sim.rest_state()
    end = sim.step(State(rest.q.requires_grad_(), rest.v))
    float(torch.autograd.grad(end.v.sum(), rest.q)[0].sum())
    done = time.perf_counter()
    return {
        "robot": robot,
        "device": device,
        "load [s]": loaded - start,
        "trace [s]": traced - loaded,
        "first step and backward [s]": done - traced,
    }
