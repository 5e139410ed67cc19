"""Robots of the tasks, left alone as they start: they fall, settle and lie still, and no energy comes from nowhere.

In float32, as they are used; nothing is differentiated, so that each robot costs one forward kernel.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
import pytest
import torch

from ahac.envs import VecEnv, make
from support.episodes import set_time_left
from support.marks import keep
from support.numeric_physics import Numeric

SECONDS = 10.0
"""The hopper's fall is braked by its root's damping and takes six; a humanoid's arm may hold it up as long."""

STILL = 0.05
"""[m/s] of sqrt(2 · kinetic energy / mass), in the last second. What is left is creep, the same with four times the
substeps: friction is viscous below the cone. Median worlds have 2e-4 (hopper) to 2e-2, the worst 4e-2 (anymal)."""

AT_REST = 0.75
"""Share of the worlds that are still by then, at least; in others a robot that leaned somewhere may be slipping."""

HARDEST = 1.25
"""Of the energy of a fall from the start down to the ground. At most 0.79, for springs and limits start out stretched
but dampers take more; 0.96 with muscles at half their strength, which work as well."""

GAINED = 1e-5
"""Relative to the largest kinetic energy: damping takes more in every step than float32 rounds away, 1e-6."""

WORLDS = 16
RELAXED = {"snu_humanoid": -1.0}
"""The action without any effort, where it is not zero: no muscle is active."""


@dataclass(frozen=True)
class Motion:
    """Of every frame and world, 60 frames a second."""

    kinetic: np.ndarray
    """[frames, N] [J]."""
    potential: np.ndarray
    """[frames, N] of weight alone, zero with all mass on the ground [J]."""
    mass: float

    @property
    def speed(self) -> np.ndarray:
        """[frames, N] with which all mass would have to move to have this energy [m/s]."""
        return np.sqrt(2.0 * self.kinetic / self.mass)


def left_alone(env: VecEnv, action: float) -> Motion:
    """Ten seconds under a constant action, from random starts."""
    env.reset(seed=1)
    set_time_left(env, slice(None), 100_000)
    held = torch.full((WORLDS, env.spec.action_size), action, device=env.spec.device)
    states = [env.state]
    with torch.no_grad():
        for _ in range(round(SECONDS / env.spec.dt)):
            step = env.step(held)
            assert not step.done.any(), "lost, or reset"
            states.append(env.state)
    q, v = (np.stack([getattr(state, name).cpu().double().numpy() for state in states]) for name in "qv")
    return measured(env.spec.name, q, v)


def measured(name: str, q: np.ndarray, v: np.ndarray) -> Motion:
    """Energies by mass matrix and poses, in float64."""
    with as_file(files("ahac.envs") / "assets" / f"{name}.xml") as path:
        robot = Numeric(path)
    kinetic = 0.5 * np.einsum("...i,...ij,...j", v, robot.mass_matrix(q), v)
    position, rotation = robot.poses(q)
    potential, bodies = np.zeros(q.shape[:-1]), list(robot.model.bodies)
    for link in robot.model.links:
        i = bodies.index(link.name)
        center = position[..., i, :] + rotation[..., i, :, :] @ np.array(link.center_of_mass)
        potential -= link.mass * center @ np.array(robot.model.gravity)
    return Motion(kinetic, potential, sum(link.mass for link in robot.model.links))


def alone(name: str, device: torch.device) -> VecEnv:
    return make(name, num_envs=WORLDS, early_termination=False, device=device)


@pytest.mark.parametrize("name", keep(2, ["hopper", "ant", "half_cheetah", "anymal", "humanoid", "snu_humanoid"]))
def test_a_robot_left_alone_falls_no_harder_than_its_weight_and_comes_to_rest(name: str, device: torch.device) -> None:
    env = alone(name, device)
    for action in {0.0, RELAXED.get(name, 0.0)}:
        motion = left_alone(env, action)
        assert (motion.kinetic < HARDEST * (motion.kinetic[0] + motion.potential[0])).all()
        last = motion.speed[-round(1.0 / env.spec.dt) :].max(axis=0)
        assert (last < STILL).mean() >= AT_REST, last


@pytest.mark.parametrize("name", ["cartpole", "double_pendulum"])
def test_a_pendulum_left_alone_never_gains_energy(name: str, device: torch.device) -> None:
    motion = left_alone(alone(name, device), 0.0)
    energy = motion.kinetic + motion.potential
    gained = energy[1:] - np.minimum.accumulate(energy[:-1], axis=0)
    assert gained.max() < GAINED * motion.kinetic.max()
    assert (energy[-1] < energy[0]).all()
