"""A simulated robot with rotations as a system in tangent coordinates."""

import torch

from ahac.identification.simulated import SimulatedRobot
from ahac.sim import Parameters, Simulator, load_model

BALL = """<mujoco model="ball"><worldbody><body name="rod"><joint name="ball" type="ball" damping="0.1"/>
  <geom type="capsule" fromto="0 0 0 .1 .2 -.5" size=".05" mass="1"/>
  <body name="tip" pos=".1 .2 -.5"><joint name="hinge" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 .2 0 0" size=".03" mass=".3"/></body></body></worldbody>
  <actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>"""

RTOL, ATOL = 1e-4, 1e-6
"""Errors of differences with steps of 1e-6 in float64."""


def test_jacobians_and_differences_are_in_the_same_tangent_coordinates() -> None:
    model = load_model(BALL)
    parameters = model.parameters("actuator_delay", "dof_damping:hinge", "body_mass:tip")

    def make(inner: Parameters | None) -> Simulator:
        return Simulator(model, num_worlds=2, dt=0.02, substeps=2, dtype=torch.float64, num_threads=1, parameters=inner)

    robot = SimulatedRobot(parameters, make)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(3, model.nq + model.nv, generator=rng, dtype=torch.float64)
    x[:, :4] = torch.nn.functional.normalize(x[:, :4])
    u = torch.randn(3, 1, generator=rng, dtype=torch.float64)
    p = torch.tensor([0.01, 0.2, 0.4], dtype=torch.float64)
    end = robot.step(x, u, p)
    by_x, by_u, by_p = robot.jacobian(x, u, p)
    step = 1e-6
    for i in range(robot.tangent_size):
        move = torch.zeros(3, robot.tangent_size, dtype=torch.float64)
        move[:, i] = step
        change = robot.difference(robot.step(robot.move(x, move), u, p), end) / step
        torch.testing.assert_close(by_x[:, :, i], change, rtol=RTOL, atol=ATOL)
    change = robot.difference(robot.step(x, u + step, p), end) / step
    torch.testing.assert_close(by_u[:, :, 0], change, rtol=RTOL, atol=ATOL)
    for i in range(3):
        change = robot.difference(robot.step(x, u, p + step * torch.eye(3, dtype=torch.float64)[i]), end) / step
        torch.testing.assert_close(by_p[:, :, i], change, rtol=RTOL, atol=ATOL)
    assert not by_p[:, :, 0].any(), "the delay acts on the recorded controls, not in the simulator"
