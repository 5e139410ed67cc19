"""Several CUDA threads share a world: the same numbers as one of them alone, up to rounding."""

from dataclasses import replace

import pytest
import torch

from ahac.envs import make
from ahac.sim import Simulator, State
from ahac.sim.autograd import StepKernels

pytestmark = pytest.mark.gpu

WORLDS = 70
"""Not a multiple of a warp's 32."""


def stepped(sim: Simulator, parts: int) -> list[torch.Tensor]:
    """A step and its gradients, by so many threads."""
    sim._step = StepKernels(replace(sim._launcher, threads_per_world=parts), sim._programs.step(), sim.num_worlds)
    rng = torch.Generator().manual_seed(0)
    rest = sim.rest_state()
    q = (rest.q + 0.02 * torch.randn(rest.q.shape, generator=rng, dtype=sim.dtype).cuda()).requires_grad_()
    v = torch.randn(rest.v.shape, generator=rng, dtype=sim.dtype).cuda().requires_grad_()
    u = torch.rand((sim.num_worlds, sim.model.nu), generator=rng, dtype=sim.dtype).cuda().requires_grad_()
    f = torch.randn((sim.num_worlds, sim.model.nv), generator=rng, dtype=sim.dtype).cuda().requires_grad_()
    end = sim.step(State(q, v), u, f)
    loss = (end.q.square().sum() + end.v.sin().sum()) * 1e-2
    return [end.q.detach(), end.v.detach(), *torch.autograd.grad(loss, (q, v, u, f))]


@pytest.mark.parametrize("name", ["hopper", "ant", "humanoid"])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_compute_what_one_thread_does(name: str, parts: int) -> None:
    task = make(name, num_envs=1).task
    sim = Simulator(task.model, num_worlds=WORLDS, dt=task.dt, substeps=4, device="cuda", dtype=torch.float64)
    for found, wanted in zip(stepped(sim, parts), stepped(sim, 1), strict=True):
        assert (found - wanted).abs().max() < 1e-9 * wanted.abs().max()


def test_two_warps_of_a_block_do_not_meddle_with_each_other() -> None:
    # From 512 worlds on they share a block; the last one here has only some worlds.
    task = make("ant", num_envs=1).task
    sim = Simulator(task.model, num_worlds=550, dt=task.dt, substeps=4, device="cuda", dtype=torch.float64)
    by_four = stepped(sim, 4)
    assert sim._step.forward.source.warps == 2
    for found, wanted in zip(by_four, stepped(sim, 1), strict=True):
        assert (found - wanted).abs().max() < 1e-9 * wanted.abs().max()
