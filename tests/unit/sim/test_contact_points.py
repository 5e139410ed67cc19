"""Which contact points of a large model are used: feet first, spread out, and it says so."""

import numpy as np
import pytest

from ahac.sim import InputError, Model, ModelError, load_model
from ahac.sim.model.notes import log_once
from support.robots import SHAPES

SEGMENT = '<geom name="{name}" type="mesh" mesh="ball" pos="{pos}" contype="1" conaffinity="0"/>'


def robot(keyframe: str = "") -> str:
    """A trunk 1 m above the ground with two shins; each has a foot, the only leaves beside a head."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((100, 3))
    vertices = " ".join(f"{x:.6f}" for x in (0.1 * points / np.linalg.norm(points, axis=1, keepdims=True)).ravel())

    def part(name: str, pos: str, inside: str = "") -> str:
        geom = SEGMENT.format(name=name, pos="0 0 0")
        return f'<body name="{name}" pos="{pos}"><joint name="{name}" axis="0 1 0"/>{geom}{inside}</body>'

    feet = part("left shin", "0 0.2 -0.4", part("left foot", "0 0 -0.4"))
    feet += part("right shin", "0 -0.2 -0.4", part("right foot", "0 0 -0.4"))
    trunk = SEGMENT.format(name="trunk", pos="0 0 0") + feet + part("head", "0 0 0.4")
    return f"""<mujoco><asset><mesh name="ball" vertex="{vertices}"/></asset><worldbody>
      <geom name="floor" type="plane" size="1 1 1"/>
      <body name="trunk" pos="0 0 1"><freejoint/>{trunk}</body></worldbody>{keyframe}</mujoco>"""


@pytest.fixture(autouse=True)
def _nothing_was_reported_yet() -> None:
    log_once.cache_clear()


def counts(model: Model) -> dict[str, int]:
    names = [candidate.geom for candidate in model.contact_candidates]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_feet_get_most_points_and_every_geom_some(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(robot())
    used = counts(model)
    assert sum(used.values()) == 64
    assert used["left foot"] == used["right foot"] == 20
    assert {used[name] for name in ("trunk", "left shin", "right shin", "head")} == {4, 8}
    total = sum(counts(load_model(robot(), max_contact_points=10_000)).values())
    line = f"64 of {total} contact points are used, feet first; load_model(..., max_contact_points={total}) uses all"
    assert [note for note in model.notes if note.startswith(line)]
    assert caplog.text.count(line) == 1
    assert total > 400


def test_points_of_a_foot_are_spread_out_and_include_its_lowest() -> None:
    def points(model: Model) -> np.ndarray:
        return np.array([c.center for c in model.contact_candidates if c.geom == "left foot"])

    every, few = points(load_model(robot(), max_contact_points=10_000)), points(load_model(robot()))
    assert few[:, 2].min() == every[:, 2].min()
    gaps = np.linalg.norm(every[:, None] - few, axis=-1).min(axis=1)
    assert gaps.max() < 0.1  # of a ball of radius 0.1
    lowest = every[:, 2].min()
    assert (few[:, 2] < lowest + 0.05).sum() >= 10


def test_geoms_without_a_point_are_counted() -> None:
    model = load_model(robot(), max_contact_points=35)
    assert counts(model) == {"left shin": 3, "left foot": 16, "right foot": 16}
    assert [note for note in model.notes if "feet first (3 geoms have none); " in note]


def test_lowest_leaves_of_the_first_keyframe_are_the_feet() -> None:
    handstand = '<keyframe><key name="handstand" qpos="0 0 1 0 1 0 0 0 0 0 0 0"/></keyframe>'
    used = counts(load_model(robot(handstand)))
    assert used["head"] > used["left foot"]


def test_a_file_can_set_the_limit_and_the_caller_overrides_it() -> None:
    own = '<custom><numeric name="ahac:max_contact_points" data="30"/></custom></mujoco>'
    source = robot().replace("</mujoco>", own)
    assert len(load_model(source).contact_candidates) == 30
    assert len(load_model(source, max_contact_points=20).contact_candidates) == 20


@pytest.mark.parametrize("data", ["0", "0.5", "-3", "2 3"])
def test_the_limit_of_a_file_must_be_a_whole_number(data: str) -> None:
    own = f'<custom><numeric name="ahac:max_contact_points" data="{data}"/></custom></mujoco>'
    with pytest.raises(ModelError, match=f"max_contact_points' must be a whole number of at least 1, got {data}"):
        load_model(robot().replace("</mujoco>", own))


def test_few_points_are_all_used_in_the_order_of_the_file() -> None:
    total = len(load_model(SHAPES, max_contact_points=1000).contact_candidates)
    model = load_model(SHAPES, max_contact_points=total)
    assert list(counts(model)) == ["box", "can", "egg", "rock", "pill", "ball"]
    assert sum(counts(model).values()) == total
    assert not [note for note in model.notes if "contact points" in note]


def test_limits_must_be_positive() -> None:
    with pytest.raises(InputError, match="max_contact_points must be a whole number of at least 1, got 0"):
        load_model(SHAPES, max_contact_points=0)
    with pytest.raises(InputError, match=r"mesh_points must be a whole number of at least 1, got 2\.5"):
        load_model(SHAPES, mesh_points=2.5)  # pyright: ignore[reportArgumentType]
