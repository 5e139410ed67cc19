"""`python -m robots`: install the packages, examine every model file, print tables."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.commands import Child, forked
from robots import probe
from robots.packages import PACKAGES, Robot, find_robots, install, version
from robots.report import read_csv, tables, write_csv

__all__ = ["main"]

CACHE = Path("~/.cache/ahac/robots")
POLL = 0.05

Found = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the census; return 1 if a model crashed the process that examined it."""
    options = _options(arguments)
    if options.table is not None:
        sys.stdout.write(tables(read_csv(options.table)) + "\n")
        return 0
    cache, out = options.cache.expanduser().absolute(), options.out.expanduser().absolute()
    out.mkdir(parents=True, exist_ok=True)
    journal = out / "files.jsonl"
    if options.again:
        journal.unlink(missing_ok=True)
    done = {found["key"]: found for found in _read(journal)}
    waiting: list[tuple[Robot, Found]] = []
    for package in options.only or PACKAGES:
        folder = install(package, cache)
        robots = list(find_robots(package, folder))
        about = {"package": package, "version": version(folder)}
        sys.stderr.write(f"{package} {about['version']}: {len(robots)} files\n")
        waiting += [
            (robot, {**about, "key": robot.key, "file": robot.file, "kind": kind})
            for robot, kind in robots
            if robot.key not in done and (options.file is None or options.file in robot.key)
        ]
    with journal.open("a", encoding="utf-8") as file:
        for count, found in enumerate(_examine(waiting, cache, options), 1):
            done[found["key"]] = found
            file.write(json.dumps(found) + "\n")
            file.flush()
            sys.stderr.write(f"{count} of {len(waiting)}: {found['key']}: {_summary(found)}\n")
    write_csv(out / "robots.csv", done.values())
    (out / "robots.json").write_text(json.dumps(list(done.values()), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{tables(read_csv(out / 'robots.csv'))}\n\nfiles in {out}\n")
    return 1 if any("crash" in found.get("problem", "") for found in done.values()) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="robots", description="Load and simulate the robots of public packages.")
    parser.add_argument("--only", nargs="+", choices=tuple(PACKAGES), metavar="PACKAGE", help="packages (default: all)")
    parser.add_argument("--file", metavar="TEXT", help="only files whose name contains this")
    parser.add_argument(
        "--integrator", choices=("implicit", "explicit"), default="implicit", help="(default: implicit)"
    )
    parser.add_argument("--load-only", action="store_true", help="load and compare with MuJoCo, but do not simulate")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="files in parallel")
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="S", help="time limit of a file [s] (default: %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, metavar="DIR", help="where packages are installed (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/robots"),
        metavar="DIR",
        help="results; files that are in there are not examined again (default: %(default)s)",
    )
    parser.add_argument("--again", action="store_true", help="examine all files again")
    parser.add_argument("--table", type=Path, metavar="CSV", help="only print the tables of an earlier robots.csv")
    return parser.parse_args(arguments)


def _read(journal: Path) -> list[Found]:
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]


@dataclass
class _Examined:
    """A file and the process that examines it."""

    about: Found
    child: Child

    def late(self, limit: float) -> bool:
        """Return whether the process has used up its time."""
        return time.monotonic() - self.child.since > limit

    def found(self, limit: float) -> Found:
        """Return all findings; of a process that did not end well, those before that."""
        ended = self.child.wait(0.0)
        found = dict(self.about)
        for line in ended.out.splitlines():
            found |= json.loads(line)
        found["seconds"] = round(ended.seconds, 1)
        if ended.status is None:
            found["problem"] = f"time limit of {limit:.0f} s"
        elif ended.status < 0:
            found["problem"] = f"crash: signal {-ended.status}"
        elif ended.status > 0:
            found["problem"] = f"crash: {ended.tail()}"
        return found


def _examine(waiting: Sequence[tuple[Robot, Found]], cache: Path, options: argparse.Namespace) -> Iterator[Found]:
    """Yield the findings of each file as its process ends; forked, so that nothing is imported again."""
    queue, running = list(reversed(waiting)), list[_Examined]()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            while queue or running:
                while queue and len(running) < options.jobs:
                    robot, about = queue.pop()
                    log = Path(scratch) / f"{len(queue)}.out"
                    pid = forked(lambda path=robot.path: _in_child(path, cache, options), log)
                    running.append(_Examined(about, Child(("probe",), pid, log)))
                for examined in list(running):
                    if examined.child.poll(0.0) is not None or examined.late(options.limit):
                        running.remove(examined)
                        yield examined.found(options.limit)
                time.sleep(POLL)
        finally:
            for examined in running:
                examined.child.kill()


def _in_child(path: Path, cache: Path, options: argparse.Namespace) -> int:
    os.chdir(cache)  # MuJoCo writes its log there
    logging.getLogger("ahac").setLevel(logging.ERROR)
    return probe.main(path, cache, options.integrator == "implicit", simulate=not options.load_only)


def _summary(found: Mapping[str, Any]) -> str:
    if "problem" in found:
        return found["problem"]
    if not found.get("articulated"):
        return "nothing moves" if found.get("mujoco") != "no" else f"MuJoCo: {found['mujoco_error']}"
    if not found.get("loaded"):
        return f"refused: {', '.join(found.get('features', ()))}"
    error, gradient = found["acceleration_error"], found.get("gradient")
    if gradient is None:
        return f"error {error:.1e}"
    stable = found["free_stable"] and found["contact_stable"]
    return f"error {error:.1e}, {'stable' if stable else 'UNSTABLE'}, gradient {gradient:.2g}"


if __name__ == "__main__":
    sys.exit(main())
