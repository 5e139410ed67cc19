"""Small robots that several tests share, as MJCF and URDF text, and the files that come with Gymnasium."""

from pathlib import Path

import gymnasium

__all__ = [
    "BALL_CHAIN",
    "FREE_SPHERE",
    "GYMNASIUM",
    "LINEAR_MUSCLE_ARM",
    "MIXED_JOINTS",
    "MUSCLE_ARM",
    "NESTED",
    "PENDULUM",
    "REFERENCES",
    "ROVER",
    "SERVO_ARM",
    "SHAPES",
    "SMALL_ROBOTS",
    "TETRAHEDRON",
    "TWO_TREES",
    "URDF_ARM",
    "gymnasium_file",
    "mjcf",
]

GYMNASIUM = ("ant", "humanoid", "hopper", "half_cheetah", "walker2d", "swimmer", "inverted_double_pendulum")
"""Files of Gymnasium; the swimmer swims in a fluid."""


def gymnasium_file(name: str) -> Path:
    """Path of one of Gymnasium's robots."""
    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"


def mjcf(bodies: str, *, rest: str = "", option: str = "") -> str:
    """A model of the given bodies, with `rest` beside its world and `option` as attributes of <option>.

    Angles are in radians. Geoms touch planes (of conaffinity 1) and not each other.
    """
    head = f'<compiler angle="radian"/><option {option}/><default><geom contype="1" conaffinity="0"/></default>'
    return f"<mujoco>{head}<worldbody>{bodies}</worldbody>{rest}</mujoco>"


PENDULUM = mjcf("""
<body name="bob" pos="0 0 1"><joint name="swing" axis="0 1 0"/>
  <geom type="sphere" size="0.05" mass="1" pos="0 0 -0.7"/></body>
""")
"""One hinge; 0.7 m below it a ball of 1 kg and 5 cm."""

FREE_SPHERE = mjcf("""
<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="ball" pos="0 0 1"><freejoint name="root"/><geom name="skin" type="sphere" size="0.1" mass="2"/></body>
""")

BALL_CHAIN = mjcf("""
<body name="top" pos="0 0 2" euler="0.2 0.1 0.3">
  <joint name="first" type="ball" stiffness="3" damping="0.2" armature="0.01" pos="0.02 0.03 0.1"/>
  <geom type="box" size="0.1 0.2 0.05" mass="1" pos="0.1 0 0"/>
  <body name="middle" pos="0.3 0.1 0" euler="0.4 0 0.2">
    <joint name="second" type="ball" stiffness="1.5" damping="0.1"/>
    <geom type="capsule" size="0.04 0.1" mass="0.5" pos="0 0.05 0.1" euler="0.3 0.5 0"/>
    <body name="tip" pos="0 0 0.3">
      <joint name="third" type="hinge" axis="1 2 3" stiffness="2" springref="0.4" damping="0.05"/>
      <geom type="ellipsoid" size="0.1 0.05 0.08" mass="0.3" pos="0.05 0 0"/>
    </body>
  </body>
</body>
""")
"""Ball joints with springs, damping, armature and an anchor off the body's origin."""

MIXED_JOINTS = mjcf("""
<body name="cart" pos="0.1 0.2 1" euler="0.1 0.2 0.3">
  <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0.2 1" damping="0.3"/>
  <joint name="pitch" type="hinge" axis="0 1 0" pos="0.05 0 0.1"/>
  <geom type="box" size="0.2 0.1 0.05" mass="2"/>
  <body name="arm" pos="0.3 0 0">
    <joint name="turn" type="hinge" axis="1 1 0" pos="-0.1 0.2 0"/><joint name="reach" type="slide" axis="0.3 0 1"/>
    <joint name="twist" type="hinge" axis="0 0 1" pos="0 0.1 0.3"/>
    <joint name="wrist" type="ball" pos="0.1 0.1 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0.1 0" size="0.03" mass="0.7"/>
  </body>
</body>
""")
"""Bodies with several joints: slides then a hinge; and hinge, slide, hinge, ball about four different points."""

TWO_TREES = mjcf("""
<body name="drone" pos="0 0 2" euler="0.3 0.2 0.1">
  <freejoint/><geom type="box" size="0.1 0.2 0.05" mass="1" pos="0.02 0 0.01"/>
  <body name="rotor" pos="0.1 0 0.1"><joint axis="0 0 1"/><geom type="cylinder" size="0.1 0.01" mass="0.1"/></body>
</body>
<body name="crane" pos="1 0 1">
  <joint axis="0 0 1" damping="0.1"/><geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05" mass="3"/>
  <body name="hook" pos="0.5 0 0"><joint type="ball"/><geom type="sphere" size="0.06" mass="0.4" pos="0 0 -0.3"/></body>
</body>
""")

NESTED = mjcf("""
<body name="stand" pos="0 0 1" euler="0 0 0.4">
  <body name="post" pos="0.1 0 0.2" euler="0.3 0 0">
    <body name="link" pos="0 0.1 0">
      <joint name="hinge" axis="0 1 0"/>
      <body name="sleeve" pos="0.1 0 0" euler="0 0.5 0">
        <geom type="box" size="0.1 0.05 0.03" mass="0.5" pos="0.05 0 0"/>
        <body name="glove" pos="0.2 0 0" euler="0.2 0 0.7">
          <geom type="capsule" fromto="0 0 0 0 0.2 0.1" size="0.02" mass="0.2"/>
          <site name="palm" pos="0.1 0 0" euler="0 0 1"/>
          <body name="finger" pos="0 0.2 0.1">
            <joint axis="1 0 0"/><geom type="sphere" size="0.03" mass="0.1" pos="0 0.1 0"/>
            <body name="nail" pos="0 0.15 0"><geom type="box" size="0.01 0.02 0.005" mass="0.01"/></body>
          </body>
        </body>
      </body>
    </body>
  </body>
</body>
""")
"""Bodies without joints: below the world, between two links (where all of the first link's mass is), and at a tip."""

REFERENCES = mjcf("""
<body name="crank" pos="0 0 1" euler="0.5 0 0">
  <joint name="crank" axis="0 1 0" ref="0.5" springref="-0.3" stiffness="4" damping="0.2" armature="0.05"/>
  <geom type="box" size="0.1 0.05 0.02" mass="1" pos="0.1 0 0"/>
  <body name="piston" pos="0.2 0 0">
    <joint name="piston" type="slide" axis="1 0 1" ref="0.1" springref="0.25" stiffness="30" damping="1"/>
    <geom type="sphere" size="0.05" mass="0.5" pos="0 0.02 0"/>
  </body>
</body>
<body name="buoy" pos="0 1 1" euler="0.2 0.3 0.4">
  <joint name="buoy" type="free" stiffness="2" damping="0.1"/><geom type="box" size="0.1 0.2 0.3" mass="1"/>
</body>
""")
"""Springs that rest away from where the coordinate is zero, and joints that are not drawn at zero."""

SERVO_ARM = mjcf(
    """
<body name="upper" pos="0 0 1">
  <joint name="shoulder" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1"/>
  <body name="lower" pos="0 0 -0.4">
    <joint name="elbow" axis="0 1 0" range="-0.5 0.5" limited="true" actuatorfrcrange="-4 5"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/>
  </body>
</body>
""",
    rest="""
<actuator>
  <position name="place" joint="shoulder" kp="20" kv="0.5" ctrlrange="-1 1" ctrllimited="true" gear="1.5"/>
  <velocity name="speed" joint="elbow" kv="3" forcerange="-2 2" forcelimited="true"/>
  <motor name="push" joint="elbow" gear="6" ctrlrange="-1 1" ctrllimited="true"/>
</actuator>
""",
)

MUSCLE_ARM = mjcf(
    """
<site name="anchor" pos="-0.1 0.02 1.1"/>
<body name="upper" pos="0 0 1">
  <joint name="shoulder" axis="0 1 0.2"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1"/>
  <site name="belly" pos="0.06 0 -0.1"/><site name="end" pos="0.05 0.01 -0.3"/>
  <body name="lower" pos="0 0 -0.4">
    <joint name="elbow" type="ball"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/>
    <site name="insertion" pos="0.08 0.02 0.03"/>
  </body>
</body>
<body name="load" pos="0.5 0 1">
  <freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/><site name="hook" pos="0 0 0.1"/>
</body>
""",
    rest="""
<tendon>
  <spatial name="long"><site site="anchor"/><site site="belly"/><site site="end"/><site site="insertion"/></spatial>
  <spatial name="rope"><site site="insertion"/><site site="hook"/></spatial>
</tendon>
<actuator>
  <muscle name="flexor" tendon="long" force="80" lengthrange="0.1 1"/>
  <muscle name="scaled" tendon="long" scale="150" gear="1.5" lengthrange="0.1 1"/>
  <muscle name="turner" joint="shoulder" force="9" gear="0.4" lengthrange="-1 1"/>
  <motor name="winch" tendon="rope" gear="3"/>
  <position name="reel" tendon="rope" kp="40" kv="2" gear="0.5" forcerange="-6 6"/>
</actuator>
""",
)
"""Tendons through four sites of three links, and between two trees; muscles, a motor and a servo along them."""

LINEAR_MUSCLE_ARM = MUSCLE_ARM.replace(
    "<worldbody>", '<custom><text name="ahac:muscles" data="linear"/></custom><worldbody>'
)
"""The same with muscles that pull with activation x strength, without curves and dynamics."""

URDF_ARM = """
<robot name="arm">
  <mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco>
  <link name="base"><inertial><mass value="3"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0 0 0.2" rpy="0.1 0 0"/><mass value="1.5"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.02" ixy="0.001" ixz="0.002" iyz="-0.001"/></inertial></link>
  <link name="bracket"><inertial><mass value="0.2"/>
    <inertia ixx="1e-3" iyy="1e-3" izz="2e-3" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="hand"><inertial><origin xyz="0.05 0 0"/><mass value="0.4"/>
    <inertia ixx="1e-3" iyy="2e-3" izz="2e-3" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.1 0 0"/><geometry><sphere radius="0.04"/></geometry></collision></link>
  <joint name="waist" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.1" rpy="0 0.2 0"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="10" velocity="5"/><dynamics damping="0.3"/></joint>
  <joint name="weld" type="fixed"><parent link="upper"/><child link="bracket"/>
    <origin xyz="0 0.05 0.4" rpy="0.5 0 0"/></joint>
  <joint name="rail" type="prismatic"><parent link="bracket"/><child link="hand"/><origin xyz="0 0 0.1"/>
    <axis xyz="0 1 0"/><limit lower="-0.1" upper="0.3" effort="20" velocity="1"/></joint>
</robot>
"""

TETRAHEDRON = '<asset><mesh name="tetrahedron" vertex="0 0 0  0.3 0 0  0 0.3 0  0 0 0.3  0.05 0.05 0.05"/></asset>'
"""A mesh with one vertex inside its hull."""

SHAPES = mjcf(
    """
<geom name="slope" type="plane" size="1 1 1" conaffinity="1" pos="0 0 -0.1" euler="0.3 0 0"/>
<geom name="wall" type="plane" size="1 1 1" conaffinity="1" pos="-0.6 0 0" euler="0 1.5707963267948966 0"/>
<body name="box"><freejoint/>
  <geom name="box" type="box" size="0.1 0.2 0.3" mass="1" pos="0.05 0 0" euler="0.4 0 0.2"/></body>
<body name="can"><freejoint/><geom name="can" type="cylinder" size="0.1 0.2" mass="1"/></body>
<body name="egg"><freejoint/>
  <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3" mass="1" pos="0 0.1 0" euler="0 0.3 0"/></body>
<body name="rock"><freejoint/>
  <geom name="rock" type="mesh" mesh="tetrahedron" mass="1" pos="0.1 0 0" euler="0 0 0.5"/></body>
<body name="pill"><freejoint/><geom name="pill" type="capsule" size="0.1 0.2" mass="1"/></body>
<body name="ball"><freejoint/><geom name="ball" type="sphere" size="0.15" mass="1"/></body>
""",
    rest=TETRAHEDRON + '<custom><numeric name="ahac:max_contact_points" data="68"/></custom>',
)
"""Every shape that can touch a plane, above a slope and beside a wall."""

ROVER = mjcf(
    """
<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="trunk" pos="0 0 0.3"><freejoint name="root"/><geom name="belly" type="sphere" size="0.2" mass="2"/>
  <site name="eye" pos="0.2 0 0.1" euler="0 0.5 0"/>
  <body name="arm" pos="0.2 0 0"><joint name="shoulder" axis="0 1 0" range="-1 1" limited="true" damping="0.1"/>
    <geom name="hand" type="capsule" fromto="0 0 0 0.3 0 0" size="0.05" mass="0.5"/></body></body>
""",
    rest="""
<actuator><motor name="torque" joint="shoulder" gear="5" ctrlrange="-1 1" ctrllimited="true"/></actuator>
<keyframe><key name="low" qpos="1 2 0.19 0 1 0 0 0.5" qvel="1 2 3 4 5 6 7"/></keyframe>
""",
)
"""A free body with one motor, a joint limit, three points that may touch the floor, a site and a keyframe."""

SMALL_ROBOTS = {
    "pendulum": PENDULUM, "free sphere": FREE_SPHERE, "ball chain": BALL_CHAIN, "mixed joints": MIXED_JOINTS,
    "two trees": TWO_TREES, "nested": NESTED, "references": REFERENCES, "servo arm": SERVO_ARM,
    "muscle arm": MUSCLE_ARM,
    "rover": ROVER, "URDF arm": URDF_ARM, "shapes": SHAPES,
}  # fmt: skip
