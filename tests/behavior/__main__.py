"""`python -m behavior`: measure contact in MuJoCo and with both integrators, and print tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ahac.sim import ContactMaterial
from behavior import anticipation, bodies, joints, legged, random_actions, steps
from behavior.engines import ENGINES, MUJOCO, Engine
from behavior.scenes import G1, GO1, GO1_STIFF, GRAVITY, Legged

__all__ = ["main"]

STEPS = tuple(Engine("implicit", 1 / rate) for rate in (60, 240, 960))
"""Engines for what depends on the step size."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m behavior", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), help="tables to print")
    for name in parser.parse_args(arguments).only:
        for table in TABLES[name]():
            sys.stdout.write(table + "\n\n")
            sys.stdout.flush()
    return 0


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|---" + "|---:" * (len(head) - 1) + "|", *lines[1:]])


def _by_engine(measures: dict[str, Callable[[Engine], str]], engines: Sequence[Engine] = ENGINES) -> str:
    rows = ([label, *(measure(engine) for engine in engines)] for label, measure in measures.items())
    return _table(["", *(engine.name for engine in engines)], rows)


def _list(values: Iterable[float], spec: str) -> str:
    return " / ".join(format(x, spec) for x in values)


def _bodies() -> Iterable[str]:
    yield _by_engine(
        {
            "sphere of 0.1 / 1 / 10 / 50 kg at rest: depth [mm]": lambda e: _list(
                (d.rest for d in bodies.drops_of_spheres(e)), ".2f"
            ),
            "dropped from 0.5 m: deepest [mm]": lambda e: _list((d.deepest for d in bodies.drops_of_spheres(e)), ".1f"),
            "rebound [% of height]": lambda e: _list((d.rebound for d in bodies.drops_of_spheres(e)), ".1f"),
            "settled, 1 kg sphere / box / capsule / cylinder [s]": lambda e: _list(
                (d.settled for d in bodies.drops_of_shapes(e)), ".2f"
            ),
            "box sliding from 2 m/s, mu 0.8 / 0.4 (theory 0.255 / 0.510) [m]": lambda e: _list(
                (bodies.slide(e, mu) for mu in (0.8, 0.4)), ".3f"
            ),
            "box on a slope of 20° / 36° / 38°, mu 0.8: speed after 2 s [mm/s]": lambda e: _list(
                (1e3 * x for x in bodies.slopes(e)[:3]), ".2f"
            ),
            "40° / 45° (theory 0.588 / 2.775) [m/s]": lambda e: _list(bodies.slopes(e)[3:], ".3f"),
            "standing cylinder: drift in 3 s [mm], speed left": lambda e: _list(bodies.stand(e), ".1e"),
            "tilted box (30°, 20°): end [m], face": lambda e: "({0[0]:.2f}, {0[1]:.2f}), {1:+d}".format(
                *bodies.landing(e)
            ),
            "wheel at 1 m/s for 2 s: distance [m], speed [m/s], bounce [mm]": lambda e: "{:.3f}, {:.3f}, {:.1g}".format(
                *bodies.roll(e)
            ),
        }
    )
    rates = [Engine(kind, 1 / (60 * n)) for kind in ("explicit", "implicit") for n in (1, 4, 16, 64)]
    yield _table(
        ["energy of an undamped ball after 10 s, at first 5.886 [J]", *(e.name for e in rates)],
        [["", *(f"{bodies.elastic_energy(e):.3f}" for e in rates)]],
    )
    dampings = (0.0, 1e3, 1e4, 1e5, 1e6)
    yield _table(
        ["rebound of 1 kg by damping [%]", *(f"{x:.0e}" for x in dampings)],
        [
            [
                e.name,
                *(
                    f"{bodies.drop(e, material=ContactMaterial(stiffness=1e4, damping=x)).rebound:.0f}"
                    for x in dampings
                ),
            ]
            for e in ENGINES[2:]
        ],
    )


def _legged() -> Iterable[str]:
    stiff = replace(MUJOCO, stiff_friction=True)
    yield _by_engine(
        {
            "standing, height after 5 s [m]": lambda e: f"{legged.standing(e):.4f}",
            "... difference to the first column: height [mm], joints [rad]": lambda e: _list(
                legged.differences(e, MUJOCO, legged.stands), ".2g"
            ),
            "... to the last column": lambda e: _list(legged.differences(e, stiff, legged.stands), ".2g"),
            "squatting at 1 Hz, difference to the first column": lambda e: _list(
                legged.differences(e, MUJOCO, legged.squat), ".2g"
            ),
            "... difference to the last column": lambda e: _list(legged.differences(e, stiff, legged.squat), ".2g"),
            "open-loop trot at 2 Hz, 5 s: distance [m]": lambda e: f"{legged.distance(e, legged.trot):.2f}",
            "jump: height [m]": lambda e: f"{legged.jump_height(e):.3f}",
            "standing on a slope of 10°, drift from 2 to 10 s [m]": lambda e: f"{legged.slope_drift(e):.4f}",
        },
        [*ENGINES, stiff],
    )


def _steps() -> Iterable[str]:
    weight = GRAVITY * float(Legged(GO1).compiled().body_mass.sum())
    forces = {
        (e, name): steps.applied_forces(Legged(GO1), legged.motion(e, control, seconds))
        for e in STEPS
        for name, control, seconds in (("trot", legged.trot, 5.0), ("jump", legged.jump, 2.0))
    }
    measures: dict[str, Callable[[Engine], str]] = {}
    for name in ("trot", "jump"):
        measures |= {
            f"{name}: touching points with tension [%]": lambda e, n=name: f"{forces[e, n].tension(weight)[0]:.1f}",
            "... largest, sum over points [weight]": lambda e, n=name: f"{forces[e, n].tension(weight)[2]:.2f}",
            "... impulse [% of all pushes]": lambda e, n=name: f"{100 * forces[e, n].impulse_of_tension():.2f}",
            "... friction beyond the cone [% of loaded points]": lambda e, n=name: (
                f"{100 * (forces[e, n].cone_ratios(weight) > 1.01).mean():.1f}"
            ),
            "... tangential force / (mu normal force), 99th percentile": lambda e, n=name: (
                f"{np.quantile(forces[e, n].cone_ratios(weight), 0.99):.2f}"
            ),
        }
        yield _by_engine(measures, STEPS)
        measures = {}
    yield _by_engine(
        {
            "height at which a falling sphere feels the ground, largest and h · speed [mm]": lambda e: _list(
                anticipation.touch_down(e), ".1f"
            ),
            "... its depth at rest [mm]": lambda e: f"{bodies.drop(e).rest:.3f}",
            "Go1: height of a jump [m]": lambda e: f"{legged.jump_height(e):.3f}",
        },
        [*STEPS, Engine("implicit", 1 / 3840)],
    )


def _joints() -> Iterable[str]:
    yield _by_engine(
        {
            "saturated servo, c / I = 16 at 240 Hz: reversals in 1 s": lambda e: str(
                joints.reversals(e, joints.Servo())
            ),
            "four-bar linkage: largest gap [mm], energy lost in 2 s [J]": lambda e: _list(joints.closure_gap(e), ".2g"),
        },
        [Engine("mujoco", 1 / 240), ENGINES[0], *(e for e in ENGINES if e.kind == "implicit")],
    )


def _random() -> Iterable[str]:
    robots = {"Go1, kp 40, kv 1": GO1, "Go1, kp 3948 a, kv 251 a": GO1_STIFF, "G1, kp 3948 a, kv 251 a": G1}
    scales = (0.1, 0.3, 1.0)
    rows = []
    for name, robot in robots.items():
        for scale in scales:
            lost, speed = random_actions.diverged(robot, scale)
            norms = random_actions.sensitivity(robot, scale)
            rows.append([name, f"{scale}", str(lost), f"{speed:.0f}", f"{np.median(norms):.0f}", f"{norms.max():.0f}"])
    yield _table(["robot", "noise [rad]", "diverged of 64", "joint speed at 10 s", "∂x/∂v₀, median", "largest"], rows)


TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "bodies": _bodies, "legged": _legged, "steps": _steps, "joints": _joints, "random": _random,
}  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main())
