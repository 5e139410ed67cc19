"""Mutated robot files: they load or are refused with a `ModelError`; those that load can be compiled and stepped."""

from __future__ import annotations

import random
from pathlib import Path

from faults import robot_child
from faults.commands import Child, Ended, forked, spawned
from faults.mutations import mutated, robots
from faults.trials import Trial, Verdict

__all__ = ["robot_trials"]

LOAD_LIMIT, STEP_LIMIT = 60.0, 600.0
"""Seconds; the largest robot takes two to compile on an idle machine, and thirty on a loaded one."""
STEPPED_SHARE = 25
"""One in this many mutants is compiled and stepped."""
TRIES = 200
SIMPLE = ("pendulum", "free sphere", "rover", "servo arm", "URDF arm", "cartpole", "ball", "hopper", "double_pendulum")
"""Robots whose mutants are stepped: their kernels compile in seconds."""


def robot_trials(count: int, seed: int) -> list[Trial]:
    """Return the given number of trials that load mutants, and some more that step them."""
    texts, trials = robots(), list[Trial]()
    for k in range(count):
        rng = random.Random(f"{seed} robot {k}")
        name = rng.choice(sorted(texts))
        content, said = mutated(texts[name], rng)
        trials.append(
            Trial(
                f"robot-{k:04d}",
                "robots: mutated, loaded",
                f"{name}: {said}",
                lambda folder, content=content: _loaded(content, folder),
            )
        )
    for k in range(-(-count // STEPPED_SHARE)):
        name = SIMPLE[k % len(SIMPLE)]
        trials.append(
            Trial(
                f"robot-step-{k:04d}",
                "robots: mutated, compiled and stepped",
                name,
                lambda folder, k=k, text=texts[name]: _stepped(text, random.Random(f"{seed} step {k}"), folder),
            )
        )
    return trials


def _load(content: bytes, folder: Path) -> Ended:
    path = folder / "robot.xml"
    path.write_bytes(content)
    log = folder / "load.out"
    return Child(("load",), forked(lambda: robot_child.load(path), log), log).wait(LOAD_LIMIT)


def _loaded(content: bytes, folder: Path) -> Verdict:
    ended = _load(content, folder)
    if ended.status in (robot_child.LOADED, robot_child.REFUSED):
        return Verdict("loaded" if ended.status == robot_child.LOADED else "refused")
    problems = ended.faults()
    return Verdict(problems[0].partition(":")[0], tuple(problems))


def _stepped(text: str, rng: random.Random, folder: Path) -> Verdict:
    """The first mutant that loads."""
    for _ in range(TRIES):
        content, said = mutated(text, rng, gentle=True)
        if _load(content, folder).status == robot_child.LOADED:
            break
    else:
        return Verdict("none loads", (f"none of {TRIES} mutants loads",))
    kernels = {"WARP_CACHE_PATH": str(folder / "kernels")}
    words = ["-m", "faults.robot_child", str(folder / "robot.xml")]
    ended = spawned(words, folder / "step.out", kernels).wait(STEP_LIMIT)
    if ended.status in (robot_child.LOADED, robot_child.REFUSED):
        return Verdict(ended.out.strip().partition(":")[0], (), said)
    problems = ended.faults()
    return Verdict(problems[0].partition(":")[0], tuple(problems), said)
