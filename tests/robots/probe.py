# pyright: reportAttributeAccessIssue=false
"""Examine one model file, in a separate process, because a model may crash MuJoCo or take too long."""

from __future__ import annotations

import json
import math
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from ahac.sim import Model, ModelError, load_model
from ahac.sim.compiler.program import adjoint, evaluate, trace
from ahac.sim.constants import with_constants
from ahac.sim.physics import dynamics
from ahac.sim.physics.contact import compliant, penalty
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.substep import ForceLaws, total_forces
from ahac.sim.physics.world import World
from ahac.sim.programs import Programs
from ahac.sim.stability import check_stability
from robots.packages import add_stand_ins
from robots.straight_line import Evaluator

__all__ = ["main"]

H = 1.0 / 240.0
"""Substep [s]."""
SUBSTEPS = 4
STEPS = 60
"""Control steps of a rollout: one second."""
STATES = 8
"""Random states at which accelerations are compared."""
PUSH = 0.01
"""Standard deviation of the initial velocities [rad/s or m/s]."""
FASTEST = 1e3
"""Speed [rad/s or m/s] above which a rollout counts as unstable."""
IGNORE = re.compile(r"ignore=\[([^\]]*)\]")
REASONS = {
    "mocap body": "mocap body",
    "user-defined actuator": "has the gain, bias and dynamics",
    "actuator on a body": "acts on a target of kind 'body'",
    "mesh or included file not found": "Error opening file",
    "invalid inertia": "inertia",
}
"""Words in the messages of refusals that cannot be ignored."""
PACKAGE = re.compile(r"package://")
CONSTRAINT = int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)

Found = dict[str, Any]
State = dict[str, list[float]]


def _examine(path: Path, cache: Path, implicit: bool, simulate: bool) -> Iterator[Found]:
    """Yield findings stage by stage; a later one costs more, and depends on the earlier ones."""
    if path.suffix.lower() != ".urdf":
        add_stand_ins(path, cache)
    raw, found = _compile(path)
    yield found
    if raw is None or raw.nv == 0:
        return
    model, found = _load(path)
    yield found
    if model is None:
        return
    yield {"nv": model.nv, "nu": model.nu, "points": len(model.contact_candidates), "notes": list(model.notes)}
    yield {"acceleration_error": _acceleration_error(raw, _unconstrained(path, model))}
    if not simulate:
        return
    laws = ForceLaws(compliant if implicit else penalty, implicit=implicit)
    linear = check_stability(replace(model, contact_candidates=()), H, "implicit" if implicit else "explicit")
    yield {"linear_stable": linear.stable, "unstable": linear.cause or ""}
    yield Rollout(model, replace(laws, contact_enabled=False), *_start(raw, model)).forward("free")
    if not model.planes and any(raw.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        model = load_model(path, ground=True)
    yield {"points": len(model.contact_candidates)}
    rollout = Rollout(model, laws, *_start(raw, model))
    yield rollout.forward("contact")
    yield rollout.backward()


def _compile(path: Path) -> tuple[mujoco.MjModel | None, Found]:
    """Compile a file with MuJoCo; for a URDF, with the meshes of package:// addresses found in parent folders."""
    try:
        raw = mujoco.MjSpec.from_file(str(path)).compile()
    except (ValueError, mujoco.FatalError) as error:
        message = str(error).partition("\n")[0]
        try:
            raw = _with_packages(path)
        except (ValueError, mujoco.FatalError, OSError):
            return None, {"mujoco": "no", "mujoco_error": message}
        if raw is None:
            return None, {"mujoco": "no", "mujoco_error": message}
        return raw, {"mujoco": "meshes found", "articulated": raw.nv > 0}
    return raw, {"mujoco": "yes", "articulated": raw.nv > 0}


def _with_packages(path: Path) -> mujoco.MjModel | None:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix.lower() != ".urdf" or not PACKAGE.search(text):
        return None
    assets: dict[str, bytes] = {}
    for address in set(re.findall(r'filename="package://([^"]+)"', text)):
        for parent in path.parents:
            below = [parent / address, parent / address.partition("/")[2]]
            if existing := [candidate for candidate in below if candidate.is_file()]:
                assets[Path(address).name] = existing[0].read_bytes()
                break
    return mujoco.MjSpec.from_string(text, assets=assets).compile()


def _load(path: Path) -> tuple[Model | None, Found]:
    """Load a file; if it is refused, collect every feature that refuses it, one after the other."""
    began = time.monotonic()
    refusals: list[str] = []
    features: list[str] = []
    ignorable = False
    while True:
        try:
            model = load_model(path, ignore=features)
        except ModelError as error:
            refusals.append(str(error).replace("\n", " "))
            named = [name.strip("'\" ") for found in IGNORE.findall(str(error)) for name in found.split(",")]
            if new := [name for name in named if name and name not in features]:
                features += new
                continue
            features += _reasons(str(error)) or ["other"]
            break
        if not refusals:
            return model, {"loaded": True, "load_seconds": round(time.monotonic() - began, 2)}
        ignorable = True
        break
    return None, {"loaded": False, "features": features, "refusals": refusals, "ignorable": ignorable}


def _reasons(message: str) -> list[str]:
    """Return short names of refusals that cannot be ignored."""
    return [name for name, words in REASONS.items() if words in message]


def _unconstrained(path: Path, model: Model) -> Model:
    """Return the model without constraints: no contact, limits, dry friction or equality constraints."""
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        spec.option.disableflags |= CONSTRAINT
        return load_model(spec)
    except (ValueError, mujoco.FatalError):  # a URDF whose meshes only load_model finds
        return replace(model, frictionloss=(0.0,) * model.nv, equalities=())


def _acceleration_error(raw: mujoco.MjModel, model: Model) -> float:
    """Return the largest difference from MuJoCo's qacc without constraints, relative to the largest acceleration."""
    tendons = tuple(replace(tendon, frictionloss=0.0) for tendon in model.tendons)
    smooth = replace(model, frictionloss=(0.0,) * model.nv, tendons=tendons, equalities=())
    model = with_constants(smooth, implicit=False)
    laws = ForceLaws(contact_enabled=False)

    def acceleration(q: list[Any], v: list[Any], u: list[Any], act: list[Any]) -> dict[str, list[Any]]:
        world = World(model, normalize(model, q), v, u, act=act)
        forces = total_forces(world, [0.0] * model.nv, laws, float(raw.opt.timestep))
        return {"qacc": dynamics.acceleration(model, world.motion, forces)}

    program = trace(acceleration, {"q": model.nq, "v": model.nv, "u": model.nu, "act": model.na})
    rng = np.random.default_rng(0)
    data = mujoco.MjData(raw)
    raw.opt.disableflags |= CONSTRAINT
    groups: dict[str, list[np.ndarray]] = {"q": [], "v": [], "u": [], "act": []}
    expected = []
    for _ in range(STATES):
        mujoco.mj_resetData(raw, data)
        mujoco.mj_integratePos(raw, data.qpos, rng.normal(scale=0.3, size=raw.nv), 1.0)
        data.qvel[:] = rng.normal(size=raw.nv)
        low, high = np.where(raw.actuator_ctrllimited[:, None], raw.actuator_ctrlrange, (-1.0, 1.0)).T
        data.ctrl[:] = rng.uniform(low, high)
        data.act[:] = rng.uniform(size=raw.na)
        for name, values in zip(groups, (data.qpos, data.qvel, data.ctrl, data.act), strict=True):
            groups[name].append(np.array(values))
        mujoco.mj_forward(raw, data)
        expected.append(np.array(data.qacc))
    raw.opt.disableflags &= ~CONSTRAINT
    found = evaluate(program, {name: np.array(rows) for name, rows in groups.items()})["qacc"]
    scale = np.maximum(np.abs(expected).max(axis=-1, keepdims=True), 1.0)
    error = float((np.abs(found - expected) / scale).max())
    return error if math.isfinite(error) else math.inf


def _start(raw: mujoco.MjModel, model: Model) -> tuple[State, list[float]]:
    """Return state and controls of the first keyframe, or of the reference pose.

    Small random velocities are added: a robot in an unstable equilibrium would not move.
    """
    push = np.random.default_rng(1).normal(scale=PUSH, size=model.nv)
    state, u = {"q": list(model.rest_q), "v": push.tolist(), "act": [0.0] * model.na}, [0.0] * model.nu
    if raw.nkey:
        state = {"q": raw.key_qpos[0].tolist(), "v": (raw.key_qvel[0] + push).tolist(), "act": raw.key_act[0].tolist()}
        u = raw.key_ctrl[0].tolist()
    return {name: numbers for name, numbers in state.items() if name != "act" or model.na}, u


class Rollout:
    """A simulation of one world from a given state, and its gradient."""

    def __init__(self, model: Model, laws: ForceLaws, start: State, u: list[float]) -> None:
        model = with_constants(model, laws.implicit)
        self.program = Programs(model, laws, {}).step().substep
        self.fixed = {"u": u, "f": [0.0] * model.nv, "h": [H]}
        self.advance = Evaluator(self.program)
        self.normalize = Evaluator(trace(lambda q: {"q": normalize(model, q)}, {"q": model.nq}))
        self.states = [start]
        self.stable = False

    def forward(self, name: str) -> Found:
        """Simulate one second."""
        fastest, began = 0.0, time.monotonic()
        try:
            for _ in range(STEPS):
                self.states[-1] = {**self.states[-1], **self.normalize(self.states[-1])}
                for _ in range(SUBSTEPS):
                    self.states.append(self.advance({**self.states[-1], **self.fixed}))
                    fastest = max(fastest, max(map(abs, self.states[-1]["v"]), default=0.0))
            self.stable = fastest < FASTEST
        except FloatingPointError:
            fastest = math.inf
        lost = len(self.states) * H
        return {
            f"{name}_stable": self.stable,
            f"{name}_fastest": fastest,
            f"{name}_end": round(lost, 3),
            f"{name}_operations": self.advance.operations,
            f"{name}_seconds": round(time.monotonic() - began, 2),
        }

    def backward(self) -> Found:
        """Return the norm of the gradient of a random linear function of the last state with respect to the first."""
        if not self.stable:
            return {"gradient": math.inf}
        rng, began = np.random.default_rng(0), time.monotonic()
        back = Evaluator(adjoint(self.program, list(self.states[0])))
        bars = {f"{name}_bar": rng.normal(size=len(numbers)).tolist() for name, numbers in self.states[0].items()}
        try:
            for state in reversed(self.states[:-1]):
                bars = back({**state, **self.fixed, **bars})
            norm = math.hypot(*(x for bar in bars.values() for x in bar))
        except (FloatingPointError, OverflowError):
            norm = math.inf
        seconds = round(time.monotonic() - began, 2)
        return {"gradient": norm, "backward_operations": back.operations, "backward_seconds": seconds}


def main(path: Path, cache: Path, implicit: bool, simulate: bool = True) -> int:
    """Write findings to standard output as lines of JSON, stage by stage."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for found in _examine(path, cache, implicit, simulate):
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    return 0
