# pyright: reportAttributeAccessIssue=false
"""Tendons around spheres and cylinders, over pulleys, with springs and armature, against MuJoCo."""

import mujoco
import numpy as np
import pytest

from ahac.sim import ModelError, load_model
from ahac.sim.compiler.operations import where
from ahac.sim.compiler.program import evaluate, trace
from ahac.sim.model.types import WORLD, Frame, Obstacle
from ahac.sim.physics.algebra import Vec3, norm
from ahac.sim.physics.wrapping import wrap
from support.driven import LIMB, TENDONS, Driven
from support.robots import mjcf

RADIUS = 0.08
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
SIDES = {"no side site": None, "side site": (0.02, 0.05, 0.15), "inside": (0.01, 0.02, 0.03)}
SHAPES = {"sphere": f'type="sphere" size="{RADIUS}"', "cylinder": f'type="cylinder" size="{RADIUS} 0.2"'}
POINTS = 1000

TWO_POINTS = """
<geom name="obstacle" {shape}/>{side}
<body name="a">{slides}<geom size="0.1"/><site name="a"/></body>
<body name="b">{slides}<geom size="0.1"/><site name="b"/>
</body>
"""
SLIDES = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))

BODIES = """
<site name="wall" pos="-0.3 0.02 1.2"/>
<body name="base" pos="0 0 1"><joint name="yaw" axis="0 1 0.2"/><joint type="slide" axis="0 0 1"/>
  <geom type="box" size="0.1 0.2 0.1" mass="2"/>
  <geom name="ball" type="sphere" size="0.08" pos="0 0 0.15" mass="0.1"/>
  <geom name="rod" type="cylinder" size="0.07 0.2" pos="0.2 0 0.1" euler="1.3 0.2 0.1" mass="0.1"/>
  <site name="beside ball" pos="0 0.05 0.35"/><site name="in ball" pos="0.01 0.02 0.16"/>
  <site name="beside rod" pos="0.2 0 0.4"/><site name="in rod" pos="0.21 0.01 0.1"/>
  <site name="middle" pos="0.05 0 0.2"/>
  <body pos="0.3 0 0"><joint name="bend" axis="0.3 1 0"/><joint type="ball" pos="0.1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.7"/><site name="tip" pos="0.2 0.05 0.1"/></body>
</body>
<body pos="0 0.3 1.2"><freejoint/><geom name="float" type="sphere" size="0.2" mass="1"/>
  <site name="ring" pos="0.1 0 0.2"/>
</body>
"""


def site(name: str) -> str:
    return f'<site site="{name}"/>'


def around(geom: str, side: str = "") -> str:
    return f'<geom geom="{geom}" {side and f"sidesite={side!r}"}/>'


PATHS = {
    "sphere": site("wall") + around("ball") + site("tip"),
    "sphere with side site": site("wall") + around("ball", "beside ball") + site("tip"),
    "inside of a sphere": site("wall") + around("ball", "in ball") + site("tip"),
    "cylinder": site("wall") + around("rod") + site("tip"),
    "cylinder with side site": site("wall") + around("rod", "beside rod") + site("tip"),
    "inside of a cylinder": site("wall") + around("rod", "in rod") + site("tip"),
    "two obstacles": site("wall") + around("ball") + site("middle") + around("rod") + site("tip") + site("ring"),
    "an obstacle of another tree": site("tip") + around("float") + site("wall"),
    "pulleys": f'{site("wall")}{site("middle")}<pulley divisor="2"/>{site("middle")}{around("rod")}{site("tip")}'
    f'<pulley divisor="3"/>{site("ring")}{site("wall")}',
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", SIDES)
def test_path_around_an_obstacle_is_mujocos(shape: str, side: str) -> None:
    at = SIDES[side]
    marked = "" if at is None else f'<site name="side" pos="{at[0]} {at[1]} {at[2]}"/>'
    path = site("a") + around("obstacle", "side" if at else "") + site("b")
    bodies = TWO_POINTS.format(shape=SHAPES[shape], side=marked, slides=SLIDES)
    model = mujoco.MjModel.from_xml_string(mjcf(bodies, rest=f"<tendon><spatial>{path}</spatial></tendon>"))
    frame = Frame(link=WORLD, position=(0.0, 0.0, 0.0), rotation=AXES)
    obstacle = Obstacle(cylinder=shape == "cylinder", frame=frame, radius=RADIUS, side=at)

    def answer(x: list) -> dict[str, list]:
        start, end = Vec3(*x[:3]), Vec3(*x[3:])
        found = wrap(obstacle, start, end)
        length = norm(found.first - start) + found.between + norm(end - found.last)
        return {"y": [where(found.wrapped, 1.0, 0.0), where(found.wrapped, length, norm(end - start))]}

    x = 0.15 * np.random.default_rng(1).normal(size=(POINTS, 6))
    ours = evaluate(trace(answer, {"x": 6}), {"x": x})["y"]
    data = mujoco.MjData(model)
    theirs = np.zeros((POINTS, 2))
    for row, found in zip(x, theirs, strict=True):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        mujoco.mj_tendon(model, data)
        found[:] = data.ten_wrapnum[0] > 2, data.ten_length[0]
    assert 0.05 < theirs[:, 0].mean() < 0.95
    np.testing.assert_array_equal(ours[:, 0], theirs[:, 0])
    np.testing.assert_allclose(ours[:, 1], theirs[:, 1], atol=1e-12)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_servo_along_a_path_pulls_as_in_mujoco(path: str) -> None:
    rest = f"""
<tendon><spatial name="t" stiffness="30 20 10" springlength="0.5 0.7" damping="2 1 0.5">{path}</spatial></tendon>
<actuator><position tendon="t" kp="50" kv="3" gear="1.3"/></actuator>"""
    Driven.of(mjcf(BODIES, rest=rest), states=24, spread=0.6).assert_equal()


def test_tendon_in_line_with_the_center_of_a_sphere_has_a_finite_path() -> None:
    frame = Frame(link=WORLD, position=(0.0, 0.0, 0.0), rotation=AXES)
    obstacle = Obstacle(cylinder=False, frame=frame, radius=RADIUS)
    for axis in np.eye(3):
        start, end = Vec3(*(0.2 * axis).tolist()), Vec3(*(-0.3 * axis).tolist())
        found = wrap(obstacle, start, end)
        length = norm(found.first - start) + found.between + norm(end - found.last)
        tangents = np.sqrt(0.04 - RADIUS**2) + np.sqrt(0.09 - RADIUS**2)
        arc = RADIUS * (np.pi - np.arccos(RADIUS / 0.2) - np.arccos(RADIUS / 0.3))
        assert float(length) == pytest.approx(tangents + arc)


@pytest.mark.parametrize("tendon", [{"sum": 'armature="0.3"'}, {"inner": 'armature="0.3"'}], ids=["fixed", "spatial"])
def test_armature_of_a_tendon(tendon: dict[str, str]) -> None:
    inner = f"<tendon><spatial {tendon.get('inner', '')}>{site('eye')}{site('tip')}</spatial></tendon>"
    rest = TENDONS.format(sum=tendon.get("sum", ""), across="") + inner
    Driven.of(mjcf(LIMB.format(base="", arm="", bend="", neck=""), rest=rest)).assert_equal()


def test_side_site_on_another_body_is_refused() -> None:
    path = site("wall") + around("ball", "tip") + site("ring")
    with pytest.raises(ModelError, match=r"'tip'.*'ball'.*attach both to one body"):
        load_model(mjcf(BODIES, rest=f"<tendon><spatial>{path}</spatial></tendon>"))
