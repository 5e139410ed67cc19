"""Tendons in implicit steps: a stiff servo is stable, a range stops, dry friction holds."""

import numpy as np

from ahac.sim.physics.paths import tendon_path
from support.integrators import laws_of
from support.numeric_physics import Numeric
from support.robots import mjcf

H = 1.0 / 240.0
REST = np.zeros(1)
FINGER = """
<site name="wall" pos="-0.2 0 1.1"/>
<body pos="0 0 1"><joint axis="0 1 0"/>
  <geom name="drum" type="cylinder" size="0.03 0.05" euler="1.5708 0 0" mass="0.01"/>
  <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.01" mass="0.04"/><site name="tip" pos="0.2 0 0.01"/></body>
"""


def finger(attributes: str = "", actuator: str = "") -> Numeric:
    """A finger of 50 g that falls, with a tendon over its knuckle."""
    path = f'<spatial name="t" {attributes}><site site="wall"/><geom geom="drum"/><site site="tip"/></spatial>'
    rest = f"<tendon>{path}</tendon><actuator>{actuator}</actuator>"
    return Numeric(mjcf(FINGER, rest=rest), laws_of("implicit"))


def lengths_of(numeric: Numeric, seconds: float, **groups: np.ndarray) -> np.ndarray:
    """Length of the tendon after every substep."""
    q, _ = numeric.path(REST, REST, H, round(seconds / H), **groups)
    model = numeric.model
    return numeric.look(
        lambda world: [tendon_path(model, world.motion, model.tendons[0], world.q).length], q=q, v=np.zeros_like(q)
    )[:, 0]


def test_a_stiff_servo_along_a_tendon_is_stable_and_reaches_its_target() -> None:
    servo = finger(actuator='<position tendon="t" kp="200000" kv="2000"/>')
    target = lengths_of(servo, 0.0)[0] + 0.01
    lengths = lengths_of(servo, 0.5, u=np.array([target]))
    assert np.abs(lengths[-60:] - target).max() < 1e-4


def test_a_range_stops_a_tendon() -> None:
    free = lengths_of(finger(), 0.5)
    longest = free[0] + 0.01
    lengths = lengths_of(finger(f'limited="true" range="0 {longest}"'), 0.5)
    assert free.max() > longest + 5e-3
    assert longest < lengths.max() < longest + 2e-3
    assert abs(lengths[-1] - longest) < 1e-3


def test_dry_friction_holds_a_tendon() -> None:
    lengths = lengths_of(finger('frictionloss="30"'), 0.5)
    assert 0.0 < lengths[-1] - lengths[0] < 5e-4
    assert lengths_of(finger('frictionloss="0.5"'), 0.5).max() - lengths[0] > 5e-3
