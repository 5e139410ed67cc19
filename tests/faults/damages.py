"""Unfinished runs of which one file is damaged: every command works as before, or says what is wrong."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.commands import Ended, Starter
from faults.damage import WAYS, absent, path_of
from faults.damage_files import Scene
from faults.forms import Form, form_of
from faults.references import Reference, for_each
from faults.runs import differences
from faults.trials import Trial, Verdict

__all__ = ["damage_trials"]

RUN, HEALTHY = "run", "healthy"
PROGRESS = re.compile(r"\d+(/\d+)?  \d+(/\d+)? steps  ")
DECISIVE = ("last", "segment", "config.json")
"""Files that training resumes from. Other values in a sound file change its result; any other damage is an error."""
WHOLE_FILES = ("twin's", "another algorithm's")
"""Files of other runs, of which `list` and `compare` cannot know; `resume` compares them with the checkpoint."""
LEFT_ALONE = ("best", "iteration", "manifest.json", "config.json")
"""Files that training leaves unchanged unless it rewrites them."""


@dataclass(frozen=True)
class Normal:
    """What commands say of a run that is not damaged."""

    list_runs: Ended
    compare: Ended
    evaluations: Mapping[str, Ended]
    """By checkpoint."""


@dataclass(frozen=True)
class Case:
    """One file of a run, and what is done to it."""

    reference: Reference
    other: Reference
    kind: str
    way: str
    seed: str


def damage_trials(
    references: Mapping[str, Reference], count: int, seed: int, fork: bool, folder: Path, jobs: int = 1
) -> list[Trial]:
    """Return the given number of trials, cycling through all kinds of files and damage."""

    def look(algo: str) -> Normal:
        return _normal(references[algo], Starter(folder / "logs" / "normal" / algo, fork), folder / "normal" / algo)

    normal = for_each(references, look, jobs)
    trials = []
    for k, case in zip(range(count), _cases(references, seed), strict=False):
        what = f"{case.kind} of {case.reference.algo}: {case.way}"
        trials.append(
            Trial(
                f"damage-{k:04d}",
                f"damage: {case.kind}",
                what,
                lambda place, case=case: _damaged(case, normal[case.reference.algo], place, fork),
            )
        )
    return trials


def _cases(references: Mapping[str, Reference], seed: int) -> Iterator[Case]:
    """Endlessly; the order differs from round to round."""
    rng = random.Random(f"{seed} damage")
    each = [(kind, way) for kind, ways in WAYS.items() for way in ways]
    while True:
        rng.shuffle(each)
        for kind, way in each:
            able = [x for x in references.values() if path_of(kind, x.begun, rng) is not None]
            if not able:
                continue
            chosen = rng.choice(able)
            others = [x for x in able if x is not chosen] or able
            yield Case(chosen, rng.choice(others), kind, way, f"{seed} {kind} {way} {rng.random()}")


def _normal(reference: Reference, starter: Starter, folder: Path) -> Normal:
    runs = _laid_out(reference, folder)
    names = sorted(path.stem for path in (reference.begun / "checkpoints").glob("*.safetensors"))
    return Normal(
        starter.run("list", "runs", "--out", runs),
        starter.run("compare", runs),
        {name: starter.run("eval", runs / RUN, "--checkpoint", name) for name in names},
    )


def _laid_out(reference: Reference, folder: Path) -> Path:
    """A folder with the run that is to be damaged, and another one."""
    shutil.copytree(reference.begun, folder / RUN)
    shutil.copytree(reference.twin, folder / HEALTHY)
    return folder


# -------------------------------------------------------------------------------------------------------------- trials


def _damaged(case: Case, normal: Normal, folder: Path, fork: bool) -> Verdict:
    rng, starter = random.Random(case.seed), Starter(folder / "logs", fork)
    runs = _laid_out(case.reference, folder / "damaged")
    path = path_of(case.kind, runs / RUN, rng)
    assert path is not None
    same, original = path.relative_to(runs / RUN), path.read_bytes()
    twin = case.reference.twin / same
    other = path_of(case.kind, case.other.begun, rng)
    assert other is not None
    said = WAYS[case.kind][case.way](Scene(path, twin if twin.exists() else other, other, rng))
    judge = Judge(case, same, form_of(path, original))
    judge.shown(starter.run("list", "runs", "--out", runs), normal.list_runs)
    judge.shown(starter.run("compare", runs), normal.compare)
    for place in ("evaluated", "resumed"):
        shutil.copytree(runs / RUN, folder / place, symlinks=True)
    name = path.stem if path.suffix == ".safetensors" and case.kind != "segment" else "last"
    judge.evaluated(starter.run("eval", folder / "evaluated", "--checkpoint", name), normal.evaluations[name])
    judge.resumed(starter.run("resume", folder / "resumed"), folder / "resumed")
    result = judge.problems[0].partition(":")[0] if judge.problems else judge.result
    return Verdict(result, tuple(judge.problems), f"{same}: {said}")


class Judge:
    """Collects what is wrong with how commands dealt with a damaged file."""

    def __init__(self, case: Case, file: Path, form: Form) -> None:
        self.case = case
        self.file = file
        self.form = form
        self.problems: list[str] = []
        self.reported = self.accepted = False

    @property
    def result(self) -> str:
        """Of a trial without problems."""
        return "reported" if self.reported else "sound file, other values" if self.accepted else "harmless"

    def shown(self, ended: Ended, normal: Ended) -> None:
        """`list` and `compare`: the same output, or a word about the file; `list` shows the other runs in any case."""
        self.problems += ended.faults()
        if ended.command[0] == "list" and ended.status == 2:
            self.problems.append(f"hides the others: `list` shows no run: {ended.tail()}")
        if ended.command[0] == "list" and f"/{HEALTHY} " not in ended.out:
            self.problems.append("hides the others: `list` does not show the other run")
        if _without_folders(ended.out) == _without_folders(normal.out) or self._says(ended, normal):
            return
        self._different(ended, "another output")

    def evaluated(self, ended: Ended, normal: Ended) -> None:
        """`eval`: the same numbers, or a word about the file."""
        self.problems += ended.faults()
        if ended.out == normal.out:
            return
        shown = f"{ended.out.strip()!r} instead of {normal.out.strip()!r}"
        if not self._says(ended, normal):
            self._different(ended, shown)
        elif ended.status == 0 and self.case.kind in DECISIVE and not self.form.sound:
            self.problems.append(f"accepted: `eval` uses a damaged file, and has {shown}")

    def resumed(self, ended: Ended, run: Path) -> None:
        """`resume`: the same run in the end, or a word about the file."""
        self.problems += ended.faults()
        says = self._says(ended, None)
        if ended.status != 0:
            return
        if self.form.wrong and self.case.kind in DECISIVE:
            self.problems.append("accepted: `resume` takes wrong names, shapes, types or numbers")
        kept = {str(self.file)} if self.case.kind in LEFT_ALONE else set[str]()
        found = differences(run, self.case.reference.whole, kept)
        table = [x for x in found if x.endswith("metrics.csv")]
        if self.case.kind == "metrics.csv" and table:
            found = [x for x in found if x not in table]
            self._table(says, run)
        if found and self.case.kind in DECISIVE and self.form.sound and (says or self.form.valid):
            self.accepted = True
            return
        self.problems += [f"silent: `resume`: {', '.join(found)}"] if found else []
        if self.case.kind == "last" and absent(self.case.way) and not says:
            self.problems.append("silent: `resume` starts over without a message, although checkpoints and rows exist")

    def _table(self, says: bool, run: Path) -> None:
        """What became of a damaged table that is not as it would have been."""
        if not says:
            self.problems.append("silent: `resume`: metrics.csv has other rows")
        elif not absent(self.case.way) and not list(run.glob("metrics.damaged-*.csv")):
            self.problems.append("lost: `resume` does not keep the damaged metrics.csv")

    def _different(self, ended: Ended, how: str) -> None:
        shown = ended.command[0] != "eval"
        if (self.form.sound and (shown or self.form.valid)) or (shown and self.case.way in WHOLE_FILES):
            self.accepted = True
        elif ended.status == 0 and not (absent(self.case.way) and ended.command[0] != "eval"):
            self.problems.append(f"silent: `{ended.command[0]}` has {how}")

    def _says(self, ended: Ended, normal: Ended | None) -> bool:
        """Whether a command says what is wrong: an error in one line, or a line that names the file."""
        lines = ended.err.strip().splitlines()
        if ended.status == 2:
            errors = [k for k, line in enumerate(lines) if line.startswith("ahac: ")]
            if errors == [len(lines) - 1]:
                self.reported = True
                return True
            self.problems.append(f"unclear: `{ended.command[0]}` ends with: {ended.tail()}")
            return False
        usual = set() if normal is None else set((normal.out + normal.err).splitlines())
        new = [line for line in (*lines, *ended.out.splitlines()) if line not in usual and not PROGRESS.match(line)]
        named = (self.file.name, f"'{self.file.stem}'", *(("replay",) if self.case.kind == "segment" else ()))
        says = ended.status == 0 and any(name in line for line in new for name in named)
        self.reported |= says
        return says


def _without_folders(table: str) -> list[list[str]]:
    """Return the cells of a table whose first column may be the path of a run: trials have folders of their own."""
    return [[Path(words[0]).name, *words[1:]] for line in table.splitlines() if (words := line.split())]
