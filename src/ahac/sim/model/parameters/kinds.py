"""All kinds of parameters: elements that have them, default values, units, physical values, and where they go.

Names and meanings are MuJoCo's where it has such a field. Constants that the loader derives from others keep their
default values: `Joint.inertia` and the effective masses of constraints and tendons, from which the simulator chooses
the constants of limits, constraints and saturated servos; the contact constants that it chooses for the robot's weight;
spring lengths and references of tendons; length ranges and peak forces of muscles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ahac.sim.compiler.graph import Real
from ahac.sim.model.basics import WORLD, RealVector
from ahac.sim.model.parameters.domains import FREE, INTERVAL, MOMENTS, NON_NEGATIVE, POSITIVE, Domain, between
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.inertial import PSEUDO_INERTIA
from ahac.sim.model.types import Actuator, ContactCandidate, FileBody, Joint, JointKind, Model, Tendon

__all__ = ["Element", "Kind", "kinds"]

XYZ = ("x", "y", "z")


@dataclass(frozen=True)
class Element:
    """An element of a model that has a parameter."""

    default: tuple[float, ...]
    unit: str
    domain: Domain
    parts: tuple[str, ...] = ()
    """Names of its numbers if there are several."""
    floating: bool = False
    """Whether it belongs to a free joint: wildcards that match other joints too leave it out."""


Elements = dict[str, Element]
Refusals = dict[str, str]
Put = Callable[[Draft, str, Sequence[Real]], None]


@dataclass(frozen=True)
class Kind:
    """One kind of parameters."""

    name: str
    meaning: str
    elements: Callable[[Model], Elements]
    """Elements by name; the name is empty for a constant of the whole model."""
    put: Put
    """Puts scalars in place of the constants of an element."""
    refusals: Callable[[Model], Refusals] = field(default=lambda model: {})
    """Why other elements of that type do not have the parameter, by name."""


def kinds(max_delay: float) -> dict[str, Kind]:
    """Return all kinds by name; actuators are delayed by at most `max_delay` seconds."""
    table = [
        Kind("body_mass", "mass of a body; its moments of inertia stay", _masses, _put_mass, _static),
        Kind("body_inertia", "principal moments of inertia", _moments, _put_moments, _static),
        Kind("body_ipos", "center of mass in the body's frame", _centers, _put_center, _static),
        Kind("body_pseudo_inertia", "log-Cholesky coordinates of mass and inertia", _pseudo, _put_pseudo, _static),
        Kind("body_pos", "position in the parent body's frame", _positions, _put_position, _unmovable),
        Kind("geom_pos", "position of contact points with their geom", _geom_positions, _put_geom_position, _touchless),
        Kind("geom_size", "radius of a sphere or capsule", _radii, _put_radius, _touchless),
        Kind("geom_friction", "sliding friction with planes", _of_material("friction", ""), *_material("friction")),
        Kind("contact_stiffness", "normal force per depth", _of_material("stiffness", "N/m"), *_material("stiffness")),
        Kind("contact_damping", "force per depth and speed", _of_material("damping", "N s/m²"), *_material("damping")),
        Kind("dof_armature", "rotor inertia", _by_dof("armature", "kg m²", "kg"), _put_dofs("armature")),
        Kind("dof_damping", "linear damping", _by_dof("damping", "N m s/rad", "N s/m"), _put_dofs("damping")),
        Kind("dof_frictionloss", "dry friction", _by_dof("frictionloss", "N m", "N"), _put_dofs("frictionloss")),
        Kind("jnt_stiffness", "stiffness of a joint's spring", _stiffnesses, _put_stiffness),
        Kind("qpos_spring", "rest position of a joint's spring", _spring_references, _put_spring_reference),
        Kind("jnt_range", "limits of a joint", _ranges, _put_range),
        Kind("joint_offset", "encoder offset: actuators measure q + offset", _offsets, _put_offset),
        Kind("actuator_gain", "kp or kv of a servo, gain of a motor, peak force of a muscle", _gains, _put_gain),
        Kind("actuator_damping", "kv of a position servo", _servo_dampings, _put_servo_damping),
        Kind("actuator_strength", "factor on force and force range", _strengths, _put_strength),
        Kind("actuator_delay", "delay of all controls", _delay(max_delay), lambda draft, name, values: None),
        Kind("tendon_stiffness", "stiffness of a tendon", _of_tendon("stiffness", "N/m"), _put_tendon("stiffness")),
        Kind("tendon_damping", "damping of a tendon", _of_tendon("damping", "N s/m"), _put_tendon("damping")),
        Kind("tendon_frictionloss", "dry friction of a tendon", _of_tendon("frictionloss", "N"), _put_tendon_friction),
        Kind("gravity", "acceleration of free fall", _gravity, _put_gravity),
        Kind("opt_density", "density of the fluid", _of_fluid("density", "kg/m³"), _put_fluid("density")),
        Kind("opt_viscosity", "viscosity of the fluid", _of_fluid("viscosity", "Pa s"), _put_fluid("viscosity")),
        Kind("opt_wind", "velocity of the fluid", _wind, _put_wind),
    ]
    return {kind.name: kind for kind in table}


# ------------------------------------------------------------------------------------------------------------- bodies


def _moving(model: Model) -> dict[str, FileBody]:
    return {name: body for name, body in model.file_bodies.items() if body.link != WORLD}


def _inertial(model: Model) -> dict[str, FileBody]:
    """Return the bodies whose inertia can be a parameter."""
    return {name: body for name, body in _moving(model).items() if not _uses_inertia(model, body)}


def _uses_inertia(model: Model, body: FileBody) -> bool:
    """Return whether forces other than inertia and gravity depend on a body's inertia."""
    drag = model.fluid is not None and body.mass > 0.0
    return drag or body.link in {link for link, _, _ in model.gravity_compensation}


def _static(model: Model) -> Refusals:
    static = {name: "it does not move" for name, body in model.file_bodies.items() if body.link == WORLD}
    used = {name: "fluid drag or gravity compensation depends on its inertia" for name in _moving(model)}
    return {**{name: why for name, why in used.items() if name not in _inertial(model)}, **static}


def _masses(model: Model) -> Elements:
    return {
        name: Element((body.mass,), "kg", POSITIVE if body.mass > 0.0 else NON_NEGATIVE)
        for name, body in _inertial(model).items()
    }


def _put_mass(draft: Draft, name: str, values: Sequence[Real]) -> None:
    (draft.body(name).mass,) = values


def _moments(model: Model) -> Elements:
    bodies = {name: body for name, body in _inertial(model).items() if min(body.moments) > 0.0}
    return {name: Element(body.moments, "kg m²", MOMENTS, XYZ) for name, body in bodies.items()}


def _put_moments(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.body(name).moments = _three(values)


def _centers(model: Model) -> Elements:
    return {name: Element(body.center_of_mass, "m", FREE, XYZ) for name, body in _inertial(model).items()}


def _put_center(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.body(name).center_of_mass = _three(values)


def _pseudo(model: Model) -> Elements:
    zero = (0.0,) * len(PSEUDO_INERTIA)
    heavy = [name for name, body in _inertial(model).items() if body.mass > 0.0]
    return {name: Element(zero, "", FREE, PSEUDO_INERTIA) for name in heavy}


def _put_pseudo(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.body(name).pseudo = list(values)


def _positions(model: Model) -> Elements:
    bodies = {name: body for name, body in _moving(model).items() if body.jointed and not body.free}
    return {name: Element(body.position, "m", FREE, XYZ) for name, body in bodies.items()}


def _unmovable(model: Model) -> Refusals:
    reasons: Refusals = {}
    for name, body in model.file_bodies.items():
        if body.free:
            reasons[name] = "its free joint's coordinates are absolute"
        elif not body.jointed:
            reasons[name] = "it has no joint and is merged into its parent"
    return reasons


def _put_position(draft: Draft, name: str, values: Sequence[Real]) -> None:
    parent = draft.model.bodies[draft.model.file_bodies[name].parent]
    draft.link(name, lambda link: replace(link, position=_placed(parent.position, parent.rotation, _three(values))))


def _placed(position: RealVector, rotation: Sequence[RealVector], at: RealVector) -> RealVector:
    x, y, z = (p + row[0] * at[0] + row[1] * at[1] + row[2] * at[2] for p, row in zip(position, rotation, strict=True))
    return x, y, z


# -------------------------------------------------------------------------------------------------------------- geoms


def _points(model: Model) -> dict[str, list[ContactCandidate]]:
    """Return the contact points of every geom."""
    found: dict[str, list[ContactCandidate]] = {}
    for point in model.contact_candidates:
        found.setdefault(point.geom, []).append(point)
    return found


def _touchless(model: Model) -> Refusals:
    points = _points(model)
    without = {name: "none of its contact points is used" for name in model.file_geoms if name not in points}
    shapes = {name: "it is neither a sphere nor a capsule" for name in points if not model.file_geoms[name].round}
    return {**shapes, **without}


def _geom_positions(model: Model) -> Elements:
    return {name: Element(model.file_geoms[name].position, "m", FREE, XYZ) for name in _points(model)}


def _put_geom_position(draft: Draft, name: str, values: Sequence[Real]) -> None:
    geom = draft.model.file_geoms[name]
    x, y, z = (value - default for value, default in zip(values, geom.position, strict=True))
    axes = draft.model.bodies[geom.body].rotation
    draft.geom(name, lambda point: replace(point, center=_placed(point.center, axes, (x, y, z))))


def _radii(model: Model) -> Elements:
    points = {name: found[0] for name, found in _points(model).items() if model.file_geoms[name].round}
    return {name: Element((_number(point.radius),), "m", POSITIVE) for name, point in points.items()}


def _put_radius(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.geom(name, lambda point: replace(point, radius=values[0]))


def _of_material(constant: str, unit: str) -> Callable[[Model], Elements]:
    def elements(model: Model) -> Elements:
        found = {name: _constants(points, constant) for name, points in _points(model).items()}
        return {name: Element((v[0],), unit, NON_NEGATIVE) for name, v in found.items() if _is_single(v)}

    return elements


def _material(constant: str) -> tuple[Put, Callable[[Model], Refusals]]:
    """Return how to set a constant of a material, and for which geoms it cannot be set."""

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        change: dict[str, Any] = {constant: values[0]}
        draft.geom(name, lambda point: replace(point, material=replace(point.material, **change)))

    def refusals(model: Model) -> Refusals:
        reasons = {name: "none of its contact points is used" for name in model.file_geoms}
        for name, points in _points(model).items():
            found = _constants(points, constant)
            reasons[name] = f"its {constant} differs between planes"
            if None in found:
                reasons[name] = (
                    f"the simulator chooses its {constant}; set it with load_model(..., "
                    f"contact=ContactMaterial({constant}=...))"
                )
        return reasons

    return put, refusals


def _constants(points: Iterable[ContactCandidate], constant: str) -> list[Any]:
    return list(dict.fromkeys(getattr(point.material, constant) for point in points))


def _is_single(values: Sequence[float | None]) -> bool:
    return len(values) == 1 and values[0] is not None


# ------------------------------------------------------------------------------------------------------------- joints


def _unit(joint: Joint, rotational: str, translational: str) -> str:
    return translational if joint.kind is JointKind.SLIDE else rotational


def _single(model: Model) -> list[Joint]:
    """Return all hinges and slides."""
    return [joint for joint in model.joints if joint.kind is not JointKind.BALL]


def _floating(model: Model) -> set[str]:
    """Return the names of all slides and balls of free joints."""
    slides = {joint.name for joint in model.joints if joint.spring_dofs}
    return slides | {name.rpartition(":")[0] for name in slides}


def _by_dof(constant: str, rotational: str, translational: str) -> Callable[[Model], Elements]:
    def elements(model: Model) -> Elements:
        found: Elements = {}
        for joint in model.joints:
            values = tuple(_number(getattr(model, constant)[k]) for k in joint.dofs)
            unit = _unit(joint, rotational, translational)
            parts = XYZ if len(values) > 1 else ()
            found[joint.name] = Element(values, unit, NON_NEGATIVE, parts, joint.name in _floating(model))
        return found

    return elements


def _put_dofs(constant: str) -> Put:
    return lambda draft, name, values: draft.dofs(constant, name, values)


def _stiffnesses(model: Model) -> Elements:
    floating = _floating(model)
    found: Elements = {}
    for joint in model.joints:
        unit = _unit(joint, "N m/rad", "N/m")
        value = (_number(joint.stiffness),)
        found[joint.name] = Element(value, unit, NON_NEGATIVE, floating=joint.name in floating)
    return found


def _put_stiffness(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.joint(name, lambda joint: replace(joint, stiffness=values[0]))


def _spring_references(model: Model) -> Elements:
    floating = _floating(model)
    found: Elements = {}
    for joint in _single(model):
        value = (_number(joint.spring_reference[0]),)
        found[joint.name] = Element(value, _unit(joint, "rad", "m"), FREE, floating=joint.name in floating)
    return found


def _put_spring_reference(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.joint(name, lambda joint: replace(joint, spring_reference=tuple(values)))


def _ranges(model: Model) -> Elements:
    found: Elements = {}
    for joint in _single(model):
        if joint.range is not None:
            low, high = (_number(bound) for bound in joint.range)
            found[joint.name] = Element((low, high), _unit(joint, "rad", "m"), INTERVAL, ("lower", "upper"))
    return found


def _put_range(draft: Draft, name: str, values: Sequence[Real]) -> None:
    low, high = values
    draft.joint(name, lambda joint: replace(joint, range=(low, high)))


def _offsets(model: Model) -> Elements:
    fixed = [joint for joint in _single(model) if joint.name not in _floating(model)]
    return {joint.name: Element((0.0,), _unit(joint, "rad", "m"), FREE) for joint in fixed}


def _put_offset(draft: Draft, name: str, values: Sequence[Real]) -> None:
    index = next(joint.q for joint in draft.model.joints if joint.name == name)
    draft.joint_offsets[index] = values[0]


# ---------------------------------------------------------------------------------------------------------- actuators


def _follows_position(actuator: Actuator) -> bool:
    """Return whether an actuator is a position servo: its gain is kp and its bias −kp · length."""
    return actuator.gain != 0.0 and actuator.bias[1] == -actuator.gain


def _follows_velocity(actuator: Actuator) -> bool:
    """Return whether an actuator is a velocity servo: its gain is kv and its bias −kv · speed."""
    return actuator.gain != 0.0 and actuator.bias[1] == 0.0 and actuator.bias[2] == -actuator.gain


def _acts_on_slide(model: Model, actuator: Actuator) -> bool:
    driven = {k for k, _ in actuator.dofs}
    return not driven or any(driven & set(j.dofs) for j in model.joints if j.kind is JointKind.SLIDE)


def _gains(model: Model) -> Elements:
    found: Elements = {}
    for actuator in model.actuators:
        force, length = ("N", "m") if _acts_on_slide(model, actuator) else ("N m", "rad")
        if actuator.gain_curves is not None:
            element = Element((_number(actuator.gain_curves.peak_force),), "N", NON_NEGATIVE)
        elif _follows_position(actuator):
            element = Element((_number(actuator.gain),), f"{force}/{length}", NON_NEGATIVE)
        elif _follows_velocity(actuator):
            element = Element((_number(actuator.gain),), f"{force} s/{length}", NON_NEGATIVE)
        else:
            element = Element((_number(actuator.gain),), force, FREE)
        found[actuator.name] = element
    return found


def _put_gain(draft: Draft, name: str, values: Sequence[Real]) -> None:
    (gain,) = values

    def change(actuator: Actuator) -> Actuator:
        constant, by_length, by_speed = actuator.bias
        if actuator.gain_curves is not None:
            return replace(actuator, gain_curves=replace(actuator.gain_curves, peak_force=gain))
        if name in following["position"]:
            by_length = -gain
        elif name in following["velocity"]:
            by_speed = -gain
        return replace(actuator, gain=gain, bias=(constant, by_length, by_speed))

    actuators = draft.model.actuators
    following = {
        "position": {actuator.name for actuator in actuators if _follows_position(actuator)},
        "velocity": {actuator.name for actuator in actuators if _follows_velocity(actuator)},
    }
    draft.actuator(name, change)


def _servo_dampings(model: Model) -> Elements:
    found: Elements = {}
    for actuator in model.actuators:
        if _follows_position(actuator):
            unit = "N s/m" if _acts_on_slide(model, actuator) else "N m s/rad"
            found[actuator.name] = Element((-_number(actuator.bias[2]),), unit, NON_NEGATIVE)
    return found


def _put_servo_damping(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.actuator(name, lambda actuator: replace(actuator, bias=(*actuator.bias[:2], -values[0])))


def _strengths(model: Model) -> Elements:
    return {actuator.name: Element((1.0,), "", NON_NEGATIVE) for actuator in model.actuators}


def _put_strength(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.actuator(name, lambda actuator: replace(actuator, strength=values[0]))


def _delay(longest: float) -> Callable[[Model], Elements]:
    return lambda model: {"": Element((0.0,), "s", between(0.0, longest))} if model.actuators else {}


# ------------------------------------------------------------------------------------------------- tendons and world


def _of_tendon(constant: str, unit: str) -> Callable[[Model], Elements]:
    def elements(model: Model) -> Elements:
        found: Elements = {}
        for tendon in model.tendons:
            value = getattr(tendon, constant)
            linear = value if isinstance(value, float) else (*value, 0.0)[0]
            found[tendon.name] = Element((linear,), unit, NON_NEGATIVE)
        return found

    return elements


def _put_tendon(constant: str) -> Put:
    """Return how to set the linear coefficient of a tendon's spring or damper."""

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        def change(tendon: Tendon) -> Tendon:
            changed: dict[str, Any] = {constant: (values[0], *getattr(tendon, constant)[1:])}
            return replace(tendon, **changed)

        draft.tendon(name, change)

    return put


def _put_tendon_friction(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.tendon(name, lambda tendon: replace(tendon, frictionloss=values[0]))


def _gravity(model: Model) -> Elements:
    x, y, z = (_number(g) for g in model.gravity)
    return {"": Element((x, y, z), "m/s²", FREE, XYZ)}


def _put_gravity(draft: Draft, name: str, values: Sequence[Real]) -> None:
    draft.gravity = _three(values)


def _of_fluid(constant: str, unit: str) -> Callable[[Model], Elements]:
    def elements(model: Model) -> Elements:
        return {} if model.fluid is None else {"": Element((getattr(model.fluid, constant),), unit, NON_NEGATIVE)}

    return elements


def _put_fluid(constant: str) -> Put:
    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        assert draft.fluid is not None, "only a model with a fluid has this parameter"
        changed: dict[str, Any] = {constant: values[0]}
        draft.fluid = replace(draft.fluid, **changed)

    return put


def _wind(model: Model) -> Elements:
    if model.fluid is None:
        return {}
    x, y, z = (_number(w) for w in model.fluid.wind)
    return {"": Element((x, y, z), "m/s", FREE, XYZ)}


def _put_wind(draft: Draft, name: str, values: Sequence[Real]) -> None:
    assert draft.fluid is not None, "only a model with a fluid has this parameter"
    draft.fluid = replace(draft.fluid, wind=_three(values))


def _three(values: Sequence[Real]) -> RealVector:
    x, y, z = values
    return x, y, z


def _number(value: Real) -> float:
    """Return a constant of a model without parameters."""
    return float(value)
