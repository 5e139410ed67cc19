# pyright: reportAttributeAccessIssue=false
"""Friction of contacts by MuJoCo's rules; and notes on what else the file says about them."""

import mujoco
import numpy as np
import pytest

from ahac.sim import ContactMaterial, Model, load_model


def ball(name: str, attributes: str) -> str:
    return f'<body><joint type="slide"/><geom name="{name}" size="0.5" conaffinity="0" {attributes}/></body>'


def scene(floor: str, balls: dict[str, str], pairs: str = "", option: str = "") -> str:
    bodies = "".join(ball(name, attributes) for name, attributes in balls.items())
    plane = f'<geom name="floor" type="plane" size="1 1 1" conaffinity="1" contype="0" {floor}/>'
    return f"<mujoco>{option}<worldbody>{plane}{bodies}</worldbody><contact>{pairs}</contact></mujoco>"


def random_scene(seed: int) -> str:
    rng = np.random.default_rng(seed)

    def attributes() -> str:
        friction, condim, priority = rng.uniform(0.1, 2.0), rng.choice([1, 3, 4, 6]), rng.integers(0, 3)
        return f'friction="{friction}" condim="{condim}" priority="{priority}"'

    pairs = f'<pair geom1="ball0" geom2="floor" friction="0.3 0.3 0 0 0" condim="{rng.choice([1, 3])}"/>'
    return scene(attributes(), {f"ball{i}": attributes() for i in range(6)}, pairs)


def sliding_frictions(model: Model) -> dict[str, float]:
    return {candidate.geom: candidate.material.friction or 0.0 for candidate in model.contact_candidates}


@pytest.mark.parametrize("seed", range(8))
def test_friction_is_that_of_mujocos_contacts(seed: int) -> None:
    source = random_scene(seed)
    model = mujoco.MjModel.from_xml_string(source)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    theirs = {}
    for contact in data.contact:
        name = next(name for name in (model.geom(g).name for g in contact.geom) if name != "floor")
        theirs[name] = 0.0 if contact.dim == 1 else contact.friction[0]
    assert sliding_frictions(load_model(source)) == pytest.approx(theirs)
    assert len(theirs) == 6


def test_a_material_with_a_friction_of_its_own_overrides_the_file() -> None:
    source = scene('friction="0.5"', {"a": 'friction="0.4"', "b": 'friction="0.6"', "c": 'condim="1" priority="1"'})
    assert sliding_frictions(load_model(source)) == {"a": 0.5, "b": 0.6, "c": 0.0}
    slippery = ContactMaterial(friction=0.1)
    assert sliding_frictions(load_model(source, materials={"a": slippery})) == {"a": 0.1, "b": 0.6, "c": 0.0}
    assert sliding_frictions(load_model(source, contact=slippery)) == {"a": 0.1, "b": 0.1, "c": 0.1}


def test_a_ground_that_the_file_does_not_have_has_no_friction_of_its_own() -> None:
    body = ball("a", 'friction="0.4"')
    source = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    assert sliding_frictions(load_model(source, ground=True)) == {"a": 0.4}


def test_the_files_override_of_all_contacts_counts() -> None:
    option = '<option o_friction="0.2 0.2 0 0 0"><flag override="enable"/></option>'
    assert sliding_frictions(load_model(scene("", {"a": "", "b": 'condim="1" priority="2"'}, option=option))) == {
        "a": 0.2,
        "b": 0.0,
    }


def test_what_is_not_read_is_noted_with_counts() -> None:
    balls = {"a": 'condim="6" solref="0.01 1"', "b": 'condim="4" margin="0.1"', "c": "", "d": 'gap="0.2" contype="0"'}
    pairs = '<pair geom1="c" geom2="floor" friction="0.3 0.4 0 0 0"/>'
    notes = load_model(scene('solimp="0.8 0.9 0.01 0.5 2"', balls, pairs)).notes
    assert notes == (
        "contact: torsional friction (2) and rolling friction (1) dropped, sliding friction only",
        "contact: 1 pairs of geoms slide with the first of their two friction coefficients",
        "contact: solref (1), solimp (1), margin (1) of geoms not read; stiffness and damping are those of "
        "ContactMaterial",
    )


def test_solver_settings_of_limits_are_noted() -> None:
    joint = '<joint range="-1 1" limited="true" solreflimit="0.01 1" margin="0.1"/>'
    source = f'<mujoco><worldbody><body>{joint}<geom size="0.1"/></body></worldbody></mujoco>'
    assert load_model(source).notes == (
        "joint limits: solref and solimp of 1 joints not read; their forces are those of JointLimit",
        "joint limits: margin of 1 joints not read",
    )
