"""Compiled kernels: every lane width, threads, the cache on disk, processes that compile at the same time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from ahac.sim import Integrator, Simulator, State, autograd, load_model

HOPPING = """<mujoco model="hopping"><worldbody><geom type="plane" size="1 1 1"/>
  <body pos="0 0 .3"><freejoint/><geom type="capsule" fromto="0 0 -.1 0 .1 .1" size=".1"/>
    <body pos="0 .1 .1"><joint name="hip" axis="1 .5 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .2 0 -.3" size=".05"/>
  </body></body></worldbody><actuator><motor joint="hip"/></actuator></mujoco>"""

# A product and a sum may be fused on one instruction set and not on another: one rounding per operation, over 64 steps.
ROUNDING = 1e-4
# The same in float64. Default contact is stiffer for implicit integration: in float32, worlds in which a point slips
# one step later differ by more than that.
ROUNDING_64 = 1e-10

SCRIPT = f"""
import torch
from ahac.sim import Simulator, load_model
sim = Simulator(load_model('''{HOPPING}'''), num_worlds=3, dt=1 / 60, substeps=4)
state = sim.rest_state()
control = torch.ones(3, 1, requires_grad=True)
for _ in range(5):
    state = sim.step(state, control)
state.v.sum().backward()
import sys
sys.stdout.write(repr([*state.q[0].tolist(), *control.grad[:, 0].tolist()]))
"""


def _rollout(
    threads: int = 1,
    worlds: int = 40,
    steps: int = 8,
    integrator: Integrator = "implicit",
    dtype: torch.dtype = torch.float32,
) -> list[torch.Tensor]:
    sim = Simulator(
        load_model(HOPPING),
        num_worlds=worlds,
        dt=1 / 60,
        substeps=8,
        num_threads=threads,
        integrator=integrator,
        dtype=dtype,
    )
    rng = torch.Generator().manual_seed(0)
    control = torch.randn(worlds, 1, generator=rng).to(dtype).requires_grad_()
    rest = sim.rest_state()
    state = State(rest.q, 0.1 * torch.randn(rest.v.shape, generator=rng).to(dtype))
    for _ in range(steps):
        state = sim.step(state, control)
    (gradient,) = torch.autograd.grad(state.q.square().sum() + state.v.sum(), control)
    return [state.q.detach(), state.v.detach(), gradient]


PRECISIONS = [("explicit", torch.float32, ROUNDING), ("implicit", torch.float64, ROUNDING_64)]


@pytest.mark.parametrize(
    ("width", "integrator", "dtype", "rounding"),
    [(16, *PRECISIONS[0]), (32, *PRECISIONS[1]), (64, *PRECISIONS[0]), (64, *PRECISIONS[1])],
)
def test_lane_width_does_not_change_the_physics(
    width: int, integrator: Integrator, dtype: torch.dtype, rounding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _rollout(integrator=integrator, dtype=dtype)
    capability = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr("ahac.core.hardware.LANE_BYTES", {capability: width})
    for got, want in zip(_rollout(integrator=integrator, dtype=dtype), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=rounding, atol=rounding)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small as they are, these launches are shared out, to three helpers that come early, late or not at all.
    monkeypatch.setattr("ahac.native.build.MIN_WORK_TO_SHARE", 1)
    alone = _rollout(threads=1, worlds=200)
    for _ in range(20):
        together = _rollout(threads=4, worlds=200)
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.extended
def test_processes_share_the_cache_and_later_ones_find_it_filled(tmp_path: Path) -> None:
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
        out, err = process.communicate()
        assert process.returncode == 0, f"exit status {process.returncode}: {err}"
        return out, err

    rivals = [finish(process) for process in [start(), start()]]
    later = finish(start())
    assert rivals[0][0] == rivals[1][0] == later[0]
    assert "compiling the step of 'hopping' for cpu" in rivals[0][1] + rivals[1][1]
    assert "compiling" not in later[1]


def test_a_forked_child_does_not_inherit_the_lock_of_tracing() -> None:
    with autograd._deriving:
        child = os.fork()
        if child == 0:
            with ThreadPoolExecutor(1) as another:
                free = another.submit(autograd._deriving.acquire, blocking=False).result()
            os._exit(0 if free else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("substeps", [1, 16])
def test_backward_keeps_positions_and_velocities_of_each_substep_and_nothing_else(substeps: int) -> None:
    model, worlds = load_model(HOPPING), 64
    sim = Simulator(model, num_worlds=worlds, dt=1 / 60, substeps=substeps)
    state = sim.rest_state()
    control = torch.zeros(worlds, 1, requires_grad=True)
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        after = sim.step(state, control)
    outside = {tensor.data_ptr() for tensor in (state.q, control, after.q, after.v)}
    grown = sum(size for address, size in kept.items() if address not in outside)
    assert grown == worlds * substeps * (model.nq + model.nv)
