"""`python -m gradient_comparison.worker KIND ENGINE CASE`: measure in this process; print one line of JSON.

This is what runs in the environment of the other engines. Its only other imports are numpy and the engine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from gradient_comparison.cases import CASES
from gradient_comparison.measure import accuracy, speed
from gradient_comparison.protocol import Engine

__all__ = ["ENGINES", "main", "make_engine"]

ENGINES: dict[str, tuple[str, str, tuple[object, ...], bool, str]] = {
    "ahac": ("ahac_engine", "AhacEngine", (), True, "ahac"),
    "ahac-float32": ("ahac_engine", "AhacEngine", (), False, "ahac"),
    "mjx": ("jax_engines", "MjxEngine", (False,), True, "mujoco.mjx"),
    "mjx-forward": ("jax_engines", "MjxEngine", (True,), True, "mujoco.mjx"),
    "brax-generalized": ("jax_engines", "BraxEngine", ("generalized",), True, "brax"),
    "brax-positional": ("jax_engines", "BraxEngine", ("positional",), True, "brax"),
    "brax-spring": ("jax_engines", "BraxEngine", ("spring",), True, "brax"),
    "newton-featherstone": ("newton_engine", "NewtonEngine", ("SolverFeatherstone", 8), False, "newton"),
    "newton-featherstone-solvers": ("newton_engine", "NewtonEngine", ("SolverFeatherstone", 8, True), False, "newton"),
    "newton-semi-implicit": ("newton_engine", "NewtonEngine", ("SolverSemiImplicit", 16), False, "newton"),
}
"""Module, class, arguments, whether accuracy is measured in float64, and the package that has to be installed."""
PACKAGES = ("ahac", "torch", "mujoco", "mujoco-mjx", "brax", "jax", "jaxlib", "newton", "warp-lang", "numpy")


def make_engine(name: str) -> Engine:
    """Return an engine; its packages are imported here."""
    module, kind, arguments, _, _ = ENGINES[name]
    return getattr(import_module(f"gradient_comparison.{module}"), kind)(*arguments)


def installed() -> dict[str, object]:
    """Return the versions of packages and the names of engines that can be imported here."""
    return {
        "versions": {package: found for package in PACKAGES if (found := _version(package))},
        "engines": [name for name, (*_, package) in ENGINES.items() if _exists(package)],
    }


def _exists(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a submodule
        return False


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def measured(kind: str, name: str, case: str) -> dict[str, object]:
    """Return figures, or the first line of the error that prevented them."""
    began = time.perf_counter()
    try:
        engine = make_engine(name)
        figures = accuracy(engine, CASES[case], ENGINES[name][3]) if kind == "accuracy" else speed(engine, CASES[case])
        found: dict[str, object] = {"figures": figures, "settings": engine.settings}
    except Exception as error:  # any failure of an engine is a result
        lines = str(error).strip().splitlines() or [""]
        found = {"error": f"{type(error).__name__}: {lines[0]}"[:200]}
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one measurement, on one core if it is about speed."""
    kind, *rest = sys.argv[1:] if arguments is None else arguments
    if kind == "speed":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work: Callable[[], dict[str, object]] = installed if kind == "installed" else lambda: measured(kind, *rest)
    sys.stdout.write("\n" + json.dumps(work()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
