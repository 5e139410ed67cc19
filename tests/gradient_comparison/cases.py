"""Models that all engines load, and the states and controls from which they start.

All joints are slides and hinges, so that positions and velocities mean the same in every engine. There is no armature,
damping or joint limit, because some engines ignore them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["CASES", "STEP", "Array", "Case"]

STEP = 0.002
"""Duration of a step [s], the default of MuJoCo."""

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A model, its nominal start, and a scalar function of the final state: a weighted sum of q and v."""

    name: str
    title: str
    body: str
    q: tuple[float, ...]
    v: tuple[float, ...]
    control: tuple[float, ...]
    actuated: tuple[int, ...]
    """Coordinate on which each motor acts."""
    gear: float = 1.0
    joints: tuple[str, ...] = ()
    """Names of the actuated joints, in the order of `actuated`."""
    contact: bool = False

    @property
    def inputs(self) -> int:
        """Number of inputs: positions, velocities and controls."""
        return len(self.q) + len(self.v) + len(self.control)

    def xml(self) -> str:
        """Return the MJCF text."""
        motors = "".join(f'<motor joint="{joint}" gear="{self.gear}"/>' for joint in self.joints)
        floor = '<geom type="plane" size="9 9 1" contype="0" conaffinity="1" friction=".8"/>' if self.contact else ""
        return (
            f'<mujoco model="{self.name}"><compiler angle="radian"/><option timestep="{STEP}"/>'
            f"<worldbody>{floor}{self.body}</worldbody><actuator>{motors}</actuator></mujoco>"
        )

    def starts(self, number: int) -> Array:
        """Return inputs [number, inputs]: the nominal ones, then some with noise of 0.02."""
        nominal = np.array([*self.q, *self.v, *self.control])
        noise = 0.02 * np.random.default_rng(0).standard_normal((number, self.inputs))
        noise[0] = 0.0
        noise[:, : len(self.q)] *= 0.0 if self.contact else 1.0  # heights decide about contact
        return nominal + noise

    def weights(self) -> Array:
        """Return the weights [nq + nv] of the final state in the scalar, between 0.5 and 1.5, with random signs."""
        random = np.random.default_rng(1)
        size = len(self.q) + len(self.v)
        return random.uniform(0.5, 1.5, size) * random.choice([-1.0, 1.0], size)


def _link(name: str, at: str, axis: str, length: float, inner: str = "", shape: str = "") -> str:
    shape = shape or 'contype="0" conaffinity="0"'
    return (
        f'<body name="{name}" pos="{at}"><joint name="{name}" axis="{axis}"/>'
        f'<geom type="capsule" size=".03" fromto="0 0 0 0 0 {-length}" mass="1" {shape}/>{inner}</body>'
    )


def _planar(name: str, shape: str, inner: str = "") -> str:
    return (
        f'<body name="{name}"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>'
        f'<joint name="pitch" axis="0 1 0"/>{shape}{inner}</body>'
    )


TOUCHING = 'contype="1" conaffinity="0" friction=".8"'
SILENT = 'contype="0" conaffinity="0"'
FOOT = (
    '<body name="ankle" pos="0 0 -.5"><joint name="ankle" axis="0 -1 0"/>'
    f'<geom type="capsule" size=".06" fromto="-.13 0 -.04 .26 0 -.04" mass="1" {TOUCHING}/></body>'
)
SHIN = _link("knee", "0 0 -.45", "0 -1 0", 0.5, FOOT)

CASES = {
    case.name: case
    for case in (
        Case(
            "pendulum", "Pendulum", _link("hinge", "0 0 0", "0 1 0", 0.5),
            (0.5,), (0.3,), (0.2,), (0,), joints=("hinge",),
        ),
        Case(
            "double_pendulum", "Double pendulum",
            _link("upper", "0 0 0", "0 1 0", 0.5, _link("lower", "0 0 -.5", "0 1 0", 0.5)),
            (0.8, -0.5), (0.5, 1.0), (0.2, -0.1), (0, 1), joints=("upper", "lower"),
        ),
        Case(
            "cartpole", "Cart-pole",
            '<body name="cart"><joint name="cart" type="slide" axis="1 0 0"/>'
            f'<geom type="box" size=".1 .1 .05" mass="1" {SILENT}/>{_link("pole", "0 0 0", "0 1 0", 0.6)}</body>',
            (0.0, 2.8), (0.1, 0.2), (0.5,), (0,), joints=("cart",),
        ),
        Case(
            "sphere", "Sphere that falls 2 cm, with horizontal speed",
            _planar("ball", f'<geom type="sphere" size=".1" mass="1" {TOUCHING}/>'),
            (0.0, 0.12, 0.0), (0.5, 0.0, 0.0), (0.3,), (0,), joints=("x",), contact=True,
        ),
        Case(
            "box", "Box that slides on the ground",
            _planar("box", f'<geom type="box" size=".1 .1 .05" mass="1" {TOUCHING}/>'),
            (0.0, 0.0497, 0.0), (1.0, 0.0, 0.0), (0.3,), (0,), joints=("x",), contact=True,
        ),
        Case(
            "hopper", "Hopper: a leg with three joints that lands",
            _planar(
                "torso", f'<geom type="capsule" size=".05" fromto="0 0 0 0 0 .4" mass="3" {SILENT}/>',
                _link("hip", "0 0 0", "0 -1 0", 0.45, SHIN),
            ),
            (0.0, 1.077, 0.05, 0.1, -0.2, 0.1), (0.2, -0.5, 0.0, 0.1, -0.1, 0.1), (0.1, -0.2, 0.1), (3, 4, 5),
            gear=20.0, joints=("hip", "knee", "ankle"), contact=True,
        ),
    )
}  # fmt: skip
