# pyright: reportAttributeAccessIssue=false
"""Which geom may touch which plane: MuJoCo's filters; and contact between bodies, which is reported or refused."""

import logging
import re

import mujoco
import pytest

from ahac.sim import ModelError, load_model
from ahac.sim.model.notes import log_once, without_warnings
from support.robots import FREE_SPHERE, SHAPES, TWO_TREES, gymnasium_file

BALL = '<geom name="{name}" size="0.5" {filters}/>'


def ball(name: str, filters: str = "", inside: str = "", joint: str = "<joint/>") -> str:
    """A body with one ball around the origin, where all planes meet; `inside` are its children."""
    return f'<body name="{name}">{joint}{BALL.format(name=name, filters=filters)}{inside}</body>'


CROWD = f"""
<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <geom name="ramp" type="plane" size="1 1 1" euler="30 0 0" contype="2" conaffinity="4"/>
  <body name="stand"><geom name="shelf" type="plane" size="1 1 1" euler="0 30 0" contype="8" conaffinity="8"/>
    {ball("on the stand", 'contype="8"')}
  </body>
  {ball("plain", inside=ball("child", inside=ball("grandchild") + ball("welded", joint="")))}
  {ball("ghost", 'contype="0" conaffinity="0"')}
  {ball("paired", 'contype="0" conaffinity="0"')}
  {ball("shy", 'contype="4" conaffinity="0"')}
  {ball("open", 'contype="0" conaffinity="2"')}
  {ball("every", 'contype="15" conaffinity="15"')}
  {ball("excluded", 'contype="15" conaffinity="15"')}
  {ball("static", joint="")}
</worldbody>
<contact>
  <pair geom1="paired" geom2="ramp"/><pair geom1="excluded" geom2="floor"/><pair geom1="ghost" geom2="paired"/>
  <exclude body1="world" body2="excluded"/><exclude body1="every" body2="plain"/><exclude body1="stand" body2="every"/>
</contact></mujoco>
"""


def mujoco_pairs(source: str) -> set[frozenset[str]]:
    """The geoms that MuJoCo finds in contact in the reference pose, where all of them meet."""
    model = mujoco.MjModel.from_xml_string(source)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return {frozenset(model.geom(g).name for g in contact.geom) for contact in data.contact}


@pytest.fixture(autouse=True)
def _nothing_was_reported_yet() -> None:
    log_once.cache_clear()


PLANES = {"floor", "ramp", "shelf"}


def with_flag(flag: str) -> str:
    return CROWD.replace("</mujoco>", f'<option><flag {flag}="disable"/></option></mujoco>')


@pytest.mark.parametrize("source", [CROWD, with_flag("filterparent")], ids=["parents filtered", "parents not filtered"])
def test_pairs_are_those_that_mujoco_collides(source: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ahac"):
        model = load_model(source)
    wanted = mujoco_pairs(source)
    with_planes = {pair for pair in wanted if pair & PLANES}
    assert {frozenset((candidate.geom, candidate.plane.name)) for candidate in model.contact_candidates} == with_planes
    assert len(with_planes) > 10
    between = re.search(r"contact between (\d+) pairs", caplog.text)
    assert between is not None
    assert int(between[1]) == len(wanted - with_planes)


def test_nothing_touches_where_the_file_disables_contact(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(with_flag("contact"), strict=True)
    assert mujoco_pairs(with_flag("contact")) == set()
    assert model.contact_candidates == ()
    assert caplog.records == []


def test_contact_between_bodies_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ahac"):
        load_model(gymnasium_file("hopper"))
        load_model(gymnasium_file("hopper"))
    assert [record.name for record in caplog.records] == ["ahac"]
    assert "model 'hopper': contact between 3 pairs of geoms, first ('torso_geom', 'leg_geom')" in caplog.text


def test_a_model_can_be_loaded_without_a_report(caplog: pytest.LogCaptureFixture) -> None:
    source = CROWD.replace("<mujoco>", '<mujoco model="silent">')
    with caplog.at_level(logging.WARNING, logger="ahac"), without_warnings():
        model = load_model(source)
    assert caplog.records == []
    assert any("contact between" in note for note in model.notes)


def test_contact_between_bodies_can_be_refused() -> None:
    with pytest.raises(
        ModelError, match=r"contact between 3 pairs.*set contype and conaffinity to 0, or load with strict=False"
    ):
        load_model(gymnasium_file("hopper"), strict=True)


@pytest.mark.parametrize("source", [SHAPES, FREE_SPHERE, TWO_TREES])
def test_bodies_that_cannot_collide_are_not_reported(source: str, caplog: pytest.LogCaptureFixture) -> None:
    load_model(source, strict=True)
    assert "contact between" not in caplog.text


def test_a_robot_that_will_fall_for_ever_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        load_model(TWO_TREES)
    assert caplog.text.count("there is no plane to stand on; ground=True adds z = 0") == 1
    caplog.clear()
    load_model(TWO_TREES, ground=True)
    assert caplog.records == []


def test_ground_is_added_where_there_is_no_plane() -> None:
    assert load_model(TWO_TREES).contact_candidates == ()
    model = load_model(TWO_TREES, ground=True)
    assert [(plane.name, plane.normal, plane.offset) for plane in model.planes] == [("ground", (0.0, 0.0, 1.0), 0.0)]
    # Eight corners, two discs and sixteen points on rims, two ends, one ball.
    assert len(model.contact_candidates) == 8 + 18 + 2 + 1
    assert load_model(FREE_SPHERE, ground=True) == load_model(FREE_SPHERE)


def test_ground_does_not_touch_what_touches_nothing() -> None:
    body = '<body><joint/><geom size="0.1" contype="{0}" conaffinity="{1}"/></body>'
    source = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    counts = [
        len(load_model(source.format(*bits), ground=True).contact_candidates)
        for bits in ((0, 0), (1, 0), (0, 1), (2, 2))
    ]
    assert counts == [0, 1, 1, 0]


def test_planes_have_the_normals_and_offsets_of_the_file() -> None:
    tilted = '<geom name="p" type="plane" size="1 1 1" pos="1 2 3" euler="0 1.5707963267948966 0" conaffinity="1"/>'
    model = load_model(
        FREE_SPHERE.replace("<body", f'<body pos="0 0 1" euler="0 0 1.5707963267948966">{tilted}</body><body', 1)
    )
    plane = {plane.name: plane for plane in model.planes}["p"]
    # A quarter turn about y takes z to x, and one about z then takes x to y; the point (1, 2, 3) goes to (−2, 1, 4).
    assert plane.normal == pytest.approx((0.0, 1.0, 0.0), abs=1e-12)
    assert plane.offset == pytest.approx(1.0)


def test_large_mesh_touches_with_a_few_points_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    kept = [candidate for candidate in load_model(SHAPES, mesh_points=3).contact_candidates if candidate.geom == "rock"]
    assert len(kept) == 2 * 3
    assert "1 meshes touch with 3 of up to 4 hull vertices; load_model(..., mesh_points=4) uses all" in caplog.text
