# pyright: reportAttributeAccessIssue=false
"""Identities of rotations, spatial vectors and inertias; the algebra works on plain numbers as on traced ones."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahac.sim import Mat3, Quat, Real, Scalar, Vec3
from ahac.sim.physics.algebra import Inertia, Spatial, quat_exp, rotation_vector

ROUNDING = 1e-12
"""Relative to one or to the numbers compared."""

TRIPLE = 1e-8
"""Of triple products of numbers up to ten, sums of terms up to 1e5 that may cancel."""

SMOOTH = 1e-9
"""What the floor under the root of a length leaves of a rotation by a tiny angle."""

often = settings(derandomize=True, deadline=None, max_examples=60, database=None)
"""The same examples in every run."""

coordinate = st.floats(-10.0, 10.0)
vectors = st.builds(Vec3, coordinate, coordinate, coordinate)
spatials = st.builds(Spatial, vectors, vectors)
quaternions = (
    st.tuples(*[st.floats(-1.0, 1.0)] * 4)
    .filter(lambda q: np.linalg.norm(q) > 0.1)
    .map(lambda q: Quat.of(tuple(float(x) for x in np.array(q) / np.linalg.norm(q))))
)
angles = st.builds(lambda v, length: unit(v) * length, vectors, st.floats(0.0, 3.1))
inertias = st.builds(
    lambda m, c, t: Inertia(m, c * m, t), st.floats(0.1, 5.0), vectors, st.tuples(*[st.floats(-3.0, 3.0)] * 6)
)


def unit(v: Vec3) -> Vec3:
    length = np.linalg.norm(array(v))
    return Vec3.of(tuple(array(v) / length)) if length > 0.0 else Vec3(1.0, 0.0, 0.0)


def number(value: Real) -> float:
    assert not isinstance(value, Scalar)
    return value


def array(value: Vec3 | Quat | Mat3 | Spatial) -> np.ndarray:
    if isinstance(value, Mat3):
        return np.stack([array(row) for row in value.rows])
    if isinstance(value, Spatial):
        return np.concatenate([array(value.angular), array(value.linear)])
    return np.array([number(x) for x in value])


def close(a: np.ndarray | float, b: np.ndarray | float, tolerance: float = ROUNDING) -> bool:
    scale = 1.0 + max(np.abs(a).max(), np.abs(b).max())
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() <= tolerance * scale)


@often
@given(spatials, spatials, spatials)
def test_motion_and_force_cross_products_are_dual(a: Spatial, b: Spatial, f: Spatial) -> None:
    """(crm(a) b)·f = −b·(crf(a) f) and (crm(a) b)·f = a·(crf(b) f)."""
    power = a.cross_motion(b).dot(f)
    left = b.dot(a.cross_force(f))
    right = a.dot(b.cross_force(f))
    assert number(power) == pytest.approx(-number(left), abs=TRIPLE)
    assert number(power) == pytest.approx(number(right), abs=TRIPLE)


@often
@given(spatials, spatials, spatials)
def test_motions_form_a_lie_algebra(a: Spatial, b: Spatial, c: Spatial) -> None:
    """crm(a) b = −crm(b) a, and crm(crm(a) b) c = crm(a) crm(b) c − crm(b) crm(a) c."""
    assert close(array(a.cross_motion(b)), -array(b.cross_motion(a)))
    apart = a.cross_motion(b.cross_motion(c)) - b.cross_motion(a.cross_motion(c))
    assert np.abs(array(a.cross_motion(b).cross_motion(c)) - array(apart)).max() < TRIPLE


@often
@given(inertias, spatials, spatials)
def test_an_inertia_is_symmetric_and_linear(inertia: Inertia, a: Spatial, b: Spatial) -> None:
    assert number((inertia @ a).dot(b)) == pytest.approx(number((inertia @ b).dot(a)), abs=TRIPLE)
    assert np.abs(array(inertia @ (a + b)) - array((inertia @ a) + (inertia @ b))).max() < TRIPLE
    assert np.abs(array((inertia + inertia) @ a) - array(inertia @ (a * 2.0))).max() < TRIPLE


@often
@given(quaternions, quaternions, vectors)
def test_quaternions_multiply_as_rotations_do(p: Quat, q: Quat, v: Vec3) -> None:
    assert close(array((p * q).matrix()), array(p.matrix().times(q.matrix())))
    assert close(array((p * q).matrix() @ v), array(p.matrix() @ (q.matrix() @ v)))
    assert close(array(q.conjugate().matrix()), array(q.matrix().transpose()))
    assert close(array(q * q.conjugate()), np.array([1.0, 0.0, 0.0, 0.0]))
    assert close(array(q.matrix()) @ array(q.matrix()).T, np.eye(3))


@often
@given(quaternions)
def test_a_quaternions_matrix_is_mujocos(q: Quat) -> None:
    wanted = np.zeros(9)
    mujoco.mju_quat2Mat(wanted, array(q))
    assert close(array(q.matrix()), wanted.reshape(3, 3))


@often
@given(quaternions, vectors, st.floats(1e-6, 0.5))
def test_the_exponential_integrates_as_mujoco_does(q: Quat, velocity: Vec3, h: float) -> None:
    wanted = array(q)
    mujoco.mju_quatIntegrate(wanted, array(velocity), h)
    assert close(array(q * quat_exp(velocity * h)), wanted, SMOOTH)


@often
@given(angles)
def test_the_rotation_vector_undoes_the_exponential(v: Vec3) -> None:
    assert close(array(rotation_vector(quat_exp(v))), array(v), SMOOTH)
    turned = quat_exp(v)
    assert close(array(rotation_vector(Quat(-turned.w, -turned.vector))), array(v), SMOOTH)


@often
@given(vectors, st.floats(-7.0, 7.0))
def test_a_turn_about_an_axis_is_the_exponential(direction: Vec3, angle: float) -> None:
    axis = unit(direction)
    assert close(array(Mat3.about(axis, angle)), array(quat_exp(axis * angle).matrix()), SMOOTH)
