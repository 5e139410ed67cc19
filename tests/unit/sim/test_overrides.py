"""Contact materials and joint limits: by argument, by the file's custom numbers, for all or for one."""

import math

import pytest

from ahac.sim import ContactMaterial, Integrator, JointLimit, ModelError, load_model
from ahac.sim.constants import with_constants
from ahac.sim.model.types import ContactConstants
from support.integrators import INTEGRATORS
from support.robots import mjcf

HOPPER = """
<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body pos="0 0 1"><joint name="lift" type="slide" axis="0 0 1" range="0 1" limited="true"/>
  <geom name="trunk" size="0.1"/>
  <body><joint name="knee" range="-1 1" limited="true"/><geom name="foot" size="0.1" pos="0 0 -0.3"/></body></body>
"""

ALL = ContactMaterial(stiffness=1.0, damping=2.0)
ONE = ContactMaterial(stiffness=3.0, damping=4.0)
STOP = JointLimit(stiffness=5.0, damping=6.0)
KNEE = JointLimit(stiffness=7.0, damping=8.0)


def file(**numbers: str) -> str:
    """The hopper with custom numbers "ahac:<key>", where _ in a key stands for a colon."""
    rows = "".join(f'<numeric name="ahac:{key.replace("_", ":")}" data="{data}"/>' for key, data in numbers.items())
    return mjcf(HOPPER, rest=f"<custom>{rows}</custom>" if rows else "")


def stiffness(source: str, **options: object) -> tuple[float | None, ...]:
    """Of trunk, foot, lift and knee."""
    model = load_model(source, **options)  # pyright: ignore[reportArgumentType]
    geoms = {candidate.geom: candidate.material.stiffness for candidate in model.contact_candidates}
    joints = {joint.name: joint.limit.stiffness for joint in model.joints}
    return geoms["trunk"], geoms["foot"], joints["lift"], joints["knee"]


def test_defaults_are_those_of_the_records() -> None:
    ours = ContactMaterial().stiffness, JointLimit().stiffness
    assert stiffness(file()) == (ours[0], ours[0], ours[1], ours[1])


def test_arguments_set_all_or_one() -> None:
    found = stiffness(file(), contact=ALL, materials={"foot": ONE}, limit=STOP, limits={"knee": KNEE})
    assert found == (1.0, 3.0, 5.0, 7.0)


def test_file_sets_all_or_one() -> None:
    numbers = {"contact": "10 11 12 0.5", "contact_foot": "20 21 22 0.6", "limit": "30 31", "limit_knee": "40 41"}
    assert stiffness(file(**numbers)) == (10.0, 20.0, 30.0, 40.0)
    model = load_model(file(**numbers))
    assert model.contact_candidates[1].material == ContactMaterial(
        stiffness=20.0, damping=21.0, viscosity=22.0, friction=0.6
    )
    assert model.joints[1].limit == JointLimit(stiffness=40.0, damping=41.0)


def test_one_goes_before_all_and_the_caller_before_the_file() -> None:
    numbers = {"contact": "10 11 12 0.5", "contact_foot": "20 21 22 0.6", "limit": "30 31", "limit_knee": "40 41"}
    assert stiffness(file(**numbers), contact=ALL, limit=STOP) == (1.0, 20.0, 5.0, 40.0)
    assert stiffness(file(**numbers), materials={"foot": ONE}, limits={"knee": KNEE}) == (10.0, 3.0, 30.0, 7.0)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            file(),
            {"materials": {"toe": ALL}},
            "no element with contact settings is named toe; known: floor, foot, trunk",
        ),
        (file(), {"limits": {"hip": STOP}}, "no element with limit settings is named hip; known: knee, lift"),
        (file(contact_toe="1 2 3 4"), {}, "no element with contact settings is named toe"),
        (file(limit_hip="1 2"), {}, "no element with limit settings is named hip"),
        (file(contact="1 2 3"), {}, r"'ahac:contact' needs 4 numbers \(stiffness damping viscosity friction\), got 3"),
        (file(limit_knee="1 2 3"), {}, r"'ahac:limit:knee' needs 2 numbers \(stiffness damping\), got 3"),
        (file(contact="-1 2 3 4"), {}, "ContactMaterial.stiffness must be a finite, non-negative number, got -1.0"),
        (file(limit="1 nan"), {}, "JointLimit.damping must be a finite, non-negative number, got nan"),
    ],
)
def test_settings_for_nothing_and_nonsense_are_refused(source: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(source, **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1"])
@pytest.mark.parametrize("record", [ContactMaterial, JointLimit])
def test_records_refuse_nonsense(record: type[ContactMaterial] | type[JointLimit], value: object) -> None:
    with pytest.raises(ModelError, match=f"{record.__name__}.damping must be a finite, non-negative number"):
        record(damping=value)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_none_leaves_a_constant_to_the_simulator(integrator: Integrator) -> None:
    """A setting stands; what is None becomes a positive number, which depends on the integrator."""
    model = load_model(file(), contact=ContactMaterial(damping=3.0), limit=JointLimit(stiffness=4.0))
    assert model.contact_candidates[0].material.stiffness is None
    chosen = with_constants(model, integrator == "implicit")
    for candidate in chosen.contact_candidates:
        assert isinstance(candidate.material, ContactConstants)
        assert candidate.material.damping == 3.0
        assert min(candidate.material.stiffness, candidate.material.viscosity, candidate.material.friction) > 0.0
    assert [joint.limit.stiffness for joint in chosen.joints] == [4.0, 4.0]
    assert all(joint.limit.damping is not None and joint.limit.damping > 0.0 for joint in chosen.joints)
    if integrator == "explicit":
        material = ContactConstants(stiffness=1e4, damping=3.0, viscosity=5e2, friction=1.0)
        assert {candidate.material for candidate in chosen.contact_candidates} == {material}
        assert {joint.limit for joint in chosen.joints} == {JointLimit(stiffness=4.0, damping=1.0)}


def test_a_model_with_all_constants_stays_as_it_is() -> None:
    chosen = with_constants(load_model(file()), implicit=True)
    assert with_constants(chosen, implicit=False) is chosen


def test_zero_is_a_setting() -> None:
    rubber = ContactMaterial(stiffness=0.0, damping=0.0, viscosity=0.0, friction=0.0)
    assert load_model(file(contact="1 1 1 1"), contact=rubber).contact_candidates[0].material == rubber
