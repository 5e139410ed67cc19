# pyright: reportAttributeAccessIssue=false
"""Equality constraints, dry friction and the inertias they act on, against MuJoCo's residuals and Jacobians."""

import mujoco
import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.model.constraints import RestPose, dry_friction, equalities
from ahac.sim.model.tree import Tree, build_tree
from ahac.sim.model.types import WORLD, Connect, Frame, JointEquality, JointLimit, TendonEquality, Weld
from support.robots import FREE_SPHERE, SMALL_ROBOTS, mjcf

TWO_ARMS = """
<site name="home" pos="0.1 0.2 0.3" euler="0.3 0 0"/>
<body name="base" pos="0 0 0.2" euler="0.1 0.2 0">
  <joint name="a" axis="0 1 0" frictionloss="0.2"/><geom size="0.1" pos="0.2 0 0"/>
  <body name="shell" pos="0.1 0 0" euler="0 0.4 0"><geom size="0.05"/><site name="on shell" pos="0.1 0 0.2"/>
    <body name="fore" pos="0.3 0 0"><joint name="b" axis="0 1 1" ref="0.3"/><geom size="0.08" pos="0.1 0.1 0"/></body>
  </body>
</body>
<body name="other" pos="0 1 0" euler="0 0 0.7"><joint name="c" type="ball" range="0 0.8" limited="true"/>
  <geom size="0.1" pos="0.1 0.3 0"/></body>
"""

EQUALITIES = """<equality>
  <connect name="pin" body1="fore" body2="other" anchor="0.1 0.2 0.3"/>
  <connect name="pin to the world" body1="shell" anchor="0.1 0 0"/>
  <connect name="pin of sites" site1="on shell" site2="home"/>
  <weld name="glue" body1="shell" body2="other" anchor="0.1 0.2 0.3" relpose="0.1 -0.2 0.3 0.9 0.1 0.2 0.3"/>
  <weld name="glue as they are" body1="other" body2="fore" torquescale="0.5"/>
  <weld name="glue of sites" site1="home" site2="on shell"/>
  <joint name="mimic" joint1="a" joint2="b" polycoef="0.1 0.5 0.2 0 0" solref="0.01 0.8"/>
  <joint name="lock" joint1="b" polycoef="0.2 0 0 0 0"/>
  <tendon name="cable" tendon1="t" tendon2="u" polycoef="0 2 0 0 0"/>
  <connect name="off" body1="fore" anchor="0 0 0" active="false"/>
</equality>
<tendon>
  <spatial name="t"><site site="home"/><site site="on shell"/></spatial>
  <fixed name="u"><joint joint="a" coef="1"/><joint joint="b" coef="0.5"/></fixed>
</tendon>"""


def compiled(rest: str = EQUALITIES) -> tuple[mujoco.MjModel, Tree]:
    raw = mujoco.MjModel.from_xml_string(mjcf(TWO_ARMS, rest=rest))
    raw.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return raw, build_tree(raw, lambda _: JointLimit())


def pose_of(frame: Frame, raw: mujoco.MjModel, tree: Tree, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """Position and axes of a frame on a link in the world."""
    if frame.link == WORLD:
        return np.array(frame.position), np.array(frame.rotation)
    name = tree.links[frame.link].name
    axes = data.body(name).xmat.reshape(3, 3)
    return data.body(name).xpos + axes @ frame.position, axes @ np.array(frame.rotation)


def rotation_residual(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, (second.T @ first).ravel())
    return quaternion[1:] * np.sign(quaternion[0])


def test_violations_of_poses_are_those_of_mujoco() -> None:
    raw, tree = compiled()
    found = {equality.name: equality for equality in equalities(raw, tree, RestPose.of(raw))}
    data = mujoco.MjData(raw)
    mujoco.mj_integratePos(raw, data.qpos, np.linspace(-0.4, 0.5, raw.nv), 1.0)
    mujoco.mj_forward(raw, data)
    compared = 0
    for i in range(raw.neq):
        rows = (data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY) & (data.efc_id == i)
        equality = found.get(raw.equality(i).name)
        if not isinstance(equality, Connect | Weld):
            continue
        (x1, r1), (x2, r2) = (pose_of(end, raw, tree, data) for end in (equality.first, equality.second))
        residual = data.efc_pos[rows]
        np.testing.assert_allclose(residual[:3], x1 - x2, atol=1e-12)
        if isinstance(equality, Weld):
            ours = raw.eq_data[i, 10] * rotation_residual(r1, r2)
            np.testing.assert_allclose(np.abs(residual[3:]), np.abs(ours), atol=1e-12)
        compared += 1
    assert compared == 6


def test_weld_without_torque_is_a_ball_joint() -> None:
    weld = '<equality><weld body1="fore" body2="other" torquescale="{}"/></equality>'
    for scale, kind in ((0, Connect), (1, Weld)):
        raw, tree = compiled(weld.format(scale))
        (equality,) = equalities(raw, tree, RestPose.of(raw))
        assert type(equality) is kind


def test_couplings_are_read_and_inactive_constraints_are_not() -> None:
    raw, tree = compiled()
    found = {equality.name: equality for equality in equalities(raw, tree, RestPose.of(raw))}
    assert "off" not in found
    mimic, lock, cable = found["mimic"], found["lock"], found["cable"]
    assert isinstance(mimic, JointEquality)
    assert (mimic.first.name, mimic.first.reference) == ("a", 0.0)
    assert mimic.second is not None
    assert (mimic.second.name, mimic.second.reference) == ("b", 0.3)
    assert mimic.polynomial == (0.1, 0.5, 0.2, 0.0, 0.0)
    assert isinstance(lock, JointEquality)
    assert lock.second is None
    assert isinstance(cable, TendonEquality)
    assert (cable.first, cable.second) == ("t", "u")
    assert cable.references == pytest.approx(tuple(raw.tendon_length0))
    assert cable.effective_mass == pytest.approx(1.0 / (raw.tendon_invweight0[0] + 4.0 * raw.tendon_invweight0[1]))


def test_solver_settings_that_are_not_read_are_noted() -> None:
    friction = '<body name="slow"><joint frictionloss="1" solreffriction="0.1 1"/><geom size="0.1"/></body>'
    ranged = EQUALITIES.replace('name="t"', 'name="t" range="0 1" solreflimit="0.1 1" frictionloss="2" margin="0.1"')
    notes = load_model(mjcf(TWO_ARMS + friction, rest=ranged)).notes
    assert {
        "tendon limits: solref and solimp of 1 tendons not read; their forces are those of JointLimit",
        "tendon limits: margin of 1 tendons not read",
        "equality constraints (9) act as stiff, damped springs; solref or solimp (1), torquescale (1) not read",
        "dry friction (2 coordinates) is smooth near zero speed; solref or solimp (1) not read",
        "dry friction of tendons (1) is smooth near zero speed",
    } <= set(notes)


def test_effective_masses_are_those_of_mujocos_jacobians() -> None:
    raw, tree = compiled()
    data = mujoco.MjData(raw)
    mujoco.mj_forward(raw, data)
    jacobian = data.efc_J.reshape(-1, raw.nv)
    inverse = np.zeros_like(jacobian)
    mujoco.mj_solveM(raw, data, inverse, jacobian)
    diagonal = (jacobian * inverse).sum(axis=1)
    for equality in equalities(raw, tree, RestPose.of(raw)):
        index = raw.equality(equality.name).id
        rows = diagonal[(data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY) & (data.efc_id == index)]
        if isinstance(equality, TendonEquality):
            continue
        assert equality.effective_mass == pytest.approx(1.0 / rows[:3].mean(), rel=1e-9), equality.name
        if equality.name == "glue as they are":  # without violation, the residual of a rotation is half its angle
            assert isinstance(equality, Weld)
            scale = 0.25 * 0.5**2
            assert equality.effective_inertia == pytest.approx(scale / rows[3:].mean(), rel=1e-9)


def test_constraints_that_the_file_disables_are_left_out() -> None:
    for flag in ("equality", "constraint"):
        raw, tree = compiled(EQUALITIES + f'<option><flag {flag}="disable"/></option>')
        assert equalities(raw, tree, RestPose.of(raw)) == ()
    raw, _ = compiled('<option><flag frictionloss="disable"/></option>')
    assert dry_friction(raw) == (0.0,) * raw.nv


def test_dry_friction_and_ball_ranges_are_read() -> None:
    raw, tree = compiled("")
    assert dry_friction(raw) == (0.2, 0.0, 0.0, 0.0, 0.0)
    ranges = {joint.name: joint.range for link in tree.links for joint in link.joints}
    assert ranges == {"a": None, "b": None, "c": (0.0, 0.8)}


@pytest.mark.parametrize("source", [FREE_SPHERE, SMALL_ROBOTS["mixed joints"], mjcf(TWO_ARMS)])
def test_inertias_of_joints_are_those_that_a_force_accelerates(source: str) -> None:
    raw = mujoco.MjModel.from_xml_string(source)
    tree = build_tree(raw, lambda _: JointLimit())
    inverse = np.diag(np.linalg.inv(RestPose.of(raw).mass_matrix))
    for joint in (joint for link in tree.links for joint in link.joints):
        if len(joint.dofs) == 1 and ":" not in joint.name:
            assert joint.inertia == pytest.approx(1.0 / inverse[joint.v])
        else:
            assert joint.inertia == pytest.approx(1.0 / inverse[list(joint.dofs)].mean(), rel=0.7)
