"""Speed of tasks: a differentiable step with observation, reward, termination and reset, next to the bare simulator."""

from __future__ import annotations

import torch
from torch import Tensor

from ahac.bench.clock import interleaved
from ahac.bench.rows import Row, clean_gpu
from ahac.envs import Task
from ahac.envs.vec_env import VecEnv
from ahac.runtime.cuda_graphs import make_executor
from ahac.runtime.stages import stage
from ahac.sim import Simulator

__all__ = ["ROLLOUT", "Rollouts", "task_throughput"]

ROLLOUT = 16
"""Control steps per measurement, so that a GPU does not wait for the host between launches."""


class Rollouts:
    """Rollouts of one task under random actions, in its environment and in the bare simulator."""

    def __init__(self, task: Task, worlds: int, device: str, threads: int | None) -> None:
        self.env = VecEnv(task, num_envs=worlds, device=device, num_threads=threads)
        self.sim = Simulator(
            task.model,
            num_worlds=worlds,
            dt=task.dt,
            substeps=task.substeps,
            integrator=task.integrator,
            device=device,
            num_threads=threads,
        )
        rng = torch.Generator(self.sim.device).manual_seed(0)
        shape = (worlds, task.model.nu)
        self.actions = [
            torch.rand(shape, generator=rng, device=self.sim.device).mul(2.0).sub(1.0).requires_grad_()
            for _ in range(ROLLOUT)
        ]
        self.executor = make_executor(self.env, [])  # CUDA graphs, as in training

    def forward(self) -> None:
        """Take steps without gradients."""
        self.executor.call(self._forward, self.env)

    def both(self) -> None:
        """Take steps and differentiate them."""
        self.executor.call(self._both, self.env)

    @stage
    @torch.no_grad()
    def _forward(self, env: VecEnv) -> None:
        for action in self.actions:
            env.step(action)

    @stage
    def _both(self, env: VecEnv) -> tuple[Tensor, ...]:
        env.detach()
        steps = [env.step(action) for action in self.actions]
        total = torch.stack([step.reward for step in steps]).sum() + steps[-1].final_obs.sum()
        return torch.autograd.grad(total, self.actions)

    def warm_up(self) -> None:
        """Compile everything, by running each stage eagerly once."""
        self.forward()
        self.both()

    def bare(self) -> None:
        """Take steps of the simulator alone and differentiate them."""
        end = self.env.state.detach()
        for action in self.actions:
            end = self.sim.step(end, action)
        torch.autograd.grad((end.q, end.v), self.actions, (torch.ones_like(end.q), torch.ones_like(end.v)))


def task_throughput(task: Task, sizes: list[int], device: str, threads: list[int], seconds: float) -> list[Row]:
    """Measure steps per second of a task, forward only and with backward, by number of worlds and threads."""
    rows = []
    for worlds in sizes:
        for n in threads:
            with clean_gpu(device):
                rows.append(_row(task, worlds, device, n, seconds))
    return rows


def _row(task: Task, worlds: int, device: str, threads: int, seconds: float) -> Row:
    work = Rollouts(task, worlds, device, threads)
    work.warm_up()
    used = work.env.spec.device
    cuda = used.type == "cuda"
    kinds = {"forward": work.forward, "both": work.both} | ({} if cuda else {"bare": work.bare})
    if cuda:
        torch.cuda.reset_peak_memory_stats(used)
    took = interleaved(kinds, used, seconds)
    return {
        "task": task.name,
        "substeps": f"{task.substeps} {task.integrator}",
        "device": device,
        "threads": threads if device == "cpu" else "-",
        "worlds": worlds,
        "forward [steps/s]": worlds * ROLLOUT / took["forward"],
        "forward+backward [steps/s]": worlds * ROLLOUT / took["both"],
        "forward [ms]": took["forward"] * 1e3 / ROLLOUT,
        "forward+backward [ms]": took["both"] * 1e3 / ROLLOUT,
        "over the bare simulator": took["both"] / took["bare"] if "bare" in took else None,
        "peak [MB]": torch.cuda.max_memory_allocated(used) / 1e6 if cuda else None,
    }
