"""File operations of a process inside a folder: recorded, or used as the moment at which it is killed.

Python's audit events are raised before an operation, by whatever code and thread does it. A hook cannot be removed,
so it belongs into a child process. `os.fsync` raises no event and is wrapped.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["ANY", "SIBLINGS", "TENSORBOARD", "Hook", "Moment", "install", "kind_of", "read_record"]

ANY = "any"
"""Matches every event, or every kind of file but TensorBoard's, of which there are many."""
TENSORBOARD = "tensorboard"
SIBLINGS = -1
EVENTS = {
    "open": "open", "os.rename": "rename", "os.remove": "remove", "os.mkdir": "mkdir", "os.rmdir": "rmdir",
    "os.truncate": "truncate", "os.link": "link", "os.symlink": "symlink",
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TEMPORARY = re.compile(r"\.(?P<stem>.+)\.(ahac-\w*-)?\d+\.tmp(?P<suffix>\.\w+)?")


@dataclass(frozen=True)
class Moment:
    """The `count`-th operation of an event on a kind of file, counted from 1."""

    event: str = ANY
    kind: str = ANY
    count: int = 1
    how: str = "before"
    """before it; after it (before the next one); half: with the file half written."""
    share: float = 0.5
    """How much of a half-written file is there."""
    victims: tuple[int, ...] = (0,)
    """Processes to kill; 0 is the one that does the operation, `SIBLINGS` all others that its parent started."""
    signal: int = signal.SIGKILL
    times: int = 1
    """How often the signal is sent."""

    def __str__(self) -> str:
        what = "operation" if self.event == ANY else f"{self.event} of {self.kind}"
        share = f" ({self.share:.2f})" if self.how == "half" else ""
        return f"{self.how} {what} number {self.count}{share}"


@dataclass(frozen=True)
class Hook:
    """What to do with the file operations of a child process."""

    folder: str
    """Operations outside of this folder do not count."""
    moment: Moment | None = None
    record: str | None = None
    """A file outside of the folder that gets one line per operation."""

    def to_json(self) -> str:
        """For the command line of a child."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Hook:
        """The inverse."""
        data = json.loads(text)
        if data["moment"] is not None:
            data["moment"] = Moment(**{**data["moment"], "victims": tuple(data["moment"]["victims"])})
        return cls(**data)


def kind_of(path: str, folder: str) -> str:
    """What a file of a run is, whatever its number, process or run: "last.safetensors", "replay", "run", ..."""
    parts = Path(os.path.relpath(path, folder)).parts
    if len(parts) < 2:
        return "runs" if parts in ((), (".",)) else "run"
    name = parts[-1]
    if found := TEMPORARY.fullmatch(name):
        name = found["stem"] + (found["suffix"] or "")
    if "tensorboard" in parts:
        return TENSORBOARD
    if "replay" in parts and name != "replay":
        return "segment"
    return re.sub(r"iteration-\d+", "iteration", name)


def read_record(path: Path) -> list[tuple[str, str]]:
    """Event and kind of every recorded operation."""
    return [(event, kind) for event, kind in map(json.loads, path.read_text(encoding="utf-8").splitlines())]


def install(hook: Hook) -> None:
    """Watch this process from now on."""
    watch = _Watch(hook)
    sys.addaudithook(watch.audit)
    honest = os.fsync

    def fsync(file: Any) -> None:  # noqa: ANN401 - a number, or an object with fileno()
        number = file if isinstance(file, int) else file.fileno()
        watch.note("fsync", os.readlink(f"/proc/self/fd/{number}"))
        honest(file)

    os.fsync = fsync


class _Watch:
    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.folder = os.path.abspath(hook.folder)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.next_kills = self.busy = False
        self.record = None if hook.record is None else os.open(hook.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        name = EVENTS.get(event)
        if name is None or self.busy:
            return
        if name == "open" and not (isinstance(args[2], int) and args[2] & WRITING):
            return
        path = args[1] if name == "rename" else args[0]
        if isinstance(path, str | bytes | os.PathLike):
            self.note(name, os.fsdecode(path), os.fsdecode(args[0]) if name == "rename" else None)

    def note(self, event: str, path: str, source: str | None = None) -> None:
        """An operation that is about to happen."""
        path = os.path.abspath(path)
        if not (path + os.sep).startswith(self.folder + os.sep):
            return
        kind = kind_of(path, self.folder)
        keys = [(event, kind)] if kind == TENSORBOARD else [(event, kind), (ANY, ANY)]
        for key in keys:
            self.counts[key] += 1
        if self.record is not None:
            os.write(self.record, (json.dumps([event, kind]) + "\n").encode())
        moment = self.hook.moment
        if self.next_kills and moment is not None:
            self._kill(moment)
        if moment is None or self.counts[moment.event, moment.kind] != moment.count:
            return
        if (moment.event, moment.kind) not in keys:
            return
        if moment.how == "after":
            self.next_kills = True
            return
        if moment.how == "half":
            self._cut(source or path, moment.share, appended=event == "open")
        self._kill(moment)

    def _cut(self, path: str, share: float, appended: bool) -> None:
        """Leave what a kill in the middle of a write leaves: the start of the file, or of one more line."""
        self.busy = True  # ignore the operations below
        file = Path(path)
        if not file.is_file():
            return
        content = file.read_bytes()
        if appended:
            line = content.splitlines(keepends=True)[-1] if content else b""
            file.write_bytes(content + line[: int(share * len(line))])
        else:
            file.write_bytes(content[: int(share * len(content))])

    def _kill(self, moment: Moment) -> None:
        self.hook = Hook(self.hook.folder, None, self.hook.record)  # if it survives, nothing more is to happen
        victims = _siblings() if SIBLINGS in moment.victims else []
        for victim in victims + ([os.getpid()] if 0 in moment.victims else []):  # this process last
            for _ in range(moment.times):
                os.kill(victim, moment.signal)


def _siblings() -> list[int]:
    parent = os.getppid()
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    return [int(pid) for pid in children.split() if int(pid) != os.getpid()]
