"""Actuators and tendons of a model, as plain frozen dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from ahac.sim.model.basics import Frame, JointLimit, Vector

__all__ = [
    "Activation",
    "ActivationKind",
    "Actuator",
    "BallDrive",
    "MuscleCurves",
    "Obstacle",
    "SiteDrive",
    "SliderCrank",
    "Tendon",
]


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A sphere or an infinitely long cylinder that a tendon wraps around."""

    cylinder: bool
    """Whether it is a cylinder, about the z axis of its frame."""
    frame: Frame
    radius: float
    side: Vector | None = None
    """Side site in the obstacle's frame [m]: the side that the tendon takes. If it lies inside, so does the tendon."""

    @property
    def inside(self) -> bool:
        """Whether the tendon is confined to the inside of the obstacle."""
        return self.side is not None and math.hypot(*self.side) < self.radius


@dataclass(frozen=True, kw_only=True)
class Tendon:
    """A path through waypoints and around obstacles, or a linear combination of joint coordinates."""

    name: str
    points: tuple[tuple[int, Vector], ...] = ()
    """Waypoints of a spatial tendon: (link, position in its frame)."""
    obstacles: tuple[tuple[int, Obstacle], ...] = ()
    """(i, obstacle between waypoints i and i + 1)."""
    scales: tuple[float, ...] = ()
    """Factor of each segment's length: 1 / divisor behind a pulley, 0 across one; empty if all are 1."""
    joints: tuple[tuple[int, int, float], ...] = ()
    """Fixed tendon: (position index, velocity index, coefficient)."""
    stiffness: tuple[float, ...] = ()
    """Coefficients k of the spring: force −x (k₀ + k₁ x + k₂ x² ...) at elongation x; empty without a spring."""
    spring_range: tuple[float, float] = (0.0, 0.0)
    """Lengths between which the spring is slack [m]."""
    damping: tuple[float, ...] = ()
    """Coefficients b of the damper: force −s (b₀ + b₁ |s| + b₂ s² ...) at speed s; empty without a damper."""
    armature: float = 0.0
    """Inertia that the tendon's speed carries [kg]."""
    frictionloss: float = 0.0
    """Dry friction [N]."""
    range: tuple[float, float] | None = None
    """Limits of the length [m]; None if unlimited."""
    limit: JointLimit = field(default_factory=JointLimit)
    effective_mass: float = 0.0
    """Inertia that a force along the tendon moves in the reference pose [kg]."""
    force_range: tuple[float, float] | None = None
    """Bounds on the total force of all actuators along this tendon, before gears."""
    actuators: tuple[int, ...] = ()
    """Actuators along this tendon."""

    @property
    def straight(self) -> bool:
        """Whether it is a path of straight segments that all count in full."""
        return bool(self.points) and not self.obstacles and not self.scales


class ActivationKind(Enum):
    """Dynamics of an actuator's activation."""

    INTEGRATOR = "integrator"
    FILTER = "filter"
    EXACT_FILTER = "filterexact"
    MUSCLE = "muscle"


@dataclass(frozen=True, kw_only=True)
class Activation:
    """The state of an actuator that takes the place of its control."""

    kind: ActivationKind
    index: int
    """Index in the world's activations."""
    constants: Vector
    """Time constant of a filter [s]; time constants of activation and deactivation, and width of the smooth transition
    between them, of a muscle."""
    range: tuple[float, float] | None = None
    early: bool = False
    """Whether the force uses the activation at the end of the substep."""


@dataclass(frozen=True, kw_only=True)
class MuscleCurves:
    """Force-length-velocity curves of a muscle; lengths are normalized by its optimal length, forces by its peak."""

    peak_force: float
    """Peak active force [N]."""
    origin: float
    """Length of the actuator at normalized length `offset` [m]."""
    offset: float
    optimal_length: float
    """Length of the actuator per normalized length [m]."""
    shortest: float
    """Normalized length below which the muscle exerts no active force."""
    longest: float
    """Normalized length above which the muscle exerts no active force."""
    shortening_speed: float
    """Shortening speed at which the active force vanishes [optimal lengths / s]."""
    passive_force: float
    """Passive force at the longest length."""
    lengthening_force: float
    """Active force at fast lengthening."""


@dataclass(frozen=True, kw_only=True)
class BallDrive:
    """Transmission to a ball joint, or to the rotation of a free joint."""

    q: int
    v: int
    gear: Vector
    """Axis times gear, in the joint's frame or the parent's."""
    in_parent: bool
    measured: bool
    """Whether the length is gear · rotation vector; otherwise it is zero."""


@dataclass(frozen=True, kw_only=True)
class SiteDrive:
    """Transmission to a site: a force and a torque along axes of the site, or of a reference site."""

    name: str
    """Name of the site."""
    site: Frame
    reference: Frame | None
    """Reference site, which feels the opposite force; without one, the length is zero."""
    force: Vector
    torque: Vector


@dataclass(frozen=True, kw_only=True)
class SliderCrank:
    """Transmission by a rod from a slider, which moves along the z axis of its site, to a crank's pin."""

    name: str
    """Name of the crank's site."""
    crank: Frame
    slider: Frame
    rod: float
    """Length of the rod [m]."""


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """force = gain · control + bias[0] + bias[1] · length + bias[2] · speed, along joints, a tendon or a site.

    A motor has gain 1, a position servo gain kp and bias (0, −kp, −kv), a muscle gain −strength. The gain can depend on
    length and speed too, the curves of a muscle scale it, and an activation can take the place of the control.
    """

    name: str
    """Name in the file."""
    gain: float
    """Force per control [N] or [N m] per unit of control."""
    bias: Vector
    """Force without control: constant, per length and per speed."""
    dofs: tuple[tuple[int, float], ...] = ()
    """(velocity index, gear) pairs: the force on each velocity coordinate is gear · force."""
    coordinates: tuple[tuple[int, float], ...] = ()
    """(position index, gear) pairs: the length is Σ gear · q; empty if the bias does not use it."""
    tendon: Tendon | None = None
    """Tendon along which it acts, if any."""
    drive: BallDrive | SiteDrive | SliderCrank | None = None
    """Ball joint, site or slider-crank on which it acts, if any."""
    gear: float = 1.0
    """Gear of the tendon or slider-crank."""
    control_range: tuple[float, float] | None = None
    """Range to which controls are clipped."""
    control_map: tuple[float, float] | None = None
    """(scale, offset) of the clipped control: the actuator sees scale · control + offset."""
    force_range: tuple[float, float] | None = None
    """Range to which the force is clipped [N] or [N m]."""
    gain_slopes: tuple[float, float] = (0.0, 0.0)
    """Change of the gain per length and per speed."""
    gain_curves: MuscleCurves | None = None
    """Active curves of a muscle; they replace the gain."""
    bias_curves: MuscleCurves | None = None
    """Passive curve of a muscle; it replaces the bias."""
    activation: Activation | None = None
    """Filter, integrator or muscle dynamics between control and force, if any."""
    period: float | None = None
    """Period of the length of a servo on a rotation: it turns the shorter way toward its target."""
    disabled: bool = False
    """Whether it exerts no force and its activation does not change."""

    strength: float = 1.0
    """Factor on the force and its range."""

    rescaled: bool = False
    """Whether gain and bias contain scale and offset of a control that a task has rescaled to [-1, 1]."""

    @property
    def is_linear(self) -> bool:
        """Whether the force is a constant gain times the control, plus a bias."""
        more = (self.gain_curves, self.bias_curves, self.activation, self.period, self.control_map)
        return all(part is None for part in more) and not any(self.gain_slopes)
