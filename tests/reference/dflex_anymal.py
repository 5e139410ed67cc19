"""What dflex's anymal is made of: numbers recorded from imgeorgiev/DiffRL (dflex) commit bb59db5, in float32.

Facts and numbers only. dflex keeps every link of the robot's URDF file, 76 of them; here are those of the four legs.
What it does was not recorded.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Body:
    """What dflex took for the mass of a link, and the points with which it touches the ground."""

    mass: float
    center: tuple[float, float, float]
    """Of mass, in the link's frame [m]."""
    moments: tuple[float, float, float]
    """Of inertia about the center of mass, in the link's axes; products of inertia are zero [kg m²]."""
    balls: tuple[tuple[float, float, float], ...]
    """Center of each contact point, in the link's frame [m]."""
    radius: float
    """Of these points [m]."""


@dataclass(frozen=True)
class Step:
    """From one link of a leg to the next."""

    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Of the link's joint, in the frame of the link before [m]."""
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    """(x, y, z, w) of the joint's frame, in that of the link before."""
    axis: float = 0.0
    """1 or −1: the link turns about its x axis by this times the next joint angle; 0: it does not move."""
    body: str = ""
    """Which of the bodies the link carries, if any."""


# fmt: off
BODIES = {
    "base": Body(
        mass=27.7507343, center=(0.0, 0.0, 0.0), moments=(0.134564891, 1.88698459, 1.88698459),
        balls=((0.375, 0.0, 1.66533454e-16), (-0.375, 0.0, -1.66533454e-16)), radius=0.100000001,
    ),
    "drive": Body(
        mass=2.26194668, center=(-0.0500000007, 0.0, 0.0), moments=(0.00374578382, 0.00985303987, 0.00985303987),
        balls=((0.00999999791, 0.0, 2.6645352e-17), (-0.109999999, 0.0, -2.6645352e-17)), radius=0.0599999987,
    ),
    "foot": Body(
        mass=0.113097332, center=(0.0, 0.0, 0.0225000009), moments=(4.07150401e-05, 4.07150401e-05, 4.07150401e-05),
        balls=((0.0, 0.0, 0.0225000009),), radius=0.0299999993,
    ),
}
"""The only links that have shapes, and so mass: the base, every leg's knee drive and every leg's foot."""

LEGS = {
    "LF": (
        Step(position=(0.299899995, 0.104000002, 0.0), quaternion=(0.965925813, 0.0, 0.0, 0.258819044)),
        Step(axis=1.0),
        Step(quaternion=(-0.965925813, 0.0, 0.0, 0.258819044)),
        Step(position=(0.0599000007, 0.0838100016, 0.0), quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(axis=1.0),
        Step(quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(position=(0.0, 0.100299999, -0.284999996), quaternion=(0.0, 0.0, 0.707106769, 0.707106769), body="drive"),
        Step(axis=1.0),
        Step(quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(position=(0.0879499987, 0.0130500002, -0.337969989), body="foot"),
    ),
    "RF": (
        Step(position=(0.299899995, -0.104000002, 0.0), quaternion=(-0.965925813, 0.0, 0.0, 0.258819044)),
        Step(axis=1.0),
        Step(quaternion=(0.965925813, 0.0, 0.0, 0.258819044)),
        Step(position=(0.0599000007, -0.0838100016, 0.0), quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(axis=-1.0),
        Step(quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(
            position=(0.0, -0.100299999, -0.284999996),
            quaternion=(0.0, 0.0, -0.707106769, 0.707106769),
            body="drive",
        ),
        Step(axis=-1.0),
        Step(quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(position=(0.0879499987, -0.0130500002, -0.337969989), body="foot"),
    ),
    "LH": (
        Step(
            position=(-0.299899995, 0.104000002, 0.0),
            quaternion=(-9.97917027e-14, -0.965925813, 0.258819044, 2.67391056e-14),
        ),
        Step(axis=-1.0),
        Step(quaternion=(-9.97917027e-14, -0.965925813, 0.258819044, 2.67391056e-14)),
        Step(position=(-0.0599000007, 0.0838100016, 0.0), quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(axis=1.0),
        Step(quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(position=(0.0, 0.100299999, -0.284999996), quaternion=(0.0, 0.0, 0.707106769, 0.707106769), body="drive"),
        Step(axis=1.0),
        Step(quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(position=(-0.0879499987, 0.0130500002, -0.337969989), body="foot"),
    ),
    "RH": (
        Step(
            position=(-0.299899995, -0.104000002, 0.0),
            quaternion=(9.97917027e-14, 0.965925813, 0.258819044, 2.67391056e-14),
        ),
        Step(axis=-1.0),
        Step(quaternion=(9.97917027e-14, 0.965925813, 0.258819044, 2.67391056e-14)),
        Step(position=(-0.0599000007, -0.0838100016, 0.0), quaternion=(0.0, 0.0, -0.707106769, 0.707106769)),
        Step(axis=-1.0),
        Step(quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(
            position=(0.0, -0.100299999, -0.284999996),
            quaternion=(0.0, 0.0, -0.707106769, 0.707106769),
            body="drive",
        ),
        Step(axis=-1.0),
        Step(quaternion=(0.0, 0.0, 0.707106769, 0.707106769)),
        Step(position=(-0.0879499987, -0.0130500002, -0.337969989), body="foot"),
    ),
}
"""Chains from the base to the feet, with three hinges each: HAA, HFE, KFE."""

START = {"LF": (0.03, 0.4, -0.8), "RF": (-0.03, 0.4, -0.8), "LH": (0.03, -0.4, 0.8), "RH": (-0.03, -0.4, 0.8)}
"""Joint angles of the start pose [rad]."""

HEIGHT = 0.55
"""Of the base in the start pose [m]."""

STRENGTH = 200.0
"""Torque per unit of action [N m]."""

SPRING = 85.0
"""Of every joint, at rest at angle zero [N m/rad]."""

DAMPING = 12.0
"""Of every joint: 2 of its own and 10 that dflex's limits always add [N m s/rad]."""

ARMATURE = 0.006

GROUND = (2000.0, 500.0, 100.0, 0.75)
"""Of contact: ke [N/m], kd [N s/m²], kf [N s/m] and mu."""
