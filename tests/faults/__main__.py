"""`python -m faults`: attack, print a table and all failures; exit status 1 if there are any."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, cached_property
from pathlib import Path

from faults.damages import damage_trials
from faults.kills import kill_trials
from faults.mutants import robot_trials
from faults.ranks import make_rank_references, rank_trials
from faults.references import Reference, make_references
from faults.report import failed, failures, table, write_json
from faults.runs import ALGOS, training
from faults.signals import signal_trials
from faults.trials import Outcome, Trial, run_trials

__all__ = ["main"]

OWN = ("json", "out", "jobs", "trial")
"""Options that do not change what a trial does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks that are asked for."""
    options = _options(arguments)
    out = Path(options.out or tempfile.mkdtemp(prefix="ahac-faults-")).absolute()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise SystemExit(f"faults: {out} is not empty; choose another folder with --out")
    attacks = _Attacks(options, out)
    began = time.monotonic()
    outcomes = list[Outcome]()
    for name in ATTACKS if options.only is None else options.only:
        trials = [trial for trial in ATTACKS[name](attacks) if not options.trial or trial.name in options.trial]
        for outcome in run_trials(trials, out, options.jobs):
            outcomes.append(outcome)
            _progress(name, outcome, trials, outcomes)
    _report(outcomes, out, options, time.monotonic() - began)
    return 1 if failed(outcomes) else 0


class _Attacks:
    """Creates the trials of each attack; shared inputs are created once, on first use."""

    def __init__(self, options: argparse.Namespace, out: Path) -> None:
        self.options = options
        self.folder = out / "references"
        self.fork = (options.start or ("fork" if options.device == "cpu" else "process")) == "fork"
        self.jobs = 1 if self.fork else options.jobs

    @cached_property
    def references(self) -> dict[str, Reference]:
        """Train the undisturbed reference runs."""
        self.prepared()
        return make_references(self.options.algos, self.folder, self.options.device, self.fork, self.jobs)

    @cache  # noqa: B019 - there is one
    def prepared(self) -> None:
        """Import everything and load all kernels, so that forked children have them; on CUDA, import alone."""
        if not self.fork:
            return
        from ahac.cli.main import main as command_line
        from ahac.native.build import wait_for_pending_builds
        from ahac.training import trainer  # noqa: F401 - with all that it imports

        if self.options.device == "cuda":
            return
        sys.stderr.write("loading kernels\n")
        for algo in self.options.algos:
            words = training(algo, self.folder / "prepared", algo)
            words[words.index("--iterations") + 1] = "2"
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
                status = command_line(words)
            if status != 0:
                raise SystemExit(f"faults: a run that nothing happened to ended with {status}: {said.getvalue()}")
        wait_for_pending_builds()

    def kills(self) -> list[Trial]:
        """Runs that are killed."""
        return kill_trials(self.references, self.options.kills, self.options.seed, self.fork)

    def signals(self) -> list[Trial]:
        """Runs that get a signal while they save."""
        return signal_trials(self.references, self.options.signals, self.options.seed, self.fork)

    def damage(self) -> list[Trial]:
        """Files that are damaged."""
        count, seed = self.options.damages, self.options.seed
        return damage_trials(self.references, count, seed, self.fork, self.folder, self.jobs)

    def robots(self) -> list[Trial]:
        """Mutated robots."""
        return robot_trials(self.options.robots, self.options.seed)

    def ranks(self) -> list[Trial]:
        """Several processes that train together, on the CPU."""
        self.prepared()
        references = make_rank_references(self.options.algos, self.folder, self.fork)
        return rank_trials(references, self.options.ranks, self.options.seed, self.fork)


ATTACKS = {
    "kills": _Attacks.kills, "signals": _Attacks.signals, "damage": _Attacks.damage, "robots": _Attacks.robots,
    "ranks": _Attacks.ranks,
}  # fmt: skip


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="faults", description="Kill runs, damage files, mutate robots; count failures."
    )
    parser.add_argument("--kills", type=int, default=70, metavar="N", help="runs to kill (default: %(default)s)")
    parser.add_argument(
        "--signals",
        type=int,
        default=24,
        metavar="N",
        help="signals while a checkpoint is written (default: %(default)s)",
    )
    parser.add_argument("--damages", type=int, default=400, metavar="N", help="files to damage (default: %(default)s)")
    parser.add_argument("--robots", type=int, default=600, metavar="N", help="robots to mutate (default: %(default)s)")
    parser.add_argument(
        "--ranks", type=int, default=8, metavar="N", help="trials with several processes (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all choices (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there")
    parser.add_argument(
        "--out", metavar="DIR", help="an empty folder; keeps the files of failures (default: a new one)"
    )
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="trials in parallel"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where runs train (default: cpu)")
    parser.add_argument(
        "--start",
        choices=("fork", "process"),
        help="how commands start (default: fork, which is faster; on CUDA, process)",
    )
    parser.add_argument("--algos", nargs="+", choices=ALGOS, default=ALGOS, help="algorithms (default: all)")
    parser.add_argument("--only", nargs="+", choices=tuple(ATTACKS), help="attacks (default: all)")
    parser.add_argument("--trial", nargs="+", metavar="NAME", help="only these, as a list of failures names them")
    options = parser.parse_args(arguments)
    shown = {key: value for key, value in vars(options).items() if value != parser.get_default(key)}
    words = {key: value if isinstance(value, list) else [value] for key, value in shown.items() if key not in OWN}
    options.again = " ".join(f"--{key} {' '.join(map(str, value))}" for key, value in words.items())
    return options


def _progress(name: str, outcome: Outcome, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> None:
    done = sum(x.name in {trial.name for trial in trials} for x in outcomes)
    if outcome.problems:
        sys.stderr.write(f"{outcome.name} FAILED: {outcome.what}: {outcome.problems[0]}\n")
    if done % 20 == 0 or done == len(trials):
        sys.stderr.write(f"{name}: {done} of {len(trials)}, {len(failed(outcomes))} failures so far\n")


def _report(outcomes: Sequence[Outcome], out: Path, options: argparse.Namespace, seconds: float) -> None:
    chosen = {key: value for key, value in vars(options).items() if key not in ("json", "out", "again")}
    if options.json is not None:
        write_json(options.json, outcomes, chosen)
    where = f"{seconds:.0f} s, seed {options.seed}, {options.device}, files in {out}"
    sys.stdout.write(f"{failures(outcomes, out, options.again)}\n{table(outcomes)}\n\n{where}\n")


if __name__ == "__main__":
    sys.exit(main())
