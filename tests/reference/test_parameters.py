# pyright: reportAttributeAccessIssue=false
"""Parameters against MuJoCo, with the same values set in its compiled model."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from ahac.sim import load_model
from support.mujoco_oracle import compiled, random_states, settled
from support.parametrized import CARRIED, MUSCLE, PLAIN, WATER, Parametrized

STATES = 4
EXACT = 1e-9
"""Relative, of the largest number: float64 on both sides."""


Set = Callable[[mujoco.MjModel, str, np.ndarray], None]


def body_field(field: str) -> Set:
    def change(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
        getattr(model, field)[model.body(name).id] = values if values.size > 1 else values[0]

    return change


def dof_field(field: str) -> Set:
    def change(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
        joint, _, letter = name.partition(":")
        start = int(model.joint(joint).dofadr[0])
        free = model.jnt_type[model.joint(joint).id] == mujoco.mjtJoint.mjJNT_FREE
        first = start + "xyz".index(letter) if letter else start + (3 if free else 0)
        getattr(model, field)[first : first + len(values)] = values

    return change


def joint_stiffness(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    model.jnt_stiffness[model.joint(name).id] = values[0]


def spring_reference(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    model.qpos_spring[model.joint(name).qposadr[0]] = values[0]


def gain(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    i = model.actuator(name).id
    if model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_MUSCLE:
        model.actuator_gainprm[i, 2] = values[0]
        return
    for k in (1, 2):
        if model.actuator_biasprm[i, k] == -model.actuator_gainprm[i, 0]:
            model.actuator_biasprm[i, k] = -values[0]
    model.actuator_gainprm[i, 0] = values[0]


def servo_damping(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    model.actuator_biasprm[model.actuator(name).id, 2] = -values[0]


def offset(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    """Servos measure q + offset: their bias changes by a constant."""
    coefficients = {"servo": 1.3, "bounded": 1.0}
    for i in np.flatnonzero(model.actuator_trnid[:, 0] == model.joint(name).id):
        if model.actuator(i).name in coefficients:
            gear = coefficients[model.actuator(i).name]
            model.actuator_biasprm[i, 0] += model.actuator_biasprm[i, 1] * gear * values[0]
    along = {"hip": 0.7, "shoulder": -1.2}.get(name, 0.0)
    pull = model.actuator("pull").id
    model.actuator_biasprm[pull, 0] += model.actuator_biasprm[pull, 1] * along * values[0]


def strength(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    i = model.actuator(name).id
    model.actuator_forcerange[i] *= values[0]
    if model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_MUSCLE:
        model.actuator_gainprm[i, 2] *= values[0]
        model.actuator_biasprm[i, 2] *= values[0]
    else:
        model.actuator_gainprm[i, :3] *= values[0]
        model.actuator_biasprm[i, :3] *= values[0]


def tendon_field(field: str) -> Set:
    def change(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
        getattr(model, field)[model.tendon(name).id] = values[0]

    return change


def option(field: str) -> Set:
    def change(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
        setattr(model.opt, field, values if values.size > 1 else values[0])

    return change


def pseudo_inertia(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    """U J Uᵀ of the 4 × 4 pseudo-inertia about the center of mass in the axes of the body, then its principal axes."""
    i = model.body(name).id
    alpha, d1, d2, d3, s12, s23, s13, *t = values
    upper = np.exp(alpha) * np.array(
        [[np.exp(d1), s12, s13, t[0]], [0, np.exp(d2), s23, t[1]], [0, 0, np.exp(d3), t[2]], [0, 0, 0, 1]]
    )
    axes = np.zeros(9)
    mujoco.mju_quat2Mat(axes, model.body_iquat[i])
    axes = axes.reshape(3, 3)
    pseudo = np.zeros((4, 4))
    pseudo[:3, :3] = axes @ np.diag(0.5 * model.body_inertia[i].sum() - model.body_inertia[i]) @ axes.T
    pseudo[3, 3] = model.body_mass[i]
    pseudo = upper @ pseudo @ upper.T
    mass, shift = pseudo[3, 3], pseudo[:3, 3] / pseudo[3, 3]
    second = pseudo[:3, :3] - mass * np.outer(shift, shift)
    moments, axes = np.linalg.eigh(np.trace(second) * np.eye(3) - second)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    model.body_mass[i] = mass
    model.body_ipos[i] += shift
    model.body_inertia[i] = moments
    mujoco.mju_mat2Quat(model.body_iquat[i], axes.ravel())


SETTERS: dict[str, Set] = {
    "body_mass": body_field("body_mass"),
    "body_inertia": body_field("body_inertia"),
    "body_ipos": body_field("body_ipos"),
    "body_pos": body_field("body_pos"),
    "body_pseudo_inertia": pseudo_inertia,
    "dof_armature": dof_field("dof_armature"),
    "dof_damping": dof_field("dof_damping"),
    "jnt_stiffness": joint_stiffness,
    "qpos_spring": spring_reference,
    "actuator_gain": gain,
    "actuator_damping": servo_damping,
    "actuator_strength": strength,
    "joint_offset": offset,
    "tendon_stiffness": tendon_field("tendon_stiffness"),
    "tendon_damping": tendon_field("tendon_damping"),
    "gravity": option("gravity"),
    "opt_density": option("density"),
    "opt_viscosity": option("viscosity"),
    "opt_wind": option("wind"),
}
GLOBAL = ("gravity", "opt_density", "opt_viscosity", "opt_wind")
ELEMENTS = [f"{kind}:*" for kind in SETTERS if kind not in GLOBAL and kind != "joint_offset"]
INERTIAL = ("body_mass:*", "body_inertia:*", "body_ipos:*")
JOINED = {
    "inertia": (PLAIN, INERTIAL),
    "inertia in water": (WATER, INERTIAL),
    "inertia of carried bodies": (CARRIED, INERTIAL),
    "pseudo-inertia of carried bodies": (CARRIED, ("body_pseudo_inertia:*",)),
    "pseudo-inertia over others": (PLAIN, (*INERTIAL, "body_pseudo_inertia:*")),
    "free joint": (PLAIN, ("dof_damping:root*", "dof_armature:root*")),
    "everything": (PLAIN, ("gravity", *ELEMENTS)),
}
SINGLE = {
    **{pattern.partition(":")[0]: (PLAIN, (pattern,)) for pattern in ("gravity", *ELEMENTS)},
    **{kind: (WATER, (kind,)) for kind in GLOBAL[1:]},
    "joint_offset": (PLAIN.replace(MUSCLE, ""), ("joint_offset:*",)),
}


@pytest.mark.parametrize("case", [*SINGLE, *JOINED])
def test_the_same_values_give_mujocos_dynamics(case: str) -> None:
    source, patterns = {**SINGLE, **JOINED}[case]
    model = load_model(source)
    ours = Parametrized(model, model.parameters(*patterns))
    theirs = compiled(source, actuation=True)
    q, v = random_states(theirs, STATES, seed=1)
    rng = np.random.default_rng(2)
    control, act = rng.normal(size=(STATES, theirs.nu)), rng.uniform(0.2, 0.8, size=(STATES, theirs.na))
    before = ours.now(q=q, v=v, u=control, act=act, p=ours.defaults)
    values = perturbed(ours.defaults, rng)
    start = 0
    for name, size in ours.parameters.sizes.items():
        kind, _, element = name.partition(":")
        SETTERS[kind](theirs, element, values[start : start + size])
        start += size
    mujoco.mj_setConst(theirs, mujoco.MjData(theirs))
    found = ours.now(q=q, v=v, u=control, act=act, p=values)
    answers = []
    for i in range(STATES):
        data = mujoco.MjData(theirs)
        data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = q[i], v[i], control[i], act[i]
        mujoco.mj_forward(theirs, data)
        matrix = np.zeros((theirs.nv, theirs.nv))
        for row, unit in zip(matrix, np.eye(theirs.nv), strict=True):
            mujoco.mj_mulM(theirs, data, row, unit)
        answers.append((data.qacc.copy(), matrix, data.qfrc_bias.copy()))
    for name, expected in zip(("qacc", "matrix", "bias"), map(np.array, zip(*answers, strict=True)), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=EXACT * np.abs(expected).max(), err_msg=name)
    assert np.abs(found["qacc"] - before["qacc"]).max() > 1e-3, "the values must matter"


def perturbed(defaults: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values up to 10 % larger than the defaults, so that inertias stay physical; small ones where those are zero."""
    change = rng.uniform(0.02, 0.1, size=defaults.shape)
    return np.where(defaults == 0.0, change, defaults * (1.0 + change))


def test_default_values_give_the_dynamics_of_the_file() -> None:
    model = load_model(PLAIN)
    ours = Parametrized(model, model.parameters("gravity", "joint_offset:*", *ELEMENTS))
    theirs = compiled(PLAIN, actuation=True)
    q, v = random_states(theirs, STATES, seed=3)
    control = np.random.default_rng(4).normal(size=(STATES, theirs.nu))
    found = ours.now(q=q, v=v, u=control, act=np.zeros(theirs.na), p=ours.defaults)
    expected = np.array([data.qacc for data in settled(theirs, q, v, control=control)])
    np.testing.assert_allclose(found["qacc"], expected, rtol=0, atol=EXACT * np.abs(expected).max())
