"""What dflex's hopper is and what it does: an MJCF file with its effective parameters, and its recorded numbers.

Recorded from imgeorgiev/DiffRL (dflex) commit bb59db5, CPU kernels, float32, with the mass matrix rebuilt in every
substep (its training configuration rebuilds it in every fourth). One world, from rest at q = 0, without early
termination, under the actions a_t[i] = sin(0.1 t + i) / 2, t = 0, 1, ... . Facts and numbers only; the MJCF file is our
own, written from dflex's tables of the model it had loaded.

dflex has y up and turns the robot's root by −90° about x. Here z is up and nothing is turned, so that coordinates are
the same: q = [x, height above the start, pitch, thigh, leg, foot], v = dq/dt.
"""

from dataclasses import dataclass

DT = 1.0 / 60.0
SUBSTEPS = 16

# Three things differ from a hopper that one would draw:
# - dflex damps every joint by its "limit_kd" of 10, inside the range as well and also on the root. So it is joint
#   damping here, on top of the 2 of the driven hinges, and the limits themselves have none.
# - Armature is 1 on all joints, root slides included.
# - dflex leaves torso, thigh and leg no inertia but about the pitch axis, which MuJoCo's compiler refuses. The other
#   two moments play no part in planar motion; all three are set to that of the pitch axis.
# Numbers have the digits of float32, as dflex holds them.
MJCF = """
<mujoco model="dflex hopper">
  <compiler angle="radian"/>
  <option gravity="0 0 -9.81000042"/>
  <custom>
    <numeric name="ahac:contact" data="20000 2000 1000 0.899999976"/>
    <numeric name="ahac:limit" data="1000 0"/>
  </custom>
  <default>
    <joint type="hinge" axis="0 -1 0" armature="1" damping="12"/>
    <geom type="capsule" contype="1" conaffinity="0"/>
    <motor gear="200"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" contype="1" conaffinity="1"/>
    <body name="torso" pos="0 0 1.25">
      <joint name="rootx" type="slide" axis="1 0 0" damping="10"/>
      <joint name="rootz" type="slide" axis="0 0 1" damping="10"/>
      <joint name="rooty" axis="0 1 0" damping="10"/>
      <inertial pos="0 0 0" mass="3.66519141" diaginertia="0.0692459345 0.0692459345 0.0692459345"/>
      <geom name="torso" fromto="0 0 -0.200000003 0 0 0.200000003" size="0.0500000007"/>
      <body name="thigh" pos="0 0 -0.200000003">
        <joint name="thigh" range="-2.61799002 0"/>
        <inertial pos="0 0 -0.224999994" mass="4.05789042" diaginertia="0.0932987556 0.0932987556 0.0932987556"/>
        <geom name="thigh" fromto="0 0 -0.449999988 0 0 0" size="0.0500000007"/>
        <body name="leg" pos="0 0 -0.449999988">
          <joint name="leg" range="-2.61799002 0"/>
          <inertial pos="0 0 -0.25" mass="2.78135681" diaginertia="0.0723025426 0.0723025426 0.0723025426"/>
          <geom name="leg" fromto="0 0 -0.5 0 0 0" size="0.0399999991"/>
          <body name="foot" pos="0 0 -0.5">
            <joint name="foot" range="-0.785398006 0.785398006"/>
            <inertial pos="0.0599999987 0 0" mass="5.31557465" diaginertia="0.103523083 0.103523083 0.103523083"/>
            <geom name="foot" fromto="-0.13499999 0 0 0.254999995 0 0" size="0.0599999987"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="thigh"/>
    <motor joint="leg"/>
    <motor joint="foot"/>
  </actuator>
</mujoco>
"""


@dataclass(frozen=True)
class Substep:
    """Around the first substep, from rest."""

    tau: tuple[float, ...]
    """Generalised force: actuators, gravity; no contact and no limit acts."""
    acceleration: tuple[float, ...]
    mass_matrix: tuple[tuple[float, ...], ...]
    """Without armature."""
    q: tuple[float, ...]
    """After it."""
    v: tuple[float, ...]


@dataclass(frozen=True)
class Snapshot:
    """A state of the trajectory."""

    q: tuple[float, ...]
    v: tuple[float, ...]
    q_spread: float
    """Largest change of q here in dflex when every start coordinate is moved by a random number in ±1e-6."""
    v_spread: float


@dataclass(frozen=True)
class Gradient:
    """Of the sum of eight rewards, by dflex's own backpropagation."""

    actions: tuple[tuple[float, ...], ...]
    """By each of the eight actions (the last one enters its own reward only)."""
    q: tuple[float, ...]
    """By the state at the start."""
    v: tuple[float, ...]


FIRST_SUBSTEP = Substep(
    tau=(0.0, -155.194321, 3.12874675, -3.12874675, 81.0183487, 87.8009949),
    acceleration=(3.52382445, -11.3160124, 12.863122, -17.0417156, 62.1925163, 77.8951416),
    mass_matrix=(
        (15.8200064, 0.0, -10.3407307, 7.90976667, 3.3531251, 5.96046377e-08),
        (0.0, 15.8200073, -0.318934292, 0.318934292, 0.318934292, 0.318934292),
        (-10.3407316, -0.318934292, 10.3732052, -8.23581123, -3.87722063, -0.122659177),
        (7.90976715, 0.318934292, -8.23581219, 6.65385723, 3.20659542, 0.122659162),
        (3.35312533, 0.318934292, -3.87722087, 3.20659542, 1.69768941, 0.122659139),
        (5.96046448e-08, 0.318934292, -0.122659147, 0.122659147, 0.122659102, 0.12265911),
    ),
    q=(3.82359485e-06, -1.22786605e-05, 1.39573822e-05, -1.84914479e-05, 6.74832045e-05, 8.45216491e-05),
    v=(0.00367065077, -0.0117875133, 0.013399086, -0.0177517887, 0.0647838712, 0.081140779),
)

STATES = {
    0: Snapshot(
        q=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        v=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        q_spread=8.23e-07,
        v_spread=0.0,
    ),
    1: Snapshot(
        q=(0.000470214087, -0.00165228918, 0.00178308156, -0.00229746103, 0.00856251456, 0.0109022632),
        v=(0.0501610264, -0.185748488, 0.193593144, -0.245988607, 0.926612496, 1.19942677),
        q_spread=8.15e-07,
        v_spread=4.35e-06,
    ),
    2: Snapshot(
        q=(0.00155215675, -0.0063553066, 0.00687439786, -0.0070706401, 0.0301805381, 0.039492894),
        v=(0.0746597052, -0.366585463, 0.390129328, -0.307296693, 1.56418788, 2.14712),
        q_spread=7.96e-07,
        v_spread=7.39e-06,
    ),
    5: Snapshot(
        q=(0.00572651858, -0.0338349156, 0.0395968147, -0.00957692042, 0.10805057, 0.186213195),
        v=(0.155832559, -0.419505686, 0.919827521, 0.240491942, 0.742190242, 2.84129524),
        q_spread=7.67e-07,
        v_spread=2.05e-05,
    ),
    10: Snapshot(
        q=(0.0323791504, 0.0114616379, 0.127306819, 0.0754062086, 0.0697870329, 0.302033335),
        v=(0.383641481, 0.762948036, 1.05576611, 1.12972057, -0.47670567, 1.01556635),
        q_spread=5.66e-07,
        v_spread=1.7e-05,
    ),
    20: Snapshot(
        q=(0.0865457878, 0.0123076541, 0.186911389, 0.102739103, 0.0399159677, 0.244669899),
        v=(0.245572194, -0.679695129, -0.242551029, -0.144405395, -1.02474654, -2.73907375),
        q_spread=1.37e-06,
        v_spread=7.87e-06,
    ),
    50: Snapshot(
        q=(-0.0776802897, -0.0173281804, -0.964785695, -0.473229319, -1.20955408, -0.737984776),
        v=(0.638145149, -1.72915328, -3.81688166, -4.47733068, -3.30212474, 1.94405961),
        q_spread=2.86e-06,
        v_spread=6.31e-05,
    ),
}
"""By number of steps taken."""

REWARDS = (
    1.26162755, 1.30976343, 1.32908642, 1.31863248, 1.297436, 1.37671208, 1.44769406, 1.52385473, 1.58716738,
    1.60959315, 1.58574569, 1.56338, 1.54266417, 1.52085745, 1.49677038, 1.47085822, 1.44485927, 1.42114878,
    1.40201759, 1.38906753, 1.38284934, 1.38257098, 1.37237597, 1.36152673, 1.21891367, 0.955976367,
    0.702585757, 0.514936328, 0.456026554, 0.475067794, 0.499676645, 0.545197606, 0.596542418, 0.646713555,
    0.671889782, 0.51569742, 0.349689335, 0.287514061, 0.246022135, 0.243190333, 0.235982403, 0.207975581,
    0.15423651, 0.070383504, -0.0470957197, -0.200565845, -0.39086473, -0.61653471, -0.877253354, -1.16954172,
)  # fmt: skip
"""Of each step, from the state before it:

    v[0] + height + 1 − (q[2] / 0.524)² − 0.1 |a|²
    height = −200 d² where d < 0, else min(d, 0.3)        with d = q[1] + 0.3
"""

CONTACT_FORCE = (19.1824741, 0.000124155296, 523.525696)
"""On the foot in the last substep of the fifth step, in our axes [N]."""

GRADIENTS = {
    0: Gradient(
        actions=(
            (-0.794532061, -0.187610596, 0.595846891),
            (-0.695450962, -0.120285183, 0.519042075),
            (-0.594942987, -0.043110162, 0.423111796),
            (-0.489852607, 0.02553951, 0.305538595),
            (-0.380248189, 0.0691329315, 0.188199326),
            (-0.279926777, 0.0574750826, 0.0853899643),
            (-0.17988047, -0.00224301964, 0.00814659148),
            (-0.0644217655, -0.0991664827, -0.0427379869),
        ),
        q=(-1.23916806e-07, -15.6527538, -2.15945029, 1.15552795, -1.10408556, 2.90728545),
        v=(7.7014823, -1.43192828, -0.850646257, 0.541874528, -0.0149482042, 0.115808681),
    ),
    20: Gradient(
        actions=(
            (-0.546496153, -0.170923576, 0.790845394),
            (-0.579967856, -0.0327337533, 0.71795249),
            (-0.571905494, 0.0873324573, 0.626011848),
            (-0.515140116, 0.169413581, 0.509789109),
            (-0.423187077, 0.201512903, 0.374741614),
            (-0.308973312, 0.186457068, 0.243744761),
            (-0.181629851, 0.136829078, 0.154126361),
            (-0.0427379869, 0.0529836118, 0.0999923274),
        ),
        q=(-2.98030471e-07, 24.1394939, -5.7367897, 9.99810886, 0.049758248, 3.81532168),
        v=(7.69923306, 2.02044034, -0.937924802, 0.850129366, 0.116268545, 0.201342747),
    ),
}
"""By the step from which the eight rewards are counted."""
