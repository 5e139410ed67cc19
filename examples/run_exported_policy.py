# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
"""Run an exported policy without ahac: run_exported_policy.py policy.onnx robot.xml [seconds [vx vy yaw_rate]]."""

import json
import sys
from pathlib import Path

import mujoco
import numpy as np
import onnxruntime


def observe(about: dict, data: mujoco.MjData, last_action: dict, command: dict, past: list[dict]) -> np.ndarray:
    """Return the observation [1, size]; each number is scale · quantity + offset. Measurements go to `past`."""

    def angle(name: str, foot: int) -> float:
        return 2.0 * np.pi * (np.mean((c := about["components"][name])["frequency"]) * data.time + c["offsets"][foot])

    read = {
        "joint_pos": lambda joint, _: data.joint(joint).qpos[0],
        "joint_vel": lambda joint, _: data.joint(joint).qvel[0],
        "base_ang_vel": lambda body, axis: data.body(body).cvel[:3] @ data.body(body).xmat["xyz".find(axis) :: 3],
        "projected_gravity": lambda body, axis: -data.body(body).xmat[6 + "xyz".find(axis)],
        "last_action": lambda actuator, _: last_action[actuator],
        "command": lambda _, part: command[part],
        "sin_phase": lambda clock, foot: np.sin(angle(clock, foot)),
        "cos_phase": lambda clock, foot: np.cos(angle(clock, foot)),
    }
    numbers = [number for term in about["observation"] for number in term["numbers"]]
    if unknown := [n["label"] for n in numbers if n["quantity"] not in read]:
        sys.exit(f"this example cannot measure: {', '.join(unknown)}")
    past.insert(0, {(q := n["quantity"], n["of"], n["part"]): read[q](n["of"], n["part"]) for n in numbers})
    ages = [min(n["steps_ago"] - (n["quantity"] == "last_action"), len(past) - 1) for n in numbers]
    del past[max(ages) + 1 :]
    values = [past[k][n["quantity"], n["of"], n["part"]] for k, n in zip(ages, numbers, strict=True)]
    return np.array([[n["scale"] * x + n["offset"] for n, x in zip(numbers, values, strict=True)]], np.float32)


def load(robot: str) -> mujoco.MjModel:
    """Load a robot with a floating base; add a ground plane if its file has none."""
    spec = mujoco.MjSpec.from_file(robot)
    plane, every_bit = mujoco.mjtGeom.mjGEOM_PLANE, 2**31 - 1
    if not any(geom.type == plane for geom in spec.geoms):
        # Explicit attributes: the file's defaults may switch contact off.
        spec.worldbody.add_geom(type=plane, size=[0, 0, 1], contype=every_bit, conaffinity=every_bit, condim=3)
    model = spec.compile()
    if model.njnt == 0 or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        sys.exit(f"{robot}: the first joint must be the base's free joint; add <freejoint/> to it, or move it first")
    return model


def main(policy: str, robot: str, seconds: str = "5", *velocity: str) -> None:
    """Run the policy from the stance; servos follow its controls, joint position targets."""
    about, model = json.loads(Path(policy).with_suffix(".json").read_text()), load(robot)
    session, data, servos = onnxruntime.InferenceSession(policy), mujoco.MjData(model), about["actuators"]
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION  # servos take the place of the file's actuators
    model.opt.timestep = about["control_step"] / (steps := round(about["control_step"] / 0.001))
    data.qpos[:7] = about["root"]["position"] + about["root"]["quaternion"]
    for joint in about["joints"]:
        data.joint(joint["name"]).qpos, model.joint(joint["name"]).armature = joint["stance"], joint["armature"]
    command = dict(zip(("lin_vel_x", "lin_vel_y", "ang_vel_z"), map(float, velocity or "000"), strict=True))
    actions, past = {servo["name"]: 0.0 for servo in servos}, []
    for step in range(round(float(seconds) * about["control_rate"]) * steps):
        if step % steps == 0:
            mujoco.mj_forward(model, data)
            (action,), (control,) = session.run(None, {"obs": observe(about, data, actions, command, past)})
            actions = dict(zip(actions, action, strict=True))
        for servo, target in zip(servos, control, strict=True):
            joint, (low, high) = data.joint(servo["joint"]), servo["force_range"] or (-np.inf, np.inf)
            joint.qfrc_applied = np.clip(servo["kp"] * (target - joint.qpos) - servo["kd"] * joint.qvel, low, high)
        mujoco.mj_step(model, data)
    sys.stdout.write(f"after {data.time:.2f} s, qpos is {np.round(data.qpos, 3).tolist()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
