# pyright: reportAttributeAccessIssue=false
"""What is not simulated is refused by name, all at once, and can be left out where that makes sense."""

import re

import mujoco
import pytest

from ahac.sim import Model, ModelError, load_model
from ahac.sim.model.types import WORLD
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
    "fluid_shape": (arm(geom='fluidshape="ellipsoid"'), "geom 'g' has an ellipsoid fluid model"),
}
"""Feature, a file that uses it, and how the refusal names it."""

HEIGHT_FIELD = arm(
    extra='<geom name="h" type="hfield" hfield="f" conaffinity="1"/>',
    rest='<asset><hfield name="f" nrow="2" ncol="2" size="1 1 1 1" elevation="0 0 0 1"/></asset>',
)

SIMULATED = {
    "equality": arm(rest='<equality><connect name="e" body1="b" anchor="0 0 0"/></equality>'),
    "ball_limit": arm(joint='type="ball" range="0 1" limited="true"'),
    "frictionloss": arm(joint='frictionloss="0.1"'),
}
"""What is simulated, but can be left out."""

RECENT = {
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
    "flex": (
        arm(extra='<flexcomp name="f" type="grid" count="3 3 1" spacing="1 1 1" dim="2" radius="0.01" mass="1"/>'),
        "deformable",
    ),
    "user's gain": (arm(rest=actuator("general", 'joint="j" gaintype="user"')), "'m' has the gain, bias and dynamics"),
    "adhesion": (arm(rest=actuator("adhesion", 'body="b" ctrlrange="0 1"')), "'m' acts on a target of kind 'body'"),
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
    two = arm(geom='fluidshape="ellipsoid"', extra='<geom name="h" size="0.1" fluidshape="ellipsoid"/>')
    with pytest.raises(ModelError, match=r"geom 'h' has an ellipsoid fluid model and 1 more: not simulated"):
        load_model(two)


MANY = arm(
    joint='frictionloss="0.1"',
    geom='fluidshape="ellipsoid" surfacevel="1 0 0"',
    rest="""<actuator><adhesion name="m" body="b" ctrlrange="0 1"/><adhesion name="n" body="b" ctrlrange="0 1"/>
    <general name="d" joint="j" gaintype="user"/></actuator>""",
)

needs_surface_velocity = pytest.mark.skipif(
    not hasattr(mujoco.MjModel, "geom_surfacevel"), reason="this version of MuJoCo has no surface velocities"
)


@needs_surface_velocity
def test_everything_is_refused_at_once_with_an_argument_to_paste() -> None:
    with pytest.raises(ModelError) as refusal:
        load_model(MANY, ignore=["frictionloss"])
    message = str(refusal.value)
    for element in ("geom 'g' has a surface velocity", "geom 'g' has an ellipsoid fluid model"):
        assert f"  {element}: not simulated; " in message
    assert "for 4 reasons" in message
    assert "'m' and 1 more acts on a target of kind 'body'" in message
    assert message.count("(cannot be ignored)") == 2
    pasted = "ignore=['fluid_shape', 'frictionloss', 'surface_velocity'])"
    assert message.endswith(f"and load without the others: load_model(..., {pasted}")


@needs_surface_velocity
def test_what_can_all_be_ignored_loads_with_the_pasted_argument() -> None:
    source = MANY[: MANY.index("<actuator>")] + "</mujoco>"
    with pytest.raises(ModelError, match=r"load without all of them: load_model\(\.\.\., ignore=\[.*\]\)$") as refusal:
        load_model(source)
    pasted = re.findall(r"'(\w+)'", str(refusal.value).rpartition("ignore=")[2])
    model = load_model(source, ignore=pasted)
    assert len([note for note in model.notes if note.startswith("ignored as requested")]) == len(pasted) == 2


@pytest.mark.parametrize("feature", SIMULATED)
def test_what_is_simulated_can_be_left_out(feature: str) -> None:
    kept, dropped = load_model(SIMULATED[feature]), load_model(SIMULATED[feature], ignore=[feature])
    assert kept != dropped
    assert not dropped.equalities
    assert not any(dropped.frictionloss)
    assert not any(joint.range for joint in dropped.joints)
    assert not [note for note in kept.notes if "ignored" in note]
    assert [note for note in dropped.notes if feature in note]


def test_what_is_simulated_approximately_is_noted() -> None:
    assert load_model(SIMULATED["equality"]).notes == ("equality constraints (1) act as stiff, damped springs",)
    assert load_model(SIMULATED["frictionloss"]).notes == ("dry friction (1 coordinates) is smooth near zero speed",)
    assert load_model(SIMULATED["ball_limit"]).notes == ()


def test_mocap_bodies_are_static_and_noted() -> None:
    body = '<body name="m" mocap="true" pos="1 2 3"><geom name="marker" size="0.1" contype="0"/></body>'
    model = load_model(arm(extra=body))
    assert model.bodies["m"].link == WORLD
    assert model.bodies["m"].position == (1.0, 2.0, 3.0)
    assert "mocap bodies stay where the file puts them, as static bodies: 'm'" in model.notes


def test_height_fields_are_dropped_with_a_note() -> None:
    model = load_model(HEIGHT_FIELD)
    assert "geom 'h' is a height field: not simulated; bodies collide with static planes only" in model.notes


@pytest.mark.parametrize("feature", ["flex", "frictionless", "tendon_wrap"])
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
        HEIGHT_FIELD.replace('conaffinity="1"', 'contype="0"'),
    ],
    ids=["inactive equality", "equalities disabled", "tendon that nothing pulls", "height field nothing touches"],
)
def test_what_has_no_effect_is_not_refused(source: str) -> None:
    assert load_model(source).nv == 1


def test_disabled_actuation_is_no_matter_without_actuators() -> None:
    assert load_model(arm(rest='<option><flag actuation="disable"/></option>')).nu == 0
