"""On a GPU: the same physics and gradients, on torch's streams, without host synchronisation, inside CUDA graphs."""

import math

import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, JointLimit, Simulator, State, World, atan2, compliant, exp, load_model, log, tanh
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Readout
from gradients.chains import Chain, relative

pytestmark = pytest.mark.gpu

WORLDS = 33
SUBSTEPS = 8
DT = 1 / 120
# Ten thousand operations per substep with rounding 1e-16, over contact that amplifies a thousandfold at most.
SAME_PHYSICS = 1e-10
# The same operations with rounding 6e-8.
SINGLE_PRECISION = 1e-4
# One contact early or late by a substep changes a velocity by a few per cent.
KINK = 0.1

ROBOT = """<mujoco model="tumbler"><worldbody><geom type="plane" size="1 1 1" euler="5 0 0"/>
  <body name="trunk" pos="0 0 .15"><freejoint/><geom type="box" size=".1 .1 .1"/>
    <body pos="0 .1 .1"><joint name="hip" type="ball" damping=".1" stiffness="2"/>
      <geom type="capsule" fromto="0 0 0 .2 0 -.3" size=".05"/>
      <body pos=".2 0 -.3"><joint name="knee" axis="0 1 0" range="-20 20"/><geom type="ellipsoid" size=".05 .1 .07"/>
  </body></body></body></worldbody>
  <actuator><position joint="knee" kp="5"/><motor joint="hip" gear="1 2 3"/></actuator></mujoco>"""


SOFT = ContactMaterial(stiffness=1e4, damping=1e3, viscosity=1e2, friction=0.8)


def probe(world: World) -> list[object]:
    """Every function of the mathematics library on the way."""
    x, velocity = world.position("trunk"), world.velocity("trunk")
    height = x.z * x.z + 1.0
    return [exp(-height), log(height), tanh(velocity.x), atan2(velocity.y, height), velocity.z - world.before.v[2]]  # pyright: ignore[reportOptionalMemberAccess]


def _simulator(dtype: torch.dtype = torch.float64, worlds: int = WORLDS) -> Simulator:
    model = load_model(ROBOT, contact=SOFT, limit=JointLimit(stiffness=20.0, damping=0.1))
    readouts: dict[str, Readout] = {"probe": probe}  # pyright: ignore[reportAssignmentType]
    return Simulator(model, num_worlds=worlds, dt=DT, substeps=SUBSTEPS, device="cuda", dtype=dtype, readouts=readouts)


def _start(sim: Simulator) -> tuple[State, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    rest = sim.rest_state()
    q = rest.q + 0.05 * torch.randn(rest.q.shape, generator=rng, dtype=sim.dtype).cuda()
    v = torch.randn(rest.v.shape, generator=rng, dtype=sim.dtype).cuda()
    control = torch.randn((sim.num_worlds, sim.model.nu), generator=rng, dtype=sim.dtype).cuda()
    return State(q.requires_grad_(), v.requires_grad_()), control.requires_grad_()


def _gradient(sim: Simulator, state: State, control: torch.Tensor, steps: int = 3) -> torch.Tensor:
    for _ in range(steps):
        state = sim.step(state, control)
    return torch.autograd.grad(state.v.sum() + state.readouts["probe"].sum(), control)[0]


def test_step_and_gradient_are_those_of_the_traced_physics() -> None:
    sim = _simulator()
    state, control = _start(sim)
    end = sim.step(state, control)
    inputs = {"q": state.q, "v": state.v, "u": control}
    gradients = torch.autograd.grad(end.q.sum() + end.v.sum() + end.readouts["probe"].sum(), list(inputs.values()))
    chain = Chain(sim.model, ForceLaws(compliant, implicit=True), {"probe": probe})  # pyright: ignore[reportArgumentType]
    x = {name: value.detach().cpu().numpy() for name, value in inputs.items()} | {"f": np.zeros((WORLDS, sim.model.nv))}
    run = chain.run(x, DT / SUBSTEPS, SUBSTEPS)
    bars = chain.pull(x, run, {name: np.ones_like(value) for name, value in run.end.items()})
    for got, name in ((end.q, "q"), (end.v, "v"), (end.readouts["probe"], "read_0")):
        assert relative(got.detach().cpu().numpy(), run.end[name]) < SAME_PHYSICS
    for got, name in zip(gradients, inputs, strict=True):
        assert relative(got.cpu().numpy(), bars[name]) < SAME_PHYSICS


def test_float32_follows_float64() -> None:
    ends = []
    for dtype in (torch.float32, torch.float64):
        sim = _simulator(dtype)
        state, control = _start(_simulator())
        ends.append(sim.step(State(state.q.to(dtype), state.v.to(dtype)), control.to(dtype)).v.double())
    # Most worlds agree to rounding; in a few, a point touches in one precision and just does not in the other.
    error = (ends[0] - ends[1]).norm(dim=1) / ends[1].norm(dim=1)
    assert error.median() < SINGLE_PRECISION
    assert error.max() < KINK


def test_same_bits_again_on_another_stream_and_in_a_cuda_graph() -> None:
    sim = _simulator(torch.float32)
    state, control = _start(sim)
    expected = _gradient(sim, state, control)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        beside = _gradient(sim, state, control)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(beside, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = _gradient(sim, state, control)
    graph.replay()
    assert torch.equal(captured, expected)
    with torch.no_grad():
        control *= 0.5
    graph.replay()
    assert torch.equal(captured, _gradient(sim, state, control))
    assert not torch.equal(captured, expected)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_host_synchronisation_in_a_step_or_its_backward() -> None:
    sim = _simulator(torch.float32)
    state, control = _start(sim)
    _gradient(sim, state, control)
    torch.cuda.set_sync_debug_mode("error")
    try:
        _gradient(sim, state, control)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_broken_world_stays_alone() -> None:
    sim = _simulator(torch.float32)
    state, control = _start(sim)
    sound = sim.step(state, control)
    broken = state.q.detach().clone()
    broken[5] = math.nan
    end = sim.step(State(broken, state.v), control)
    others = torch.arange(WORLDS, device="cuda") != 5
    assert torch.equal(end.v[others], sound.v[others])
    assert torch.equal(sim.is_finite(end), others)


def test_queries_run_on_the_device() -> None:
    sim = _simulator()
    state, _ = _start(sim)
    contacts = sim.contacts(state)
    assert contacts.depth.device.type == "cuda"
    assert (contacts.depth > 0).any()
    matrix = sim.mass_matrix(state.q)
    torch.testing.assert_close(matrix, matrix.transpose(1, 2))
    assert sim.poses(state.q).position.isfinite().all()
