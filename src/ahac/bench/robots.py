# pyright: reportAttributeAccessIssue=false
"""Robots to measure: the MJCF files of Gymnasium by name, if it is installed, or any file by path."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco
import numpy as np
import torch

from ahac.core.errors import InputError
from ahac.sim import ContactMaterial, Model, Simulator, State, load_model

__all__ = ["MATERIAL", "STANDARD", "MujocoSteps", "find", "in_contact", "load"]

STANDARD = ("ant", "humanoid", "hopper", "half_cheetah", "walker2d", "swimmer", "inverted_double_pendulum")
MATERIAL = ContactMaterial()
HEIGHT = {"ant": 2, "humanoid": 2, "hopper": 1, "walker2d": 1, "half_cheetah": 1}
"""Index of the position coordinate that is the robot's height."""
DEPTH = 5e-3
"""Penetration [m] of the lowest point of each robot at the start."""


def find(robot: str) -> Path:
    """Return the model file of a robot, given its name or path."""
    if Path(robot).is_file():
        return Path(robot)
    gymnasium = importlib.util.find_spec("gymnasium")
    if gymnasium is None or gymnasium.origin is None:
        raise InputError(
            f"{robot!r} is not a file, and Gymnasium, which has robots by name, is not installed: pip install gymnasium"
        )
    folder = Path(gymnasium.origin).parent / "envs" / "mujoco" / "assets"
    if not (folder / f"{robot}.xml").is_file():
        names = ", ".join(sorted(path.stem for path in folder.glob("*.xml")))
        raise InputError(f"no robot named {robot!r}; expected the path of a file, or one of: {names}")
    return folder / f"{robot}.xml"


def load(robot: str) -> Model:
    """Load a robot with the contact material of the benchmarks."""
    return load_model(find(robot), contact=MATERIAL)


def in_contact(robot: str, sim: Simulator, seed: int = 0) -> tuple[State, torch.Tensor]:
    """Return random states near the reference pose, on the ground, and random controls."""
    rng = torch.Generator().manual_seed(seed)
    rest = sim.rest_state()
    q = rest.q.cpu() + 0.05 * torch.randn(rest.q.shape, generator=rng, dtype=sim.dtype)
    v = torch.randn(rest.v.shape, generator=rng, dtype=sim.dtype)
    control = 0.5 * torch.randn((sim.num_worlds, sim.model.nu), generator=rng, dtype=sim.dtype)
    state = State(q.to(sim.device), v.to(sim.device))
    if robot in HEIGHT:
        state.q[:, HEIGHT[robot]] += sim.contacts(state).depth.amax(dim=1) - DEPTH
    return state, control.to(sim.device)


class MujocoSteps:
    """`mj_step` on the same file, with semi-implicit Euler, from a state in contact; one call makes `count` steps."""

    def __init__(self, robot: str, count: int) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(find(robot)))
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        self.data = mujoco.MjData(self.model)
        self.rng = np.random.default_rng(0)
        self.count = count
        for _ in range(500):
            mujoco.mj_step(self.model, self.data)
        self.contacts = int(self.data.ncon)

    def __call__(self) -> None:
        """Set random controls and make the steps."""
        self.data.ctrl[:] = self.rng.normal(size=self.model.nu) * 0.1
        mujoco.mj_step(self.model, self.data, self.count)
