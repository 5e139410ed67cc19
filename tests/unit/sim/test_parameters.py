"""Selection of parameters, their values, and what they leave alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, InputError, Model, Vec3, World, compliant, load_model
from ahac.sim.compiler.program import evaluate, trace
from ahac.sim.model.parameters import Parameters
from ahac.sim.model.parameters.kinds import KINDS
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.parametrized import CARRIED, PLAIN, STANDING, WATER, Parametrized

LAWS = {"explicit": ForceLaws(), "implicit": ForceLaws(compliant, implicit=True)}


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(PLAIN)


# ---------------------------------------------------------------------------------------------------------- selection


def test_patterns_select_elements_in_order_and_once(model: Model) -> None:
    parameters = model.parameters("body_mass:t*", "gravity", "body_mass:*", "body_ipos:arm")
    assert parameters.names == (
        "body_mass:trunk",
        "body_mass:tail",
        "body_mass:thigh",
        "gravity",
        *("body_mass:pack", "body_mass:antenna", "body_mass:shank", "body_mass:arm"),
        "body_ipos:arm",
    )
    assert parameters.size == 13
    assert parameters.sizes["gravity"] == 3
    assert parameters.labels[3:6] == ("gravity.x", "gravity.y", "gravity.z")
    assert parameters.labels[-1] == "body_ipos:arm.z"
    assert parameters.units[:4] == ("kg", "kg", "kg", "m/s²")


def test_defaults_are_the_constants_of_the_file(model: Model) -> None:
    parameters = model.parameters(
        "body_mass:pack", "gravity", "actuator_gain:servo", "dof_damping:tail", "jnt_stiffness:hip"
    )
    values = parameters.defaults(3, dtype=torch.float64)
    assert values.shape == (3, 9)
    assert values[2].tolist() == [1.2, 0.7, -0.4, -9.81, 20.0, 0.3, 0.3, 0.3, 9.0]


def test_wildcards_leave_out_free_joints_unless_they_match_nothing_else(model: Model) -> None:
    assert not any("root" in name for name in model.parameters("dof_damping:*").names)
    assert model.parameters("dof_damping:root*").labels == tuple(
        f"dof_damping:root{part}" for part in (":x", ":y", ":z", ".x", ".y", ".z")
    )


def test_columns_by_name_pattern_and_label(model: Model) -> None:
    parameters = model.parameters("gravity", "body_ipos:t*")
    assert parameters.index("gravity") == [0, 1, 2]
    assert parameters.index("body_ipos:tail") == parameters.index("body_ipos:ta*") == [6, 7, 8]
    assert parameters.index("body_ipos:tail.y") == [7]
    assert parameters.by_name(range(12))["body_ipos:tail"] == [6, 7, 8]
    with pytest.raises(
        InputError, match=r"no selected parameter matches 'body_ipos:tial'.*did you mean body_ipos:tail"
    ):
        parameters.index("body_ipos:tial")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("body_mas:*", "no parameter is of kind 'body_mas'; did you mean body_mass"),
        ("body_mass:thihg", r"'body_mass:thihg' matches nothing.*did you mean thigh\?.*available: trunk, pack"),
        ("body_mass", "belongs to single elements: write 'body_mass:\\*'"),
        ("gravity:*", "belongs to the whole model: write 'gravity'"),
        ("body_pos:trunk", "its free joint's coordinates are absolute"),
        ("opt_density", "nothing in model .* has the parameter 'opt_density'"),
        ("geom_friction:*", "nothing in model .* has the parameter 'geom_friction'"),
        (3, "a pattern is a string"),
    ],
)
def test_what_matches_nothing_is_refused_with_advice(model: Model, pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.parameters(pattern)


def test_constants_that_cannot_be_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="drag depends on its principal axes"):
        load_model(WATER).parameters("body_pseudo_inertia:thigh")
    with pytest.raises(InputError, match="neither a sphere nor a capsule"):
        load_model(STANDING).parameters("geom_size:box")
    free = load_model(STANDING, contact=ContactMaterial())
    with pytest.raises(InputError, match=r"simulator chooses its stiffness.*ContactMaterial\(stiffness=...\)"):
        free.parameters("contact_stiffness:*")


def test_no_patterns_and_a_wrong_delay_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="select at least one parameter; kinds: body_mass"):
        model.parameters()
    with pytest.raises(InputError, match="max_delay must be more than 0"):
        model.parameters("actuator_delay", max_delay=0.0)


def test_parameters_of_another_model_are_refused(model: Model) -> None:
    parameters = model.parameters("actuator_gain:servo")
    parameters.apply(load_model(PLAIN), [1.0])
    with pytest.raises(InputError, match=r"another model: 'actuator_gain:servo' is 20 in 'model', but 'model' has 21"):
        parameters.apply(load_model(PLAIN.replace('kp="20"', 'kp="21"')), [1.0])
    with pytest.raises(InputError, match=r"but 'model' does not have it; call model\.parameters"):
        parameters.apply(load_model(STANDING), [1.0])
    with pytest.raises(InputError, match="expected 1 numbers, one for each column"):
        parameters.apply(model, [0.0, 1.0])


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("pattern", "values", "message"),
    [
        ("body_mass:trunk", [0.0], "'body_mass:trunk' must be positive, got 0 kg in world 1"),
        ("dof_damping:hip", [-0.1], "'dof_damping:hip' must be non-negative, got -0.1 N m s/rad in world 1"),
        ("gravity", [0.0, float("nan"), 0.0], "'gravity.y' must be finite, got nan"),
        ("actuator_delay", [0.2], "'actuator_delay' must be between 0 and 0.1, got 0.2 s"),
        ("body_inertia:arm", [0.1, 0.2, 0.4], "'body_inertia:arm.z' must be at most the sum of the other two moments"),
        ("body_inertia:arm", [0.1, -0.2, 0.2], "'body_inertia:arm.y' must be positive"),
    ],
)
def test_unphysical_values_are_refused(model: Model, pattern: str, values: list[float], message: str) -> None:
    parameters = model.parameters(pattern)
    parameters.check(parameters.defaults(2))
    table = parameters.defaults(2)
    table[1] = torch.tensor(values)
    with pytest.raises(InputError, match=message + r".*parameters\.constrain"):
        parameters.check(table)


def test_crossed_limits_and_wrong_shapes_are_refused() -> None:
    parameters = load_model(PLAIN.replace('name="hip"', 'name="hip" range="-1 2"')).parameters("jnt_range:hip")
    assert parameters.defaults(1).tolist() == [[-1.0, 2.0]]
    with pytest.raises(InputError, match=r"'jnt_range:hip.lower' must be below the upper limit"):
        parameters.check(torch.tensor([[0.5, 0.5]]))
    with pytest.raises(InputError, match=r"floating-point tensor \[N, 2\], got torch.float32 \[3\]"):
        parameters.check(torch.zeros(3))
    with pytest.raises(InputError, match="must be a tensor, got list"):
        parameters.check([[0.0, 1.0]])  # pyright: ignore[reportArgumentType]


def everything(source: str) -> Parameters:
    """All parameters of a robot."""
    loaded = load_model(source)
    found = {name: kind.elements(loaded) for name, kind in KINDS.items()}
    return loaded.parameters(*(name if "" in elements else f"{name}:*" for name, elements in found.items() if elements))


@pytest.mark.parametrize("source", [PLAIN, STANDING, WATER], ids=["plain", "standing", "water"])
def test_free_coordinates_are_inverse_and_always_physical(source: str) -> None:
    parameters = everything(source)
    defaults = parameters.defaults(4, dtype=torch.float64)
    free = parameters.unconstrain(defaults)
    torch.testing.assert_close(parameters.constrain(free), defaults, rtol=1e-9, atol=2e-9)
    generator = torch.Generator().manual_seed(0)
    random = 3.0 * torch.randn(free.shape, generator=generator, dtype=torch.float64)
    values = parameters.constrain(random.requires_grad_())
    parameters.check(values)
    torch.testing.assert_close(parameters.unconstrain(values), random, rtol=1e-6, atol=1e-6)
    values.sum().backward()
    assert random.grad is not None
    assert random.grad.isfinite().all()
    assert (random.grad != 0.0).all()


def test_free_coordinates_have_exact_derivatives(model: Model) -> None:
    parameters = model.parameters("body_mass:arm", "body_inertia:arm", "actuator_delay", "gravity", "dof_damping:hip")
    free = torch.randn(2, parameters.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(parameters.constrain, free.requires_grad_())


# ------------------------------------------------------------------------------------------------------------ physics


def states(physics: Parametrized, seed: int = 0) -> dict[str, np.ndarray]:
    """Two random states."""
    m, rng = physics.model, np.random.default_rng(seed)
    q = np.array(m.rest_q) + 0.05 * rng.normal(size=(2, m.nq))
    if m.contact_candidates:
        q[:, 2] = 0.07
    for joint in m.joints:
        if len(joint.dofs) == 3:
            q[:, joint.q : joint.q + 4] /= np.linalg.norm(q[:, joint.q : joint.q + 4], axis=1, keepdims=True)
    groups = {"v": m.nv, "u": m.nu, "f": m.nv, "act": m.na}
    return {"q": q, "h": np.full((2, 1), 1e-3), **{name: rng.normal(size=(2, n)) for name, n in groups.items()}}


@pytest.mark.parametrize("integrator", LAWS)
@pytest.mark.parametrize("source", [PLAIN, STANDING, WATER, CARRIED], ids=["plain", "standing", "water", "carried"])
def test_default_values_step_as_the_model_does(source: str, integrator: str) -> None:
    parameters = everything(source)
    physics = Parametrized(parameters.model, parameters, LAWS[integrator])
    plain = Programs(parameters.model, LAWS[integrator], {}).step().substep
    values = states(physics)
    found = evaluate(physics.substep, {**values, "p": physics.defaults})
    expected = evaluate(plain, values)
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=0, atol=1e-11 * np.abs(numbers).max(initial=1.0))


CHANGES = {
    "geom_friction:ball": ([1.4], 'name="ball"', 'name="ball" friction="1.4"'),
    "geom_size:ball": ([0.13], 'name="ball" size=".12"', 'name="ball" size=".13"'),
    "geom_size:rod": ([0.12], 'size=".1 .2" euler', 'size=".12 .2" euler'),
    "geom_pos:pad": ([0.02, 0.03, 0.01], 'pos=".01 .02 .005"', 'pos=".02 .03 .01"'),
    "geom_pos:egg": ([0.02, 0.03, 0.01], 'size=".1 .15 .12"', 'size=".1 .15 .12" pos=".02 .03 .01"'),
    "body_pos:pad": ([0.15, 0.1, 0.02], 'pos=".1 .2 0"', 'pos=".15 .1 .02"'),
    "body_pos:foot": ([0.25, 0.1, 0.02], 'pos=".3 0 0"', 'pos=".25 .1 .02"'),
    "contact_stiffness:box": (
        [4e3],
        "<worldbody>",
        '<custom><numeric name="ahac:contact:box" data="4e3 2e3 2e3 .6"/></custom><worldbody>',
    ),
    "contact_damping:box": (
        [3e3],
        "<worldbody>",
        '<custom><numeric name="ahac:contact:box" data="5e3 3e3 2e3 .6"/></custom><worldbody>',
    ),
}
INERTIAL = '<inertial pos=".01 .02 .03" mass="2" diaginertia=".02 .03 .04"/>'
"""Inertias that do not follow the shapes."""
SHAPES = STANDING.replace("<freejoint", f"{INERTIAL}<freejoint").replace(
    '<joint name="ankle"', f'{INERTIAL}<joint name="ankle"'
)
SHAPES = SHAPES.replace('<geom name="pad"', f'{INERTIAL}<geom name="pad"')


@pytest.mark.parametrize("name", CHANGES)
def test_a_value_acts_as_the_same_value_in_the_file(name: str) -> None:
    values, old, new = CHANGES[name]
    # The friction of the file's material would override those of the geoms.
    contact = ContactMaterial(stiffness=5e3, damping=2e3, viscosity=2e3) if "friction" in name else None
    model, changed = (load_model(text, contact=contact) for text in (SHAPES, SHAPES.replace(old, new, 1)))
    physics = Parametrized(model, model.parameters(name), LAWS["implicit"])
    other = Parametrized(changed, changed.parameters("gravity"), LAWS["implicit"])
    state = states(physics)
    found = evaluate(physics.substep, {**state, "p": np.array(values)})["v"]
    before = evaluate(physics.substep, {**state, "p": physics.defaults})["v"]
    expected = evaluate(other.substep, {**state, "p": other.defaults})["v"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    assert np.abs(found - before).max() > 1e-6


def test_sites_and_bodies_move_with_merged_bodies() -> None:
    source = STANDING.replace('<geom name="pad"', '<site name="tip" pos=".1 0 .2"/><geom name="pad"')
    model = load_model(source)
    parameters = model.parameters("body_pos:pad")

    def places(q: list, p: list) -> dict[str, list]:
        world = World(parameters.apply(model, p), q, [0.0] * model.nv, [])
        return {"tip": list(world.position("tip")), "pad": list(world.position("body:pad"))}

    program = trace(places, {"q": model.nq, "p": 3})
    turned = np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0])  # x, y, z -> y, z, x
    moved = np.array([0.1, 0.2, 0.0]) + np.array([[0.0, 0.0, 0.0], [0.01, 0.02, 0.03]])
    found = evaluate(program, {"q": turned, "p": moved})
    np.testing.assert_allclose(found["pad"][1] - found["pad"][0], [0.03, 0.01, 0.02], atol=1e-12)
    np.testing.assert_allclose(found["tip"][1] - found["tip"][0], [0.03, 0.01, 0.02], atol=1e-12)


@pytest.mark.parametrize("integrator", LAWS)
def test_strength_scales_gains_and_force_range_of_a_saturated_servo(integrator: str) -> None:
    model = load_model(PLAIN)
    changed = load_model(PLAIN.replace('kp="50" kv="2" forcerange="-3 3"', 'kp="25" kv="1" forcerange="-1.5 1.5"'))
    physics = Parametrized(model, model.parameters("actuator_strength:bounded"), LAWS[integrator])
    other = Parametrized(changed, changed.parameters("gravity"), LAWS[integrator])
    state = states(physics)
    # Just beyond the range, an implicit step reduces the damping of the servo.
    servo = [actuator.name for actuator in model.actuators].index("bounded")
    knee = next(joint for joint in model.joints if joint.name == "knee")
    state["v"][:, knee.v], state["h"] = 0.0, np.full((2, 1), 0.05)
    state["u"][:, servo] = state["q"][:, knee.q] + 1.2 * 3.0 / 50.0
    found, before = (evaluate(physics.substep, {**state, "p": np.array([s])})["v"] for s in (0.5, 1.0))
    expected = evaluate(other.substep, {**state, "p": other.defaults})["v"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    assert np.abs(found - before).max() > 1e-4


def test_dry_friction_of_a_joint_that_has_none_in_the_file() -> None:
    model = load_model(PLAIN)
    physics = Parametrized(model, model.parameters("dof_frictionloss:shoulder"))
    values = states(physics)
    start, end = (evaluate(physics.substep, {**values, "p": np.array([loss])})["v"] for loss in (0.0, 0.3))
    shoulder = next(joint for joint in model.joints if joint.name == "shoulder").v
    speed = values["v"][:, shoulder]
    inertia = evaluate(physics.instant, {**{k: values[k] for k in ("q", "v", "u", "act")}, "p": np.zeros(1)})["matrix"]
    inertia = inertia.reshape(2, model.nv, model.nv)[:, shoulder, shoulder]  # the arm is a tree of its own
    expected = -0.3 * speed / np.sqrt(speed**2 + 1e-4) / inertia * 1e-3
    np.testing.assert_allclose((end - start)[:, shoulder], expected, rtol=1e-9)


@pytest.mark.parametrize("integrator", LAWS)
@pytest.mark.parametrize("source", [PLAIN, STANDING, WATER], ids=["plain", "standing", "water"])
def test_models_without_parameters_are_traced_as_before(source: str, integrator: str) -> None:
    """What only parameters use leaves no trace: the graph is the same without it, node by node."""
    model = load_model(source)
    bare = replace(model, file_bodies={}, file_geoms={}, site_bodies={})
    graphs = [Programs(m, LAWS[integrator], {}).step().substep.graph for m in (model, bare)]
    assert graphs[0].nodes == graphs[1].nodes
    assert graphs[0].constants == graphs[1].constants


def test_constant_numbers_in_place_of_scalars_make_a_plain_model(model: Model) -> None:
    """A model with changed constants, such as identified ones, can be simulated without parameters."""
    parameters = model.parameters("body_mass:thigh", "dof_damping:knee", "gravity")
    changed = parameters.apply(model, [2.0, 0.5, 0.0, 0.0, -3.7])
    assert changed.gravity == (0.0, 0.0, -3.7)
    assert next(link for link in changed.links if link.name == "thigh").mass == 2.0
    physics = Parametrized(changed, changed.parameters("gravity"))
    other = Parametrized(model, parameters)
    values = states(physics)
    expected = evaluate(other.substep, {**values, "p": np.array([2.0, 0.5, 0.0, 0.0, -3.7])})["v"]
    np.testing.assert_allclose(evaluate(physics.substep, {**values, "p": physics.defaults})["v"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("source", "patterns"),
    [
        (
            PLAIN,
            "body_mass:* body_ipos:* body_pos:pack body_pos:shank body_inertia:arm joint_offset:* actuator_strength:*",
        ),
        (STANDING, "geom_pos:* body_pos:pad body_pos:foot geom_friction:* body_mass:*"),
    ],
    ids=["plain", "standing"],
)
def test_a_model_with_changed_constants_has_them_as_defaults(source: str, patterns: str) -> None:
    """Parameters of an identified model begin with the identified values, not with those of the file."""
    model = load_model(source)
    parameters = model.parameters(*patterns.split())
    numbers = [1.2 * x + 0.01 for x in parameters.defaults(1, dtype=torch.float64)[0].tolist()]
    changed = parameters.apply(model, numbers)
    again = changed.parameters(*patterns.split())
    assert again.defaults(1, dtype=torch.float64)[0].tolist() == numbers
    more = [1.1 * x for x in numbers]
    _assert_same_dynamics(again.apply(changed, more), parameters.apply(model, more))


def test_a_model_with_changed_pseudo_inertia_has_it_as_its_inertia(model: Model) -> None:
    parameters = model.parameters("body_pseudo_inertia:pack", "body_pseudo_inertia:arm")
    changed = parameters.apply(model, [0.05 * (i % 7 - 2) for i in range(parameters.size)])
    again = changed.parameters("body_inertia:arm", "body_mass:arm", "body_pseudo_inertia:pack")
    defaults = again.defaults(1, dtype=torch.float64)[0].tolist()
    assert defaults[4:] == [0.0] * 10
    assert defaults[3] == pytest.approx(0.9 * np.exp(2.0 * 0.05))
    _assert_same_dynamics(again.apply(changed, defaults), changed)
    with pytest.raises(AssertionError):
        _assert_same_dynamics(again.apply(changed, [2.0 * x for x in defaults]), changed)


def _assert_same_dynamics(one: Model, other: Model) -> None:
    """Compare steps of models without parameters of their own."""
    first, second = (Parametrized(model, model.parameters("gravity")) for model in (one, other))
    values = states(first)
    ends = [evaluate(each.substep, {**values, "p": each.defaults})["v"] for each in (first, second)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9, atol=1e-9)


def test_the_guide_lists_every_kind() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "parameters.md").read_text(encoding="utf-8")
    assert not [kind for kind in KINDS if f"`{kind}`" not in guide]


def test_vectors_accept_only_three_numbers() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        Vec3.of([1.0, 2.0])
