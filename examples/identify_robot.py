# pyright: reportAttributeAccessIssue=false
"""Identify a robot from a recording of its motion: python examples/identify_robot.py [seconds].

The "robot" is an arm in MuJoCo whose payload, damping, dry friction, encoder and delay differ from the model file. It
follows a chirp; from noisy measurements of this motion, `ahac.identify` estimates what differs, with errors. The
command line does the same: ahac identify arm.xml chirp.npz --parameters 'body_mass:fore' 'dof_damping:*' ...
"""

import sys

import mujoco
import numpy as np

import ahac
from ahac.identification import Recording
from ahac.sim import load_model

ARM = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper"> <joint name="shoulder" axis="0 1 0" damping=".3" armature=".02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/>
      <body name="fore" pos="0 0 -.3"> <joint name="elbow" axis="0 1 0" damping=".3" armature=".02"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="20" kv=".5"/> <position name="elbow" joint="elbow" kp="10" kv=".3"/>
  </actuator>
</mujoco>
"""
TRUE = {
    "body_mass:fore": 0.65,  # a small weight at its middle; 0.5 kg in the file
    "dof_damping:shoulder": 0.5,  # [N m s/rad]; 0.3 in the file
    "dof_damping:elbow": 0.2,
    "dof_frictionloss:shoulder": 0.25,  # [N m]; none in the file
    "joint_offset:elbow": 0.06,  # error of the encoder [rad]
    "actuator_delay": 0.012,  # [s]
}
STEP = 0.001  # of MuJoCo [s]
EVERY = 2  # steps between samples: 500 Hz


def targets(seconds: float) -> np.ndarray:
    """Return joint targets [T, 2] at 500 Hz: a chirp from 0.3 Hz, and a faster one for the elbow."""
    time = np.arange(0.0, seconds, STEP * EVERY)
    phase = 2.0 * np.pi * (0.3 + 0.25 * time) * time
    return 0.6 * np.stack([np.sin(phase), np.sin(1.3 * phase)], axis=1)


def measure(control: np.ndarray, seed: int = 0) -> Recording:
    """Return what the robot's sensors measure while its servos follow the targets."""
    model = mujoco.MjModel.from_xml_string(ARM)
    model.opt.timestep = STEP
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP  # explicit damping, as in the identification
    model.dof_damping[:] = TRUE["dof_damping:shoulder"], TRUE["dof_damping:elbow"]
    model.dof_frictionloss[0], model.dof_solref[0] = TRUE["dof_frictionloss:shoulder"], (2.0 * STEP, 1.0)
    model.body("fore").mass = TRUE["body_mass:fore"]
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    delay, offset = round(TRUE["actuator_delay"] / STEP), np.array([0.0, TRUE["joint_offset:elbow"]])
    q, v = [], []
    for step in range(EVERY * len(control)):
        if step % EVERY == 0:
            q.append(data.qpos + offset)
            v.append(data.qvel.copy())
        # The encoder is off, so the servo holds the joint next to its target.
        data.ctrl = control[max(0, step - delay) // EVERY] - offset
        mujoco.mj_step(model, data)
    rng = np.random.default_rng(seed)
    noisy_q = np.array(q) + 2e-4 * rng.standard_normal((len(q), 2))
    noisy_v = np.array(v) + 2e-2 * rng.standard_normal((len(v), 2))
    return Recording(STEP * EVERY * np.arange(len(control)), noisy_q, control, noisy_v)


if __name__ == "__main__":
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0
    recording = measure(targets(seconds))  # recording.save("chirp.npz") keeps it
    # Explicit steps of 1 ms: implicit ones would damp a servo of stiffness kp by 1 ms · kp more.
    result = ahac.identify(load_model(ARM), recording, list(TRUE), integrator="explicit")
    sys.stdout.write(f"{result.table()}\n\n")
    for name, true in TRUE.items():
        sys.stdout.write(f"{name:<28} true {true:>7.4f}  estimate {result.by_label[name]:>7.4f}\n")
