"""All kinds of parameters: elements that have them, default values, units, physical values, and where they go.

Names and meanings are MuJoCo's where it has such a field. Constants that the loader derives from others keep their
default values: `Joint.inertia` and the effective masses of constraints and tendons, from which the simulator chooses
the constants of limits, constraints and saturated servos; the contact constants that it chooses for the robot's weight;
spring lengths and references of tendons; length ranges and peak forces of muscles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ahac.sim.model.parameters import actuators, bodies, geoms, joints, world
from ahac.sim.model.parameters.elements import Find, Put, Refuse

__all__ = ["DELAY", "KINDS", "Kind"]

DELAY = "actuator_delay"


@dataclass(frozen=True)
class Kind:
    """One kind of parameters."""

    name: str
    meaning: str
    elements: Find
    put: Put
    refusals: Refuse = field(default=lambda model: {})
    """Why other elements of that type do not have the parameter, by name."""


TABLE = (
    Kind("body_mass", "mass of a body; its moments of inertia stay", bodies.masses, bodies.put_mass, bodies.static),
    Kind("body_inertia", "principal moments of inertia", bodies.moments, bodies.put_moments, bodies.weightless),
    Kind("body_ipos", "center of mass in the body's frame", bodies.centers, bodies.put_center, bodies.weightless),
    Kind("body_pseudo_inertia", "mass and inertia together", bodies.pseudo, bodies.put_pseudo, bodies.submerged),
    Kind("body_pos", "position in the parent's frame", bodies.positions, bodies.put_position, bodies.unmovable),
    Kind("geom_pos", "position of a geom's contact points", geoms.positions, geoms.put_position, geoms.touchless),
    Kind("geom_size", "radius of a sphere or capsule", geoms.radii, geoms.put_radius, geoms.touchless),
    Kind("geom_friction", "sliding friction with planes", *geoms.material("friction", "")),
    Kind("contact_stiffness", "normal force per depth", *geoms.material("stiffness", "N/m")),
    Kind("contact_damping", "normal force per depth and speed", *geoms.material("damping", "N s/m²")),
    Kind("dof_armature", "armature of a joint", *joints.by_dof("armature", "kg m²", "kg")),
    Kind("dof_damping", "linear damping of a joint", *joints.by_dof("damping", "N m s/rad", "N s/m")),
    Kind("dof_frictionloss", "dry friction of a joint", *joints.by_dof("frictionloss", "N m", "N")),
    Kind("jnt_stiffness", "stiffness of a joint's spring", joints.stiffnesses, joints.put_stiffness),
    Kind("qpos_spring", "rest position of a joint's spring", joints.spring_references, joints.put_spring_reference),
    Kind("jnt_range", "limits of a joint", joints.ranges, joints.put_range),
    Kind("joint_offset", "encoder offset: actuators measure q + offset", joints.offsets, joints.put_offset),
    Kind("actuator_gain", "gain of a servo, motor or muscle", actuators.gains, actuators.put_gain, actuators.rescaled),
    Kind(
        "actuator_damping",
        "kv of a position servo",
        actuators.servo_dampings,
        actuators.put_servo_damping,
        actuators.rescaled,
    ),
    Kind("actuator_strength", "factor on force and force range", actuators.strengths, actuators.put_strength),
    Kind(DELAY, "delay of all controls", actuators.delay, actuators.put_delay),
    Kind("tendon_stiffness", "stiffness of a tendon", *world.tendon("stiffness", "N/m")),
    Kind("tendon_damping", "damping of a tendon", *world.tendon("damping", "N s/m")),
    Kind("tendon_frictionloss", "dry friction of a tendon", *world.tendon("frictionloss", "N")),
    Kind("gravity", "acceleration of free fall", world.gravity, world.put_gravity),
    Kind("opt_density", "density of the fluid", *world.fluid("density", "kg/m³")),
    Kind("opt_viscosity", "viscosity of the fluid", *world.fluid("viscosity", "Pa s")),
    Kind("opt_wind", "velocity of the fluid", world.wind, world.put_wind),
)
KINDS = {kind.name: kind for kind in TABLE}
