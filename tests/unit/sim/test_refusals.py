# pyright: reportAttributeAccessIssue=false
"""What is not simulated is refused by name, with the way out; and can be left out where that makes sense."""

import mujoco
import pytest

from ahac.sim import Model, ModelError, load_model
from support.robots import mjcf

SITES = '<site name="a" pos="0 0 1"/><geom name="drum" type="sphere" size="0.05" pos="0.1 0 0.5" contype="0"/>'


def arm(joint: str = "", geom: str = "", rest: str = "", extra: str = "") -> str:
    """A hinge `j` with a capsule `g` and a site `s`, and whatever is put at those places."""
    return mjcf(
        f"""{SITES}{extra}<body name="b" pos="0 0 1"><joint name="j" axis="0 1 0" {joint}/>
        <geom name="g" type="capsule" fromto="0 0 0 0.3 0 0" size="0.04" mass="1" {geom}/>
        <site name="s" pos="0.3 0 0.1"/></body>""",
        rest=rest,
    )


def tendon(attributes: str = "", over: str = "", driven: bool = False) -> str:
    """A tendon `t` between two sites, which may run over something."""
    path = f'<tendon><spatial name="t" {attributes}><site site="a"/>{over}<site site="s"/></spatial></tendon>'
    return path + ('<actuator><motor name="m" tendon="t"/></actuator>' if driven else "")


def actuator(kind: str, attributes: str = 'joint="j"') -> str:
    return f'<actuator><{kind} name="m" {attributes}/></actuator>'


LEFT_OUT = {
    "equality": (arm(rest='<equality><connect name="e" body1="b" anchor="0 0 0"/></equality>'), r"'e' \(connect\)"),
    "ball_limit": (arm(joint='type="ball" range="0 1" limited="true"'), "ball joint 'j' has a range"),
    "frictionloss": (arm(joint='frictionloss="0.1"'), "joint 'j' has dry friction"),
    "gravcomp": (arm().replace('<body name="b"', '<body name="b" gravcomp="1"'), "body 'b' has gravity compensation"),
    "tendon_stiffness": (arm(rest=tendon('stiffness="3"')), "tendon 't' has stiffness"),
    "tendon_damping": (arm(rest=tendon('damping="3"')), "tendon 't' has damping"),
    "tendon_limit": (arm(rest=tendon('limited="true" range="0 1"')), "tendon 't' has a length range"),
    "tendon_frictionloss": (arm(rest=tendon('frictionloss="1"')), "tendon 't' has dry friction"),
    "tendon_armature": (arm(rest=tendon('armature="1"')), "tendon 't' has armature"),
    "tendon_force_range": (
        arm(rest=tendon('actuatorfrcrange="-1 1" actuatorfrclimited="true"')),
        "tendon 't' has a force range",
    ),
    "tendon_wrap": (arm(rest=tendon(over='<geom geom="drum"/>', driven=True)), "tendon 't' runs over a sphere"),
    "disabled_actuators": (arm(rest=actuator("motor") + '<option actuatorgroupdisable="0"/>'), "groups are disabled"),
    "height_field": (
        arm(extra='<geom name="h" type="hfield" hfield="f" conaffinity="1"/>',
            rest='<asset><hfield name="f" nrow="2" ncol="2" size="1 1 1 1" elevation="0 0 0 1"/></asset>'),
        "geom 'h' is a height field",
    ),
    "fluid_shape": (arm(geom='fluidshape="ellipsoid"'), "geom 'g' has an ellipsoid fluid model"),
}  # fmt: skip
"""Feature, a file that uses it, and how the refusal names it."""

RECENT = {
    "nonlinear_spring": ("jnt_stiffnesspoly", arm(joint='stiffness="1 0.5"'), "joint 'j' has a nonlinear spring"),
    "nonlinear_damping": ("dof_dampingpoly", arm(joint='damping="1 0.5"'), "joint 'j' has nonlinear damping"),
    "actuator_damping": ("actuator_damping", arm(rest=actuator("motor", 'joint="j" damping="1"')), "'m' has damping"),
    "actuator_armature": (
        "actuator_armature",
        arm(rest=actuator("motor", 'joint="j" armature="1"')),
        "'m' has armature",
    ),
    "actuator_delay": (
        "actuator_delay",
        arm(rest=actuator("motor", 'joint="j" delay="0.1" nsample="9"')),
        "'m' has a delay",
    ),
    "adhesion": ("geom_adhesion", arm(geom='adhesion="1"'), "geom 'g' has adhesion"),
    "surface_velocity": ("geom_surfacevel", arm(geom='surfacevel="1 0 0"'), "geom 'g' has a surface velocity"),
}
"""The same for what older versions of MuJoCo do not have, with the field that tells."""

REFUSED = {
    "mocap body": (arm(extra='<body name="m" mocap="true"/>'), "body 'm' is a mocap body"),
    "flex": (
        arm(extra='<flexcomp name="f" type="grid" count="3 3 1" spacing="1 1 1" dim="2" radius="0.01" mass="1"/>'),
        "deformable",
    ),
    "damper": (arm(rest=actuator("damper", 'joint="j" kv="1" ctrlrange="0 1"')), "'m' is not a motor, servo or muscle"),
    "integrating servo": (arm(rest=actuator("intvelocity", 'joint="j" kp="1" actrange="-1 1"')), "'m' is not a motor"),
    "filtered servo": (arm(rest=actuator("position", 'joint="j" kp="1" timeconst="0.1"')), "'m' is not a motor"),
    "cylinder": (arm(rest=actuator("cylinder")), "'m' is not a motor"),
    "user's gain": (arm(rest=actuator("general", 'joint="j" gaintype="user"')), "'m' is not a motor"),
    "adhesion": (arm(rest=actuator("adhesion", 'body="b" ctrlrange="0 1"')), "'m' acts on a body"),
    "thruster": (arm(rest=actuator("motor", 'site="s"')), "'m' acts on a site"),
    "crank": (arm(rest=actuator("motor", 'cranksite="s" slidersite="a" cranklength="1"')), "'m' acts on a slider"),
    "servo on a ball": (arm(joint='type="ball"', rest=actuator("position")), "'m' is more than a motor"),
    "motor in a ball's parent": (arm(joint='type="ball"', rest=actuator("motor", 'jointinparent="j"')), "'m' is more"),
    "inactive": (arm(rest=actuator("motor") + '<option><flag actuation="disable"/></option>'), "disables actuation"),
    "plane on a moving body": (arm().replace("<joint", '<geom type="plane" size="1 1 1"/><joint'), "plane"),
}  # fmt: skip


@pytest.mark.parametrize("feature", [*LEFT_OUT, *RECENT])
def test_feature_is_refused_by_name_and_can_be_left_out(feature: str) -> None:
    if feature in RECENT and not hasattr(mujoco.MjModel, RECENT[feature][0]):
        pytest.skip("this version of MuJoCo does not have it")
    source, named = LEFT_OUT[feature] if feature in LEFT_OUT else RECENT[feature][1:]
    with pytest.raises(ModelError, match=named) as refusal:
        load_model(source)
    assert "not simulated; " in str(refusal.value)
    assert f"ignore=['{feature}']" in str(refusal.value)
    assert isinstance(load_model(source, ignore=[feature]), Model)


@pytest.mark.parametrize("feature", REFUSED)
def test_feature_is_refused_by_name(feature: str) -> None:
    source, named = REFUSED[feature]
    with pytest.raises(ModelError, match=named):
        load_model(source)


def test_several_elements_are_counted() -> None:
    with pytest.raises(ModelError, match=r"joint 'j' has dry friction .* and 2 more"):
        load_model(arm(joint='type="ball" frictionloss="0.1"'))


@pytest.mark.parametrize("feature", ["flex", "frictionless", "mocap"])
def test_what_cannot_be_left_out_is_said(feature: str) -> None:
    with pytest.raises(
        ModelError, match=f"cannot ignore {feature}; features that can be ignored: .*ball_limit.*equality"
    ):
        load_model(arm(), ignore=[feature])


@pytest.mark.parametrize(
    "source",
    [
        arm(rest='<equality><connect name="e" body1="b" anchor="0 0 0" active="false"/></equality>'),
        arm(rest='<equality><connect body1="b" anchor="0 0 0"/></equality><option><flag equality="disable"/></option>'),
        arm(rest=tendon(over='<geom geom="drum"/>')),
        LEFT_OUT["height_field"][0].replace('conaffinity="1"', 'contype="0"'),
    ],
    ids=["inactive equality", "equalities disabled", "tendon that nothing pulls", "height field nothing touches"],
)
def test_what_has_no_effect_is_not_refused(source: str) -> None:
    assert load_model(source).nv == 1


def test_disabled_actuation_is_no_matter_without_actuators() -> None:
    assert load_model(arm(rest='<option><flag actuation="disable"/></option>')).nu == 0
