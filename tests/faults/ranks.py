"""Data-parallel training in which some ranks are killed: the others end, and the run can be resumed."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faults.commands import Child, Ended, Starter, spawned
from faults.kills import listed, refused
from faults.moments import SIBLINGS, Hook, Moment, read_record
from faults.runs import ITERATIONS, damaged_files, differences, names, numbers_of, training
from faults.trials import Trial, Verdict
from support.small_runs import table

__all__ = ["RANKED", "RankReference", "make_rank_references", "rank_trials"]

RANKED = ("shac", "ahac")
"""Algorithms that divide their worlds among processes; with a fixed and with a moving horizon."""
SIZE = 2
BOUND = 60.0
"""Seconds within which a rank notices that another one is gone: a closed connection is noticed at once."""
NEAR = 1e-2
"""Of the range of a column: how far a table may be from that of another number of ranks. Means over other groups of
worlds round differently, and contact and five to twelve updates amplify it; 3e-5 at most on our machine."""
LOST = "lost contact with the other ranks"
LAST, ROW = ("rename", "last.safetensors"), "metrics.csv"


@dataclass(frozen=True)
class RankReference:
    """An undisturbed run of two ranks."""

    algo: str
    whole: Path
    operations: tuple[tuple[str, str], ...]
    """Of the first rank, which alone writes."""
    seconds: float


@dataclass(frozen=True)
class Plan:
    """Which ranks are killed and when, and how many ranks resume."""

    what: str
    moment: Moment | float
    """Of the first rank's file operations, or in seconds; both are killed at a time."""
    resumed_by: int = SIZE
    torchrun: bool = False


def make_rank_references(algos: Iterable[str], folder: Path, fork: bool) -> list[RankReference]:
    """One per algorithm of these that several ranks can train."""
    found = []
    for algo in [algo for algo in RANKED if algo in set(algos)]:
        record = folder / f"{algo}-ranks.operations"
        starter = Starter(folder / "logs" / f"{algo}-ranks", fork)
        out, since = folder / "ranks", time.monotonic()
        hook = Hook(str(out), record=str(record))
        ended = _together(starter, training(algo, out, algo), SIZE, hook)
        if any(each.status != 0 for each in ended):
            raise RuntimeError(f"two ranks that nothing happened to ended with {[x.status for x in ended]}: {ended}")
        found.append(RankReference(algo, out / algo, tuple(read_record(record)), time.monotonic() - since))
    return found


def rank_trials(references: Sequence[RankReference], count: int, seed: int, fork: bool) -> list[Trial]:
    """Return the given number of trials, cycling through the cases."""
    trials = []
    for k in range(count if references else 0):
        rng = random.Random(f"{seed} ranks {k}")
        reference = references[(k + k // len(PLANS)) % len(references)]
        plan = PLANS[k % len(PLANS)](reference, rng)
        shown = f"{plan.moment:.3f} s after the start" if isinstance(plan.moment, float) else str(plan.moment)
        what = f"{reference.algo}: {plan.what} {shown}; resumed by {plan.resumed_by}"
        attack = "ranks: both of two killed" if "both" in plan.what else "ranks: one of two killed"
        trials.append(
            Trial(
                f"ranks-{k:04d}",
                attack,
                what,
                lambda folder, plan=plan, reference=reference: _attacked(plan, reference, folder, fork),
            )
        )
    return trials


def _at_row(reference: RankReference, rng: random.Random) -> Moment:
    """When a row of the table is written, in a random iteration but the first and the last."""
    rows = [k for k, (event, kind) in enumerate(reference.operations) if kind == ROW and event in ("open", "rename")]
    place = rng.choice(rows[len(rows) // 4 : -2])
    event = reference.operations[place]
    return Moment(*event, reference.operations[: place + 1].count(event))


def _at_checkpoint(reference: RankReference, rng: random.Random, how: str) -> Moment:
    return Moment(*LAST, rng.randint(1, reference.operations.count(LAST) - 1), how, rng.random())


def _second(reference: RankReference, rng: random.Random) -> Plan:
    return Plan("the second rank is killed", replace(_at_row(reference, rng), victims=(SIBLINGS,)))


def _first(reference: RankReference, rng: random.Random) -> Plan:
    return Plan("the first rank is killed", _at_checkpoint(reference, rng, "half"))


def _both(reference: RankReference, rng: random.Random) -> Plan:
    moment = replace(_at_checkpoint(reference, rng, rng.choice(("before", "half", "after"))), victims=(SIBLINGS, 0))
    return Plan("both are killed", moment)


def _one_goes_on(reference: RankReference, rng: random.Random) -> Plan:
    return replace(_both(reference, rng), resumed_by=1)


def _three_go_on(reference: RankReference, rng: random.Random) -> Plan:
    return replace(_second(reference, rng), resumed_by=3)


def _first_at_row(reference: RankReference, rng: random.Random) -> Plan:
    return Plan("the first rank is killed", _at_row(reference, rng))


def _at_any_time(reference: RankReference, rng: random.Random) -> Plan:
    return Plan("both are killed", rng.uniform(0.05, 0.8) * reference.seconds)


def _torchrun(reference: RankReference, rng: random.Random) -> Plan:
    return replace(_second(reference, rng), what="under torchrun, the second rank is killed", torchrun=True)


PLANS: tuple[Callable[[RankReference, random.Random], Plan], ...] = (
    _second, _first, _one_goes_on, _three_go_on, _both, _torchrun, _first_at_row, _at_any_time,
)  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- trials


def _start(starter: Starter, command: list[str], size: int, hook: Hook | None = None) -> list[Child]:
    """Ranks as torchrun would start them, the first of them last; the hook is the first one's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in reversed(range(size)):
        known = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
        environment = {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in known.items()}}
        children.append(starter.start(command, hook if rank == 0 else None, environment if size > 1 else None))
    return children[::-1]


def _together(starter: Starter, command: list[str], size: int, hook: Hook | None = None) -> list[Ended]:
    return [child.wait() for child in _start(starter, command, size, hook)]


def _attacked(plan: Plan, reference: RankReference, folder: Path, fork: bool) -> Verdict:
    starter, out = Starter(folder / "logs", fork), folder / "runs"
    run, command = out / "run", training(reference.algo, out, "run")
    problems, seconds = _killed(plan, starter, command, out)
    problems += damaged_files(run) + listed(starter, out, run)
    if problems:
        return Verdict(problems[0].partition(":")[0], tuple(problems))
    started, before = (run / "config.json").is_file(), _completed(run)
    ended = _together(starter, ["resume", str(run)] if started else command, plan.resumed_by)
    problems += [problem for each in ended for problem in refused(each)]
    if not problems and (plan.resumed_by == SIZE or not started):
        problems += differences(Path(ended[0].out.strip().splitlines()[-1]), reference.whole)
    elif not problems:
        problems += _unlike(run, reference.whole, before)
    passed = "resumed by 2, identical" if plan.resumed_by == SIZE else f"resumed by {plan.resumed_by}, complete"
    details = [] if seconds is None else [f"the other one ended {seconds:.1f} s later"]
    if plan.resumed_by != SIZE and not problems:
        details.append(f"the table differs by up to {_distance(run, reference.whole):.1e} of its columns' range")
    return Verdict(problems[0].partition(":")[0] if problems else passed, tuple(problems), ", ".join(details))


def _killed(plan: Plan, starter: Starter, command: list[str], out: Path) -> tuple[list[str], float | None]:
    """What is wrong with how the ranks ended, and the seconds that a survivor took to notice."""
    hook = Hook(str(out), plan.moment) if isinstance(plan.moment, Moment) else None
    if plan.torchrun:
        assert hook is not None
        return _under_torchrun(starter, command, hook)
    ranks = _start(starter, command, SIZE, hook)
    if isinstance(plan.moment, float):
        time.sleep(plan.moment)
        for child in ranks:
            if child.poll(0.0) is None:
                child.kill()
        return [problem for x in ranks if not (end := x.wait()).killed for problem in refused(end)], None
    while all(child.poll(0.0) is None for child in ranks):
        time.sleep(0.01)
    since = time.monotonic()
    ended = [child.wait(BOUND) for child in ranks]
    survivors = [each for each in ended if not each.killed]
    problems = [] if len(survivors) < SIZE else [f"not killed: {[each.status for each in ended]}"]
    for each in survivors:
        problems += each.faults()
        # A rank that does not write has nothing left to do while the first writes the final checkpoint.
        done = each.status == 0 and len(table(out / "run")) == ITERATIONS
        if each.status is not None and not done and not (each.status == 2 and LOST in each.tail(10_000)):
            problems.append(f"unclear: a rank that lost the other ended with {each.status}: {each.tail()}")
    return problems, time.monotonic() - since if survivors else None


def _under_torchrun(starter: Starter, command: list[str], hook: Hook) -> tuple[list[str], float | None]:
    """It ends with what it started; its own traceback names the rank that failed."""
    starter.logs.mkdir(parents=True, exist_ok=True)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(SIZE), "-m", "faults.child"]
    ended = spawned([*words, hook.to_json(), *command], starter.logs / "torchrun.out").wait()
    problems = [] if ended.status == 1 else [f"torchrun ended with {ended.status}: {ended.tail()}"]
    if LOST not in ended.err and "Signal 9" not in ended.err:
        problems.append(f"unclear: torchrun says nothing of a lost rank: {ended.tail()}")
    return problems, None


def _unlike(run: Path, whole: Path, before: list[dict[str, str]]) -> list[str]:
    """Return problems of a run finished by another number of ranks; it may differ from the reference by rounding only.

    Rows from before the kill are unchanged, and the same as those of the reference.
    """
    problems = [f"lost: {name}" for name in sorted(names(whole) - names(run))]
    problems += [f"temporary file left: {name}" for name in sorted(names(run)) if ".tmp" in name]
    rows = table(run)
    done = int(numbers_of(run / "checkpoints" / "last.safetensors")["iteration"])
    if done != ITERATIONS or [float(row["iteration"]) for row in rows] != [k + 1.0 for k in range(ITERATIONS)]:
        return [*problems, f"different: {done} iterations, {len(rows)} rows, wanted {ITERATIONS}"]
    if not _filled(rows[: len(before)]) == _filled(before) == _filled(table(whole)[: len(before)]):
        problems.append(f"different: the {len(before)} rows from before the kill")
    if not (distance := _distance(run, whole)) < NEAR:
        problems.append(f"different: the table differs by {distance:.1e} of a column's range")
    return problems


def _filled(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without empty cells, of which a table gets more when a later iteration brings a new column."""
    return [{name: cell for name, cell in row.items() if cell} for row in rows]


def _completed(run: Path) -> list[dict[str, str]]:
    """Rows of the iterations up to the last checkpoint."""
    last = run / "checkpoints" / "last.safetensors"
    if not last.exists() or not (run / "metrics.csv").exists():
        return []
    return table(run)[: int(numbers_of(last)["iteration"])]


def _distance(run: Path, whole: Path) -> float:
    """Largest difference between the tables of two runs, relative to the largest number of a column.

    Infinite where only one of them has a number.
    """
    largest = 0.0
    for name in (rows := table(whole))[-1]:
        cells = [(x.get(name, ""), y[name]) for x, y in zip(table(run), rows, strict=True)]
        if any(bool(x) != bool(y) for x, y in cells):
            return float("inf")
        pairs = [(float(x), float(y)) for x, y in cells if x]
        scale = max((abs(y) for _, y in pairs), default=0.0) or 1.0
        largest = max([largest, *(abs(x - y) / scale for x, y in pairs)])
    return largest
