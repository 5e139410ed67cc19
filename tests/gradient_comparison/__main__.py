"""`python -m gradient_comparison`: measure what has not been measured, and write the tables into the page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradient_comparison.cases import CASES
from gradient_comparison.report import fill, tables
from gradient_comparison.worker import ENGINES

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gradient-comparison.md"
RESULTS = ROOT / "docs" / "results" / "gradient-comparison.json"
TIMED = ("double_pendulum", "sphere", "hopper")
"""Cases of the table of times."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, save after every measurement, and write the page."""
    options = _options(arguments)
    found: dict[str, Any] = {}
    if options.results.exists():
        found = json.loads(options.results.read_text(encoding="utf-8"))
    if not options.table:
        available = [
            _measure(found, python, options) for python in dict.fromkeys((sys.executable, _absolute(options.python)))
        ]
        found["not_installed"] = [name for name in ENGINES if not any(name in names for names in available)]
        _save(found, options.results)
    options.page.write_text(fill(options.page.read_text(encoding="utf-8"), tables(found)), encoding="utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gradient_comparison", description=__doc__)
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PATH",
        help="interpreter of an environment with other engines (default: this one)",
    )
    parser.add_argument("--only", nargs="+", choices=tuple(ENGINES), default=list(ENGINES), help="engines")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="models")
    parser.add_argument("--kinds", nargs="+", choices=("accuracy", "speed"), default=["accuracy", "speed"])
    parser.add_argument("--again", action="store_true", help="measure what is in the results again")
    parser.add_argument("--table", action="store_true", help="measure nothing, only write the page")
    parser.add_argument(
        "--limit",
        type=float,
        default=1800.0,
        metavar="S",
        help="time limit of a measurement [s] (default: %(default)s)",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="JSON", help="(default: %(default)s)")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="MD", help="(default: %(default)s)")
    return parser.parse_args(arguments)


def _measure(found: dict[str, Any], python: str, options: argparse.Namespace) -> list[str]:
    """Add to `found` what the engines of one environment still lack; return the names of these engines."""
    here = _worker(python, ["installed"], options.limit)
    if "error" in here:
        sys.stderr.write(f"{python}: {here['error']}\n")
        return []
    results = found.setdefault("results", {})
    for kind, engine, case in _wanted(options, python == sys.executable, here["engines"]):
        key = f"{kind}/{engine}/{case}"
        if key in results and not options.again:
            continue
        versions = {name: here["versions"][name] for name in PACKAGES_OF[engine] if name in here["versions"]}
        about = {"date": datetime.now(UTC).date().isoformat(), "machine": _machine(), "versions": versions}
        results[key] = _worker(python, [kind, engine, case], options.limit) | about
        sys.stderr.write(f"{key}: {results[key].get('error', 'measured')}, {results[key].get('seconds', 0.0)} s\n")
        _save(found, options.results)
    return here["engines"]


def _absolute(python: str) -> str:
    """Return the path of an interpreter from any folder; links stay, since they tell which environment it is."""
    return os.path.abspath(os.path.expanduser(shutil.which(python) or python))


def _save(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


PACKAGES_OF = {
    name: {
        "ahac_engine": ("ahac", "torch", "warp-lang", "mujoco", "numpy"),
        "jax_engines": ("mujoco-mjx" if name.startswith("mjx") else "brax", "jax", "jaxlib", "mujoco", "numpy"),
        "newton_engine": ("newton", "warp-lang", "numpy"),
    }[module]
    for name, (module, *_) in ENGINES.items()
}
"""Packages whose versions are recorded with an engine's figures."""


def _wanted(options: argparse.Namespace, own: bool, engines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield measurements; ahac runs in the environment of this process, the others where they are installed."""
    for kind in options.kinds:
        for engine in options.only:
            ours = engine.startswith("ahac")
            if engine not in engines or (ours and not own) or (engine == "ahac-float32" and kind == "speed"):
                continue
            for case in options.cases:
                if kind == "accuracy" or case in TIMED:
                    yield kind, engine, case


def _worker(python: str, arguments: Sequence[str], limit: float) -> dict[str, Any]:
    """Run a worker and return its last line; a speed is measured with empty kernel caches."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = (
            os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])}
        )
        if arguments[0] == "speed":
            environment["WARP_CACHE_PATH"] = scratch
        command = [python, "-m", "gradient_comparison.worker", *arguments]
        try:
            ended = subprocess.run(command, env=environment, cwd=scratch, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"error": f"time limit of {limit:.0f} s"}
        except OSError as error:
            return {"error": f"cannot run {python}: {error}"}
    lines = ended.stdout.strip().splitlines()
    if ended.returncode != 0 or not lines:
        last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        return {"error": f"process ended with status {ended.returncode}: {last}"[:200]}
    return json.loads(lines[-1])


def _machine() -> str:
    """Return processor and number of cores."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
