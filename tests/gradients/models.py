"""Small robots as MJCF text, each built around one feature whose derivative is in question.

All axes, anchors and inertias are oblique, so that no derivative vanishes by symmetry.
"""

from __future__ import annotations

HEAD = '<mujoco><compiler angle="radian"/><option gravity="0.7 -0.4 -9.81" {option}/>'
INERTIA = '<inertial pos="0.03 -0.02 0.05" mass="{mass}" fullinertia="0.02 0.03 0.025 0.003 -0.002 0.004"/>'
GROUND = '<geom name="plane" type="plane" size="1 1 1" {frame}/>'


FRAME = 'pos="0.1 -0.2 0.3" euler="0.3 0.2 -0.4"'


def named(name: str) -> str:
    """The usual frame of a body, with a name."""
    return f'name="{name}" {FRAME}'


def body(joints: str, inside: str = "", mass: float = 1.3, frame: str = FRAME) -> str:
    """A body without a shape; `inside` rides on it."""
    return f"<body {frame}>{joints}{INERTIA.format(mass=mass)}{inside}</body>"


def robot(bodies: str, rest: str = "", option: str = "") -> str:
    """A whole file: what is in the world, what stands beside it, and options."""
    return f"{HEAD.format(option=option)}<worldbody>{bodies}</worldbody>{rest}</mujoco>"


def hinge(extra: str = "", name: str = "hinge") -> str:
    """A hinge off the body's center, about an oblique axis."""
    return f'<joint name="{name}" type="hinge" axis="0.3 1 -0.5" pos="0.1 0.05 -0.02" {extra}/>'


def slide(extra: str = "", name: str = "slide") -> str:
    """A slide along an oblique axis."""
    return f'<joint name="{name}" type="slide" axis="1 0.4 0.6" pos="-0.05 0.1 0.02" {extra}/>'


def ball(extra: str = "", name: str = "ball") -> str:
    """A ball joint off the body's center."""
    return f'<joint name="{name}" type="ball" pos="-0.04 0.06 0.1" {extra}/>'


FREE = '<freejoint name="free"/>'

HINGES = robot(body(hinge(name="a"), body(hinge(name="b"))))
SLIDES = robot(body(slide(name="a"), body(slide(name="b"), body(hinge()))))
BALLS = robot(body(ball(name="a"), body(ball(name="b"), body(hinge()))))
FREE_TREE = robot(body(FREE, body(ball(), body(slide())) + body(hinge()), frame='pos="0 0 1"'))
STACKED = robot(
    body(
        slide(name="a")
        + hinge(name="b")
        + '<joint type="hinge" axis="1 0 0.2" pos="0 0.1 0.1"/><joint type="slide" axis="-0.3 1 0.2"/>',
        body(ball() + slide()),
    )
)
TWO_TREES = robot(body(FREE, body(hinge(name="a")), frame='pos="0 0 1"') + body(hinge(name="b"), body(ball())))

LOADED = robot(body(hinge('armature="0.3" damping="0.8"'), body(ball('armature="0.2" damping="0.5"'))))
LIMITED = robot(body(hinge('range="-0.5 0.4"'), body(slide('range="-0.2 0.3"'))))
SPRUNG = robot(body(hinge('stiffness="9" springref="0.3"'), body(slide('stiffness="40" springref="-0.1"'))))
BALL_SPRUNG = robot(body(ball('stiffness="12"'), body(ball('stiffness="5"', name="second"))))
FREE_SPRUNG = robot(
    f'<body pos="0 0 1"><joint name="free" type="free" stiffness="7"/>{INERTIA.format(mass=1.0)}</body>'
)

SERVOS = robot(
    body(hinge(), body(slide(), body(hinge(name="last")))),
    """<actuator>
    <position joint="hinge" kp="20" kv="1.5" gear="1.3"/>
    <velocity joint="slide" kv="4" gear="0.7"/>
    <general joint="last" gainprm="3" biastype="affine" biasprm="0.5 -2 -0.3" gear="2"/>
    <motor joint="last" gear="5" ctrllimited="true" ctrlrange="-10 10"/>
    </actuator>""",
)
BOUNDED_SERVOS = robot(
    body(hinge(), body(slide('actuatorfrcrange="-8 8"'))),
    """<actuator>
    <position joint="hinge" kp="20" kv="1.5" gear="1.3" forcerange="-6 6"/>
    <position joint="slide" kp="40" kv="2"/><velocity joint="slide" kv="3" gear="0.7"/>
    </actuator>""",
)
BALL_MOTOR = robot(
    body(FREE, body(ball()), frame='pos="0 0 1"'),
    """<actuator>
    <motor joint="ball" gear="1 -2 0.5"/><motor joint="free" gear="1 0 2 0.3 0 -1"/></actuator>""",
)
FIXED_TENDON = robot(
    body(hinge(), body(slide(), body(hinge(name="last")))),
    """<tendon><fixed name="cord"><joint joint="hinge" coef="0.7"/><joint joint="last" coef="-1.2"/></fixed></tendon>
    <actuator><motor tendon="cord" gear="3"/><position tendon="cord" kp="8" kv="0.4"/></actuator>""",
)


BRANCHES = body(
    slide(name="trunk"),
    body(hinge(name="left"), body(ball()), frame=named("finger"))
    + body(hinge(name="right"), body(hinge(name="tip"), frame=named("nail"))),
)
"""Two fingers on a slide."""

ACROSS = robot(
    BRANCHES,
    """<tendon><fixed name="cord"><joint joint="left" coef="0.7"/><joint joint="tip" coef="-1.2"/></fixed></tendon>
    <actuator><position tendon="cord" kp="80" kv="4"/></actuator>""",
)
"""A servo that couples two branches."""

BALL_LIMITED = robot(body(ball('range="0 0.7"'), body(hinge())))
DRY = robot(
    body(hinge('frictionloss="0.6"'), body(slide('frictionloss="2"'), body(ball('frictionloss="0.1"', name="last"))))
)

MIMIC = '<joint joint1="left" joint2="tip" polycoef="0.1 0.8 0.3 -0.2 0.05"/>'
CONNECT = '<connect body1="finger" body2="nail" anchor="0.1 0.2 -0.1"/>'
PIN = '<connect body1="nail" body2="world" anchor="0.05 0.1 0.2"/>'
WELD = '<weld body1="finger" body2="load" anchor="0.1 0 0.1"/>'
LOCK = '<joint joint1="right" polycoef="0.2 0 0 0 0"/>'


def equal(*constraints: str) -> str:
    """Two fingers and a free body, with equality constraints."""
    load = body(FREE, frame='name="load" pos="0.4 -0.1 0.5" euler="0.1 0.5 -0.2"')
    return robot(BRANCHES + load, f"<equality>{''.join(constraints)}</equality>")


def site(name: str, at: str) -> str:
    """A way-point."""
    return f'<site name="{name}" pos="{at}"/>'


MUSCLES = robot(
    site("wall", "0.5 -0.6 0.8")
    + body(hinge(), site("upper", "0.2 0.1 0.1") + site("bend", "0.1 0.2 -0.1")
           + body(ball(), site("lower", "-0.2 0.3 0.1")))
    + body(FREE, site("other", "0.1 0.1 0.2"), frame='pos="1 0.5 1.5"'),
    """<custom><text name="ahac:muscles" data="linear"/></custom><tendon>
    <spatial name="inner"><site site="upper"/><site site="bend"/><site site="lower"/></spatial>
    <spatial name="across"><site site="wall"/><site site="lower"/><site site="other"/></spatial>
    </tendon>
    <actuator><muscle tendon="inner" force="30" lengthrange="0 1"/>
    <muscle tendon="across" force="20" lengthrange="0 1"/>
    <position tendon="across" kp="15" kv="2" gear="0.8"/></actuator>""",
)  # fmt: skip

BOUND = 'actuatorfrcrange="-2 2"'
BOUNDED_MUSCLES = MUSCLES.replace(hinge(), hinge(BOUND))

FLUID = robot(
    body(FREE, body(hinge()), frame='pos="0 0 1"'), option='density="900" viscosity="0.6" wind="0.4 -0.3 0.2"'
)

SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "capsule": 'type="capsule" size="0.05 0.15"',
    "box": 'type="box" size="0.1 0.15 0.08"',
    "cylinder": 'type="cylinder" size="0.1 0.12"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.16 0.07"',
    "mesh": 'type="mesh" mesh="wedge"',
}
WEDGE = '<asset><mesh name="wedge" vertex="0 0 0  0.3 0 0.02  0.05 0.25 0  0.1 0.05 0.2  0.2 0.2 0.15"/></asset>'
MATERIAL = '<custom><numeric name="ahac:contact" data="5000 2000 50 {friction}"/></custom>'
"""Soft enough for a contact of 32 ms to last."""


def touching(shape: str, friction: float, frame: str = "") -> str:
    """A free body with one shape over a plane, and a second link without one."""
    geom = f'<geom name="shape" {SHAPES[shape]} pos="0.02 0.01 0.03" euler="0.2 -0.3 0.1" mass="1"/>'
    tail = body(hinge(), mass=0.2, frame='pos="0 0 0.2"')
    ground = GROUND.format(frame=frame)
    material = MATERIAL.format(friction=friction)
    return robot(f"{ground}<body>{FREE}{geom}{tail}</body>", material + WEDGE)
