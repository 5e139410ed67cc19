"""Check gradients, and see when they are of use: python examples/check_gradients.py [steps].

A ball is thrown at the ground. How does its height after some steps depend on the speed of the throw? The adjoint gives
the slope at one speed, and central differences agree with it. But with stiff ground and a long horizon this slope says
little about speeds next to it: the slopes of many throws scatter more and more, while the slope over all of them stays.
"""

import sys

import torch
from torch import Tensor

from ahac.envs import make_task
from ahac.gradients import CheckSettings, check
from ahac.sim import ContactMaterial, Simulator, State, load_model

BALL = """
<mujoco model="ball">
  <worldbody>
    <geom name="ground" type="plane" size="5 5 1"/>
    <body name="ball" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0"/> <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="ball" type="sphere" size=".1" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""
STIFFNESSES = (1e3, 1e4, 1e5, 1e6)  # of the ground [N/m]
THROWS = 64  # for each stiffness
LOW, HIGH = -2.5, -1.5  # range of their vertical speeds [m/s]


def throw(speed: Tensor, steps: int, substeps: int = 16) -> Tensor:
    """Return heights [steps, stiffnesses, throws] of balls thrown at vertical speeds [stiffnesses, throws]."""
    model = load_model(BALL, contact=ContactMaterial(stiffness=1e4, damping=100.0, friction=0.8))
    # Declared as parameters, stiffness and damping of the ground differ between worlds.
    parameters = model.parameters("contact_stiffness:*", "contact_damping:*")
    sim = Simulator(
        model,
        num_worlds=speed.numel(),
        dt=1 / 60,
        substeps=substeps,
        parameters=parameters,
        integrator="explicit",  # elastic bounces, as in the paper's simulator
        dtype=torch.float64,
    )
    stiffness = torch.tensor(STIFFNESSES, dtype=torch.float64).repeat_interleave(speed.shape[1])
    ground = torch.stack([stiffness, 0.01 * stiffness], dim=-1)
    state = State(sim.rest_state().q, torch.stack([torch.full_like(stiffness, 3.0), speed.flatten()], dim=-1))
    heights = []
    for _ in range(steps):
        state = sim.step(state, parameters=ground)
        heights.append(1.0 + state.q[:, 1])
    return torch.stack(heights).view(steps, *speed.shape)


def speeds() -> Tensor:
    """Return the speeds of all throws [stiffnesses, throws]."""
    return torch.linspace(LOW, HIGH, THROWS, dtype=torch.float64).repeat(len(STIFFNESSES), 1)


def slopes(steps: int, horizons: list[int], substeps: int = 16) -> Tensor:
    """Return the slopes of the heights after each horizon [horizons, stiffnesses, throws], by the adjoint."""
    speed = speeds().requires_grad_()
    heights = throw(speed, steps, substeps)
    # A throw has no effect on others, so the gradient of the sum has the slope of each.
    return torch.stack([torch.autograd.grad(heights[h - 1].sum(), speed, retain_graph=True)[0] for h in horizons])


@torch.no_grad()
def central_differences(steps: int, change: float) -> Tensor:
    """Return the slopes of the heights after all steps [stiffnesses, throws], from throws on both sides."""
    return (throw(speeds() + change, steps)[-1] - throw(speeds() - change, steps)[-1]) / (2.0 * change)


@torch.no_grad()
def overall_slopes(steps: int, horizons: list[int]) -> Tensor:
    """Return the slopes over the whole range of speeds [horizons, stiffnesses]: what a noisy policy would improve."""
    heights = throw(speeds(), steps)[[h - 1 for h in horizons]]
    return (heights[..., -1] - heights[..., 0]) / (HIGH - LOW)


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    write = sys.stdout.write

    report = check(make_task("cartpole"), CheckSettings(states=4, steps=20))  # the same as `ahac grad check cartpole`
    write(f"every output of a task's step: {'passed' if report.passed else 'failed'}, see report.table()\n\n")

    horizons = sorted({max(1, round(share * steps)) for share in (0.2, 0.35, 0.5, 1.0)})
    adjoint = slopes(steps, horizons)
    write(f"central differences against the adjoint, after {steps} steps, largest error of {THROWS} throws\n")
    write(f"{'change of speed':>20}" + "".join(f"{k:>12.0e} N/m" for k in STIFFNESSES) + "\n")
    for change in (1e-2, 1e-3, 1e-4, 1e-6, 1e-8):
        error = (central_differences(steps, change) - adjoint[-1]).abs().amax(dim=-1) / adjoint[-1].abs().amax(dim=-1)
        write(f"{change:>16.0e} m/s" + "".join(f"{x:>16.1e}" for x in error.tolist()) + "\n")

    write("\nslopes of single throws (root mean square), and the slope over all of them\n")
    write(f"{'horizon':>20}" + "".join(f"{k:>12.0e} N/m" for k in STIFFNESSES) + "\n")
    for h, single, overall in zip(horizons, adjoint, overall_slopes(steps, horizons), strict=True):
        size = single.square().mean(dim=-1).sqrt()
        columns = "".join(f"{f'{a:.2f}, {b:.2f}':>16}" for a, b in zip(size.tolist(), overall.tolist(), strict=True))
        write(f"{h:>14} steps{columns}\n")

    finer = slopes(steps, [steps], substeps=128)[0].square().mean(dim=-1).sqrt().tolist()
    write(f"{f'{steps}, 128 substeps':>20}" + "".join(f"{x:>16.2f}" for x in finer) + "\n")
