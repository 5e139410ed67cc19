# pyright: reportAttributeAccessIssue=false
"""Random robots: trees of one to six bodies with all kinds of joints, as MJCF text, and random states of them."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from hypothesis import strategies as st

from ahac.sim import Model, load_model

__all__ = ["Robot", "robots"]

JOINTS = ((), ("hinge",), ("slide",), ("ball",), ("hinge", "hinge"), ("slide", "hinge"), ("slide", "ball"))
"""What may join a body to its parent; nothing welds it on. A body on the world may also be free."""


def numbers(low: float, high: float, count: int) -> st.SearchStrategy[tuple[float, ...]]:
    """A few numbers, short ones so that an example can be read."""
    return st.tuples(*[st.floats(low, high).map(lambda x: round(x, 3))] * count)


def text(values: tuple[float, ...]) -> str:
    return " ".join(f"{x:.9g}" for x in values)


@dataclass(frozen=True)
class Body:
    """One body and its joints to its parent."""

    parent: int
    """-1: the world."""
    joints: tuple[str, ...]
    offset: tuple[float, ...]
    turn: tuple[float, ...]
    mass: float
    center: tuple[float, ...]
    edges: tuple[float, ...]
    """Of the box with its inertia."""
    axes: tuple[tuple[float, ...], ...]
    anchors: tuple[tuple[float, ...], ...]
    armature: float
    damping: float

    def xml(self, inside: str, scale: float, stiff: bool = False) -> str:
        """Its element, with masses, inertias, armature and damping scaled; `stiff` adds forces that oppose motion."""
        squares = np.square(self.edges)
        moments = tuple(scale * self.mass * (squares.sum() - squares) / 12.0)
        inertial = (
            f'<inertial mass="{scale * self.mass:.9g}" pos="{text(self.center)}" euler="{text(self.turn[::-1])}" '
            f'diaginertia="{text(moments)}"/>'
        )
        joints = "".join(
            f'<joint type="{kind}" axis="{text(axis)}" pos="{text(anchor)}" armature="{scale * self.armature:.9g}" '
            f'damping="{scale * self.damping:.9g}" {self.opposed(kind) if stiff else ""}/>'
            for kind, axis, anchor in zip(self.joints, self.axes, self.anchors, strict=False)
        )
        if self.joints == ("free",):
            joints = "<freejoint/>"
        if stiff:
            inside += f'<geom size="{self.edges[0]:.9g}" pos="{text(self.center)}"/>'
        return f'<body pos="{text(self.offset)}" euler="{text(self.turn)}">{joints}{inertial}{inside}</body>'

    def opposed(self, kind: str) -> str:
        """A spring, dry friction and a range, of which some joints are out in a random state."""
        bounds = f"0 {self.edges[1]:.9g}" if kind == "ball" else f"{-self.edges[1]:.9g} {self.edges[2]:.9g}"
        return (
            f'stiffness="{80.0 * self.edges[0]:.9g}" frictionloss="{self.damping:.9g}" range="{bounds}" limited="true"'
        )


@dataclass(frozen=True)
class Robot:
    """A tree of bodies, and the numbers from which its states are drawn."""

    bodies: tuple[Body, ...]
    gravity: tuple[float, ...]
    seed: int

    def xml(self, scale: float = 1.0, stiff: bool = False) -> str:
        inside = [""] * len(self.bodies)
        world = ""
        for i in reversed(range(len(self.bodies))):
            element = self.bodies[i].xml(inside[i], scale, stiff)
            if (parent := self.bodies[i].parent) < 0:
                world = element + world
            else:
                inside[parent] = element + inside[parent]
        head = f'<compiler angle="radian"/><option gravity="{text(self.gravity)}"/>'
        if stiff:
            world += '<geom type="plane" size="1 1 1" conaffinity="1"/>'
            head += '<default><geom contype="1" conaffinity="0"/></default>'
        return f"<mujoco>{head}<worldbody>{world}</worldbody></mujoco>"

    def model(self, scale: float = 1.0, stiff: bool = False) -> Model:
        return load_model(self.xml(scale, stiff))

    def compiled(self) -> mujoco.MjModel:
        """MuJoCo's model."""
        return mujoco.MjModel.from_xml_string(self.xml())

    def state(self, model: Model) -> dict[str, np.ndarray]:
        """Positions with quaternions of unit length, velocities, forces."""
        rng = np.random.default_rng(self.seed)
        q = np.array(model.rest_q) + rng.standard_normal(model.nq)
        v = rng.standard_normal(model.nv)
        for joint in model.joints:
            if len(joint.dofs) == 3:
                at = slice(joint.q, joint.q + 4)
                q[at] /= np.linalg.norm(q[at])
        return {"q": q, "v": v, "force": rng.standard_normal(model.nv)}


@st.composite
def bodies(draw: st.DrawFn, index: int, free: bool) -> Body:
    parent = draw(st.integers(-1, index - 1)) if index else -1
    kinds = JOINTS[1:] if index == 0 else JOINTS
    joints = ("free",) if free else draw(st.sampled_from((*kinds, ("free",)) if parent < 0 else kinds))
    axis = numbers(-1.0, 1.0, 3).filter(lambda a: np.linalg.norm(a) > 0.1)
    return Body(
        parent=parent,
        joints=joints,
        offset=draw(numbers(-0.5, 0.5, 3)),
        turn=draw(numbers(-3.0, 3.0, 3)),
        mass=draw(numbers(0.1, 5.0, 1))[0],
        center=draw(numbers(-0.2, 0.2, 3)),
        edges=draw(numbers(0.05, 0.5, 3)),
        axes=(draw(axis), draw(axis)),
        anchors=(draw(numbers(-0.2, 0.2, 3)), draw(numbers(-0.2, 0.2, 3))),
        armature=draw(numbers(0.01, 0.5, 1))[0],
        damping=draw(numbers(0.0, 1.0, 1))[0],
    )


@st.composite
def robots(draw: st.DrawFn, free: bool = False, most: int = 6) -> Robot:
    """Random robots; with `free`, the first body has a free joint."""
    count = draw(st.integers(1, most))
    drawn = [draw(bodies(i, free and i == 0)) for i in range(count)]
    return Robot(tuple(drawn), draw(numbers(-10.0, 10.0, 3)), draw(st.integers(0, 2**16)))
