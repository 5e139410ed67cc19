# pyright: reportAttributeAccessIssue=false
"""Identification of a quadruped that hangs in the air and tracks a chirp: robot, true parameters and recordings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import mujoco
import numpy as np
import torch

from ahac.bench.rows import Row
from ahac.core.errors import InputError
from ahac.identification import Recording, identify, read_recording
from ahac.sim import Parameters, Simulator, load_model

__all__ = ["DATA", "PATTERNS", "Truth", "draw_truth", "hang", "identification_error", "record_mujoco", "record_own"]

DATA = ("own", "mj_step", "mj_step_default")
"""Recordings: of our simulator without noise, and of `mj_step` with noise, as described in `record_mujoco`."""

PATTERNS = ("dof_armature:*", "dof_damping:*", "dof_frictionloss:*", "joint_offset:*", "actuator_delay")
KINDS = {
    "armature": "dof_armature",
    "damping": "dof_damping",
    "friction": "dof_frictionloss",
    "offset": "joint_offset",
    "delay": "actuator_delay",
}
MAX_DELAY = 0.02
SECONDS = 20.0
SAMPLE = 2e-3
"""Time between samples [s]."""
SUBSTEPS = 2
AMPLITUDE = 0.4
"""Amplitude of the chirp [rad]."""
FREQUENCIES = (0.1, 8.0)
"""First and last frequency of the chirp [Hz]."""
NOISE = (2e-4, 2e-2)
"""Standard deviations of measured positions [rad] and velocities [rad/s]."""
KP, KV = 20.0, 0.5
ARMATURE, DAMPING, FRICTION = 0.02, 0.2, 0.2
"""Values in the model file [kg m²], [N m s/rad], [N m]; the true ones are 0.6 to 1.6 times as large."""


@dataclass(frozen=True)
class Truth:
    """True values of the parameters, by joint."""

    armature: np.ndarray
    damping: np.ndarray
    friction: np.ndarray
    offset: np.ndarray
    """[rad]"""
    delay: float
    """[s]"""

    def values(self, parameters: Parameters) -> torch.Tensor:
        """Return the values [P] in the order of the parameters."""
        values = torch.zeros(parameters.size, dtype=torch.float64)
        for kind, pattern in KINDS.items():
            values[parameters.index(f"{pattern}*")] = torch.from_numpy(np.atleast_1d(getattr(self, kind)))
        return values


def draw_truth(joints: int, seed: int = 0) -> Truth:
    """Return random true values."""
    rng = np.random.default_rng(seed)
    factors = rng.uniform(0.6, 1.6, (3, joints))
    signs = rng.choice([-1.0, 1.0], joints)
    offset = signs * rng.uniform(0.03, 0.08, joints)
    return Truth(ARMATURE * factors[0], DAMPING * factors[1], FRICTION * factors[2], offset, 7.3e-3)


def hang(path: str | None = None) -> str:
    """Return the MJCF text of a robot without its free joint, ground, contact and springs, driven by position servos.

    Args:
        path: An MJCF file of a robot with hinges; ANYmal by default.
    """
    text = (files("ahac.envs") / "assets" / "anymal.xml").read_text(encoding="utf-8") if path is None else None
    spec = mujoco.MjSpec.from_string(text) if text is not None else mujoco.MjSpec.from_file(path)
    for element in [*spec.sensors, *spec.actuators, *spec.keys]:
        spec.delete(element)
    joints = []
    for joint in list(spec.joints):
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            spec.delete(joint)
            continue
        if joint.type != mujoco.mjtJoint.mjJNT_HINGE:
            raise InputError(f"{path} must have hinges and a free joint only, but {joint.name!r} is of another type")
        joint.limited = False
        _set(joint, stiffness=0.0, armature=ARMATURE, damping=DAMPING, frictionloss=FRICTION)
        joints.append(joint.name)
    for geom in list(spec.geoms):
        geom.contype = geom.conaffinity = 0
        drawn = geom.type == mujoco.mjtGeom.mjGEOM_MESH and geom.parent.explicitinertial
        if drawn or geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            spec.delete(geom)
    used = {geom.meshname for geom in spec.geoms}
    for mesh in [mesh for mesh in spec.meshes if mesh.name not in used]:
        spec.delete(mesh)
    for name in joints:
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        actuator.ctrllimited = actuator.forcelimited = False
        actuator.set_to_position(kp=KP, kv=KV)
    spec.compile()
    return spec.to_xml()


def _set(joint: mujoco.MjsJoint, **values: float) -> None:
    """Set numbers that some versions of MuJoCo hold in arrays."""
    for name, value in values.items():
        old = getattr(joint, name)
        setattr(joint, name, [value] + [0.0] * (len(old) - 1) if np.ndim(old) else value)


def identification_error(
    data: str, robot: str | None, folder: Path | None, device: str, seconds: float = SECONDS
) -> Row:
    """Identify the 4 n + 1 parameters of a robot with n joints from a recording, and compare them with the true ones.

    Args:
        data: Name of the recording, one of `DATA`.
        robot: MJCF file; ANYmal by default.
        folder: Folder of the recordings: they are read if they are there, and written otherwise.
        device: "cpu" or a CUDA device.
        seconds: Duration of the recording.
    """
    text = hang(robot)
    model = load_model(text)
    parameters = model.parameters(*PATTERNS, max_delay=MAX_DELAY)
    truth = draw_truth(model.nu)
    file = None if folder is None else folder / f"{data}.npz"
    if file is not None and file.is_file():
        recording = read_recording(file)
    else:
        if data == "own":
            recording = record_own(parameters, truth, seconds)
        else:
            recording = record_mujoco(text, truth, seconds, default=data == "mj_step_default")
        if file is not None:
            recording.save(file)
            (file.parent / "robot.xml").write_text(text, encoding="utf-8")
    integrator = "implicit" if data == "own" else "explicit"
    result = identify(model, recording, parameters, substeps=SUBSTEPS, integrator=integrator, device=device)
    error = 100.0 * (result.values / truth.values(parameters) - 1.0).abs()
    return {
        "data": data,
        "device": device,
        "parameters": parameters.size,
        "seconds": result.seconds,
        "iterations": result.iterations,
        **{f"{kind} [%]": float(error[parameters.index(f"{pattern}*")].max()) for kind, pattern in KINDS.items()},
        "residual q": float(np.mean([c.rms for c in result.channels if c.name.startswith("q ")])),
        "warnings": len(result.warnings),
    }


def chirp(joints: int, seconds: float = SECONDS) -> np.ndarray:
    """Return the targets [T, joints] of a chirp around zero, with a phase and a rate of its own for each joint."""
    time = np.arange(round(seconds / SAMPLE) + 1) * SAMPLE
    first, last = FREQUENCIES
    number = np.arange(joints)
    rate = (last * (1.0 - 0.03 * number) - first) / seconds
    cycles = first * time[:, None] + 0.5 * rate * time[:, None] ** 2
    fade = np.minimum(1.0, time / 1.0)[:, None]
    return AMPLITUDE * fade * np.sin(2.0 * math.pi * cycles + 2.0 * number)


def record_own(parameters: Parameters, truth: Truth, seconds: float = SECONDS) -> Recording:
    """Return the motion of the simulator itself, in float64 and without noise."""
    model = parameters.model
    targets = chirp(model.nu, seconds)
    sim = Simulator(
        model, num_worlds=1, dt=SAMPLE, substeps=SUBSTEPS, dtype=torch.float64, num_threads=1, parameters=parameters
    )
    values = truth.values(parameters)[None]
    state = sim.rest_state()
    motion = [state]
    for target in torch.from_numpy(targets[:-1]):
        state = sim.step(state, target[None], parameters=values)
        motion.append(state)
    q = np.concatenate([state.q.numpy() for state in motion]) + truth.offset
    v = np.concatenate([state.v.numpy() for state in motion])
    return Recording(np.arange(len(q)) * SAMPLE, q, targets, v, "own")


def record_mujoco(text: str, truth: Truth, seconds: float = SECONDS, default: bool = False) -> Recording:
    """Return the motion of `mj_step` at 1 ms, with sensor noise.

    Args:
        text: MJCF text of the robot.
        truth: True parameters.
        seconds: Duration.
        default: Whether dry friction has MuJoCo's default time constant of 20 ms instead of the shortest, 2 ms, and
            joint damping is implicit, as by default, instead of explicit like all other forces.
    """
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.timestep = SAMPLE / SUBSTEPS
    model.dof_armature[:] = truth.armature
    model.dof_damping[:] = np.reshape(truth.damping, model.dof_damping[:].shape)
    model.dof_frictionloss[:] = truth.friction
    if not default:
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
        model.dof_solref[:, 0] = 2.0 * model.opt.timestep
    data = mujoco.MjData(model)
    targets = chirp(model.nu, seconds)
    late = delayed(targets, truth.delay, SUBSTEPS)
    q, v = [data.qpos.copy()], [data.qvel.copy()]
    for controls in late[:-1]:
        for control in controls:
            data.ctrl[:] = control - truth.offset  # a servo measures q + offset
            mujoco.mj_step(model, data)
        q.append(data.qpos.copy())
        v.append(data.qvel.copy())
    rng = np.random.default_rng(0)
    position, velocity = np.stack(q) + truth.offset, np.stack(v)
    position += NOISE[0] * rng.standard_normal(position.shape)
    velocity += NOISE[1] * rng.standard_normal(velocity.shape)
    return Recording(np.arange(len(q)) * SAMPLE, position, targets, velocity, "mj_step")


def delayed(targets: np.ndarray, delay: float, substeps: int) -> np.ndarray:
    """Return targets [T, substeps, nu] that are held for a sample and arrive late, averaged over each substep."""
    h = SAMPLE / substeps
    edges = (np.arange(len(targets) * substeps + 1) * h - delay) / SAMPLE
    total = np.concatenate([np.zeros((1, targets.shape[1])), np.cumsum(targets, axis=0)])
    at = np.stack([np.interp(edges, np.arange(len(total)), column) for column in total.T], axis=1)
    at += np.minimum(edges, 0.0)[:, None] * targets[0]
    return (np.diff(at, axis=0) * SAMPLE / h).reshape(len(targets), substeps, -1)
