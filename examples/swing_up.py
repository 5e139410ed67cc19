"""Swing up a double pendulum with its elbow motor, by iLQR: python examples/swing_up.py [iterations].

Only the elbow has a motor, so the arms must swing to rise, and stop as they stand upright. iLQR linearizes the steps of
a whole trajectory in one call of `Simulator.jacobian`; random shooting draws many trajectories and keeps the best.
"""

import math
import sys

import torch
from torch import Tensor

from ahac.envs.variants import load_bundled_model
from ahac.sim import Simulator, State

STEPS, DT = 200, 0.02
EFFORT = 0.01  # cost of a squared control
FINAL = torch.tensor(
    [100.0, 100.0, 10.0, 10.0], dtype=torch.float64
)  # costs of squared angles and velocities at the end
DAMPINGS = torch.logspace(-3, 6, 8, dtype=torch.float64)
STEP_SIZES = torch.tensor([1.0, 0.4, 0.1], dtype=torch.float64)
HELD = 5  # Random controls change every 0.1 s, since the pendulum hardly feels faster ones.


def simulator(num_worlds: int) -> Simulator:
    """Return worlds of the pendulum. Its angles are zero upright; controls −1 to 1 are torques of −50 to 50 N m."""
    model = load_bundled_model("double_pendulum")
    return Simulator(model, num_worlds=num_worlds, dt=DT, substeps=4, dtype=torch.float64, num_threads=1)


def cost(x: Tensor, u: Tensor) -> Tensor:
    """Return the cost [N] of states [T + 1, N, 4] and controls [T, N, 1]."""
    return EFFORT * u.square().sum(dim=(0, 2)) + (FINAL * x[-1].square()).sum(dim=-1)


def roll_out(sim: Simulator, z: Tensor, gains: Tensor | None = None, around: Tensor | None = None) -> list[Tensor]:
    """Return states and controls u = tanh(z + gains (x − around)), which begin at rest, hanging."""
    state = sim.rest_state("start")
    x, u = [torch.cat([state.q, state.v], dim=-1)], []
    for t in range(len(z)):
        feedback = 0.0 if gains is None or around is None else (gains[t] @ (x[t] - around[t])[..., None])[..., 0]
        u.append(torch.tanh(z[t] + feedback))
        state = sim.step(state, u[t])
        x.append(torch.cat([state.q, state.v], dim=-1))
    return [torch.stack(x), torch.stack(u)]


def backward_pass(sim: Simulator, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best changes of z [T, D, 1] and gains [T, D, 1, 4] if dynamics were linear, for each of D dampings."""
    jacobian = sim.jacobian(State(x[:-1, :2], x[:-1, 2:]), u)
    slope = 1.0 - u.square()  # derivative of tanh
    A, B = jacobian.state, jacobian.control * slope[:, None]
    V_x = (2.0 * FINAL * x[-1])[:, None].expand(len(DAMPINGS), 4, 1)
    V_xx = 2.0 * FINAL.diag().expand(len(DAMPINGS), 4, 4)
    changes, gains = [], []
    for t in reversed(range(len(u))):
        Q_x, Q_u = A[t].mT @ V_x, B[t].mT @ V_x + 2.0 * EFFORT * u[t] * slope[t]
        Q_xx, Q_ux = A[t].mT @ V_xx @ A[t], B[t].mT @ V_xx @ A[t]
        Q_uu = B[t].mT @ V_xx @ B[t] + 2.0 * EFFORT * slope[t] ** 2
        k, K = (-Q / (Q_uu + DAMPINGS[:, None, None]) for Q in (Q_u, Q_ux))
        V_x = Q_x + K.mT @ (Q_uu @ k + Q_u) + Q_ux.mT @ k
        V_xx = Q_xx + K.mT @ (Q_uu @ K + Q_ux) + Q_ux.mT @ K
        changes.insert(0, k[..., 0])
        gains.insert(0, K)
    return torch.stack(changes), torch.stack(gains)


def ilqr(iterations: int, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Return the states [T + 1, 4] and controls [T, 1] that were found, and the cost of the search in steps."""
    sizes = STEP_SIZES.repeat_interleave(len(DAMPINGS))[:, None]
    sim = simulator(len(sizes))  # Each world tries one step size and one damping.
    z = 0.1 * torch.randn(STEPS, 1, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x, u = (tensor[:, 0] for tensor in roll_out(sim, z.expand(-1, len(sizes), -1)))
    for _ in range(iterations):
        changes, gains = backward_pass(sim, x, u)
        z = torch.atanh(u.clamp(-1.0 + 1e-9, 1.0 - 1e-9))[:, None]
        xs, us = roll_out(sim, z + sizes * changes.repeat(1, 3, 1), gains.repeat(1, 3, 1, 1), x[:, None])
        costs = cost(xs, us).nan_to_num(nan=math.inf)
        if costs.min() < cost(x[:, None], u[:, None])[0]:
            x, u = xs[:, costs.argmin()], us[:, costs.argmin()]
    # A row of a Jacobian costs about four steps.
    return x, u, iterations * STEPS * (len(sizes) + 4 * 4)


def random_shooting(steps: int, worlds: int = 1000, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Return the same for the cheapest of random trajectories, with at least so many steps in all."""
    sim = simulator(worlds)
    generator = torch.Generator().manual_seed(seed)
    rounds = -(-steps // (STEPS * worlds))
    found: list[tuple[float, Tensor, Tensor]] = []
    for _ in range(rounds):
        z = 1.5 * torch.randn(STEPS // HELD, worlds, 1, generator=generator, dtype=torch.float64)
        x, u = roll_out(sim, z.repeat_interleave(HELD, dim=0))
        i = cost(x, u).argmin()
        found.append((float(cost(x, u)[i]), x[:, i], u[:, i]))
    _, x, u = min(found, key=lambda trajectory: trajectory[0])
    return x, u, rounds * STEPS * worlds


def is_upright(x: Tensor) -> bool:
    """Return whether both joint angles (the elbow's is relative) end within 6° of upright, slower than 30°/s."""
    return bool((x[-1].abs() < torch.tensor([6.0, 6.0, 30.0, 30.0]).deg2rad()).all())


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    x, u, steps = ilqr(iterations)
    rows = {"iLQR": (x, u, steps), "shooting": random_shooting(steps), "shooting, 10 x": random_shooting(10 * steps)}
    sys.stdout.write(f"{'method':<16}{'steps':>10}{'cost':>8}{'shoulder':>10}{'elbow':>8}   upright\n")
    for name, (x, u, steps) in rows.items():
        shoulder, elbow = x[-1, :2].rad2deg().tolist()
        total = cost(x[:, None], u[:, None]).item()
        end = "yes" if is_upright(x) else "no"
        sys.stdout.write(f"{name:<16}{steps:>10}{total:>8.1f}{shoulder:>9.0f}°{elbow:>7.0f}°   {end}\n")
