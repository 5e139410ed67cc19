"""Transmissions, force laws and activations of actuators, against MuJoCo's accelerations and activations."""

import numpy as np
import pytest

from ahac.sim import ModelError, load_model
from support.driven import LIMB, TENDONS, Driven
from support.robots import mjcf

CASES = {
    "integrators": """
        <intvelocity joint="bend" kp="30" actrange="-1 1"/>
        <general joint="yaw" dyntype="integrator" gainprm="3" actlimited="true" actrange="-.5 .5" ctrlrange="-1 1"/>
        <general joint="lift" dyntype="integrator" gainprm="30" actearly="true"/>""",
    "filters": """
        <general joint="bend" dyntype="filter" dynprm="0.05" gainprm="3" biastype="affine" biasprm="1 -2 -0.1"/>
        <general joint="yaw" dyntype="filterexact" dynprm="0.002" gainprm="3" actearly="true"/>
        <position joint="lift" kp="30" kv="1" timeconst="0.1"/><cylinder joint="bend" timeconst="0.2" bias="1 2 3"/>""",
    "gains that depend on length and speed": """
        <damper joint="bend" kv="3" ctrlrange="0 1"/>
        <general tendon="sum" gaintype="affine" gainprm="1 2 3" biastype="affine" biasprm="0.1 0.2 0.3"/>""",
    "muscles": """
        <muscle joint="bend" lengthrange="-2 2" force="10"/>
        <muscle joint="yaw" lengthrange="-1 2" force="10" tausmooth="0.4" ctrlrange="0 1"/>
        <muscle tendon="across" lengthrange="0.5 3" scale="200" range="0.6 1.2" lmin="0.4" lmax="1.7" vmax="2"
          fpmax="1.4" fvmax="1.3"/>""",
    "a ball joint": """
        <position joint="neck" kp="5" kv="1" gear="1 -2 3"/><position jointinparent="neck" kp="5" gear="0.1 -0.2 0.3"/>
        <motor jointinparent="neck" gear="0.1 2 0.3"/>""",
    "a free joint": """
        <position joint="root" kp="5" kv="1" gear="1 -2 3 0.4 0.5 0.6"/>
        <velocity jointinparent="root" kv="2" gear="1 -2 3 0.4 0.5 0.6"/>""",
    "sites": """
        <motor site="ring" gear="1 2 3 0.1 0.2 0.3"/><velocity site="tip" kv="2" gear="1 2 3 0.1 0.2 0.3"/>""",
    "sites with reference": """
        <position site="tip" refsite="base site" kp="20" kv="2" gear="1 2 3 0 0 0"/>
        <position site="tip" refsite="base site" kp="20" kv="2" gear="0 0 0 0.5 0.4 0.3"/>
        <position site="knuckle" refsite="tip" kp="20" gear="1 2 3 0.5 0.4 0.3"/>""",
    "sites with moving reference": """
        <position site="tip" refsite="eye" kp="20" kv="2" gear="1 2 3 0.5 0.4 0.3"/>
        <position site="eye" refsite="tip" kp="20" kv="2" gear="3 2 1 0.5 0.4 0.3"/>
        <position site="ring" refsite="tip" kp="20" kv="2" gear="1 2 3 0.5 0.4 0.3"/>""",
    "slider-cranks": """
        <position cranksite="tip" slidersite="eye" cranklength="0.8" kp="20" kv="2" gear="1.3"/>
        <position cranksite="knuckle" slidersite="eye" cranklength="0.1" kp="20" kv="2" gear="1.3"/>
        <position cranksite="ring" slidersite="base site" cranklength="3" kp="20" kv="2" gear="1.3"/>""",
    "damping and armature of actuators": """
        <motor joint="bend" gear="3" damping="1 2 3" armature="0.2"/>
        <motor tendon="sum" gear="2" damping="0.3 0.2 0.1"/>
        <motor joint="neck" gear="2 3 4" damping="0.5 0.2 0.1" armature="0.1"/>
        <motor tendon="across" gear="2" damping="0.3"/>""",
}


@pytest.mark.parametrize("actuators", CASES.values(), ids=CASES.keys())
def test_actuators_act_as_in_mujoco(actuators: str) -> None:
    found = Driven.of(mjcf(limb(), rest=f"{tendons()}<actuator>{actuators}</actuator>"))
    assert all(np.abs(data.qfrc_actuator).max() + np.abs(data.qfrc_passive).max() > 1e-3 for data in found.data)
    found.assert_equal()


def test_disabled_groups_do_nothing_and_keep_their_activation() -> None:
    actuators = """
        <motor joint="bend" gear="3" group="2" damping="1"/><intvelocity joint="yaw" kp="3" group="2" actrange="-1 1"/>
        <general joint="yaw" dyntype="integrator" actearly="true" group="2"/><motor joint="lift" group="1"/>"""
    rest = f'{tendons()}<actuator>{actuators}</actuator><option actuatorgroupdisable="2"/>'
    found = Driven.of(mjcf(limb(), rest=rest))
    assert all(data.actuator_force[:3].tolist() == [0.0, 0.0, 0.0] for data in found.data)
    found.assert_equal()


def test_tendons_bound_what_their_actuators_do_together() -> None:
    actuators = """
        <motor tendon="sum" gear="3" forcerange="-1 1"/><position tendon="sum" kp="2" kv="0.1" gear="2"/>
        <motor tendon="across" gear="3"/><position tendon="across" kp="2" gear="-1"/>
        <muscle tendon="across" lengthrange="0.1 3" force="5"/>"""
    bounded = tendons(sum='actuatorfrcrange="-1 2"', across='actuatorfrcrange="-3 1"')
    found = Driven.of(mjcf(limb(), rest=f"{bounded}<actuator>{actuators}</actuator>"))
    totals = np.array([data.actuator_force[2:].sum() for data in found.data])
    assert np.isclose(totals, -3.0).any(), "the lower bound is never reached"
    assert np.isclose(totals, 1.0).any(), "the upper bound is never reached"
    found.assert_equal()


def test_gravity_is_compensated_as_in_mujoco() -> None:
    Driven.of(mjcf(limb(base='gravcomp="0.4"', arm='gravcomp="0.7"'))).assert_equal()


def test_actuators_can_compensate_gravity_within_the_bounds_of_their_joint() -> None:
    bend = 'actuatorgravcomp="true" actuatorfrcrange="-0.5 0.5"'
    bodies = limb(arm='gravcomp="0.7"', bend=bend, neck='actuatorgravcomp="true"')
    found = Driven.of(mjcf(bodies, rest='<actuator><motor joint="bend"/></actuator>'))
    assert {-0.5, 0.5} & {round(float(data.qfrc_actuator[2]), 9) for data in found.data}, "no bound is ever reached"
    found.assert_equal()


def test_nonlinear_springs_and_dampers_of_joints() -> None:
    bodies = limb(
        bend='stiffness="2 3 5" springref="0.2" damping="1 2 3"', neck='stiffness="2 1 3" damping="0.3 0.2 0.1"'
    )
    Driven.of(mjcf(bodies)).assert_equal()


def test_nonlinear_spring_of_a_free_joint_takes_the_distance() -> None:
    joint = '<joint type="free" stiffness="2 3 5" damping="1 2 3"/>'
    Driven.of(mjcf(f'<body pos="1 2 3">{joint}<geom type="box" size="0.1 0.2 0.3"/></body>')).assert_equal()


@pytest.mark.parametrize("where", ["tendon", "actuator"])
def test_armature_of_tendons_with_obstacles_is_refused(where: str) -> None:
    armature = {"tendon": "", "actuator": "", where: 'armature="0.1"'}
    rest = f"""<tendon><spatial name="t" {armature["tendon"]}><site site="a"/><geom geom="g"/><site site="b"/></spatial>
      </tendon><actuator><motor tendon="t" {armature["actuator"]}/></actuator>"""
    body = '<body><joint/><geom name="g" size="0.1"/><site name="b" pos="0.5 0 0"/></body><site name="a" pos="0 1 0"/>'
    with pytest.raises(ModelError, match="geom wrapping not supported"):
        load_model(mjcf(body, rest=rest))


def test_flags_disable_passive_forces() -> None:
    bodies = limb(arm='gravcomp="0.7"', bend='stiffness="2 3 5" damping="1 2 3"')
    rest = tendons(across='stiffness="5" damping="2"')
    for flags in ('spring="disable"', 'damper="disable"', 'spring="disable" damper="disable"', 'gravity="disable"'):
        Driven.of(mjcf(bodies, rest=f"{rest}<option><flag {flags}/></option>"), states=4).assert_equal()


@pytest.mark.parametrize(
    ("actuator", "kind"),
    [('<adhesion body="arm" ctrlrange="0 1"/>', "body"), ('<general joint="bend" dyntype="user"/>', "user")],
)
def test_other_actuators_are_refused_by_kind(actuator: str, kind: str) -> None:
    with pytest.raises(ModelError, match=kind):
        load_model(mjcf(limb(), rest=f"<actuator>{actuator}</actuator>"))


def limb(**extra: str) -> str:
    return LIMB.format(**{"base": "", "arm": "", "bend": "", "neck": "", **extra})


def tendons(**extra: str) -> str:
    return TENDONS.format(**{"sum": "", "across": "", **extra})
