# pyright: reportAttributeAccessIssue=false
"""MuJoCo's answers, for the same file and the same states."""

import os

import mujoco
import numpy as np

__all__ = ["compiled", "random_states", "settled"]


def compiled(source: str | os.PathLike[str], actuation: bool = False) -> mujoco.MjModel:
    """MuJoCo's model of a file or its text, without contacts and limits: there, the simulators differ on purpose."""
    text = str(source)
    is_text = text.lstrip().startswith("<")
    model = mujoco.MjModel.from_xml_string(text) if is_text else mujoco.MjModel.from_xml_path(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    if not actuation:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    return model


def random_states(model: mujoco.MjModel, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions about a radian or a metre away from the reference pose, and velocities of a few units."""
    rng = np.random.default_rng(seed)
    q = np.tile(model.qpos0, (count, 1))
    for row in q:
        mujoco.mj_integratePos(model, row, rng.normal(size=model.nv), 1.0)
    return q, 2.0 * rng.normal(size=(count, model.nv))


def settled(
    model: mujoco.MjModel,
    q: np.ndarray,
    v: np.ndarray,
    force: np.ndarray | None = None,
    control: np.ndarray | None = None,
) -> list[mujoco.MjData]:
    """MuJoCo's data after mj_forward, one per state; `force` is generalised."""
    found = []
    for i in range(len(q)):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = q[i], v[i]
        if force is not None:
            data.qfrc_applied[:] = force[i]
        if control is not None:
            data.ctrl[:] = control[i]
        mujoco.mj_forward(model, data)
        found.append(data)
    return found
