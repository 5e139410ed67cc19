"""Archives of runs: what comparisons and reports need of many run folders, in one compressed file.

An archive FILE.tar.xz holds files RUN/config.json, RUN/manifest.json, RUN/evaluation.json and RUN/metrics.csv with the
columns in `COLUMNS`. Checkpoints, the host's name and the path of the run folders are left out; a task in a file keeps
the path that its run was given.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.core.errors import InputError
from ahac.core.files import DISK_FULL, atomic_write

if TYPE_CHECKING:
    from ahac.experiments.run_files import RunFiles

__all__ = ["COLUMNS", "SUFFIX", "is_archive", "unpack", "write_archive"]

SUFFIX = ".tar.xz"
COUNTS = ("iteration", "env_steps")
"""Columns of metrics.csv that hold whole numbers."""
UPDATES = ("policy_kl", "share_clipped", "epochs_skipped", "analytic_share")
"""Columns of runs that reuse or mix gradients; PPO has `share_clipped` too."""
COLUMNS = (
    *COUNTS, "seconds", "compile_seconds", "episode_return", "episode_length", "horizon", "critic_epochs", *UPDATES,
)  # fmt: skip
"""Columns of metrics.csv that are kept, counts exactly and others with five significant digits."""
FILES = ("config.json", "manifest.json", "evaluation.json", "metrics.csv")
FORBIDDEN = frozenset("/\\:\0")
"""Characters that no name of a run may have: they have a meaning in paths of some system."""
LARGEST = 2**30
"""Size of the largest archive when unpacked, in bytes: about 4000 runs of 5000 iterations."""


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether a path has the suffix of an archive and is not a folder."""
    return Path(path).name.endswith(SUFFIX) and not Path(path).is_dir()


def write_archive(out: Path, runs: Mapping[str, RunFiles]) -> None:
    """Write an archive of runs by name, sorted, so that their order makes no difference."""
    if invalid := [name for name in runs if not _is_name(name)]:
        raise InputError(
            f"the run {invalid[0]!r} cannot be archived under this name; rename its folder: names must not start with "
            "a dot, contain / \\ : or be the name of a file of a run"
        )
    with atomic_write(out) as unfinished, tarfile.open(unfinished, "w:xz") as archive:
        for name, run in sorted(runs.items()):
            contents = {
                "config.json": _json({key: value for key, value in run.settings.items() if key != "out"}),
                "manifest.json": _json({key: value for key, value in run.manifest.items() if key != "host"}),
                **({} if run.evaluation is None else {"evaluation.json": _json(run.evaluation)}),
                "metrics.csv": _metrics(run.rows),
            }
            for file, text in contents.items():
                data = text.encode()
                member = tarfile.TarInfo(f"{name}/{file}")  # without owner and time of this machine
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of runs into an existing folder; raise an InputError if it is damaged or something else."""
    try:
        with lzma.open(archive) as compressed:
            content = compressed.read(LARGEST + 1)  # to the end, where checksums are verified
        if len(content) > LARGEST:
            raise InputError(
                f"{archive} would have more than {LARGEST / 2**30:.0f} GiB when unpacked; write smaller ones"
            )
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as opened:
            for member in opened:
                _unpack_member(archive, opened, member, folder)
            if any(content[opened.offset :]):  # members after a damaged one are skipped silently
                raise InputError(f"{archive} is damaged after the first {len(opened.getmembers())} files")
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError(f"{archive} is damaged or not an archive of runs: {error}") from error
    except OSError as error:
        remedy = "; free some disk space, or set TMPDIR to another folder" if error.errno in DISK_FULL else ""
        raise InputError(f"{archive} cannot be unpacked: {error.strerror or error}{remedy}") from error


def _unpack_member(archive: Path, opened: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    run, _, file = member.name.rpartition("/")
    source = opened.extractfile(member) if member.isreg() and not member.issparse() else None
    if source is None or not _is_name(run) or file not in FILES:
        raise InputError(
            f"{archive} is not an archive of runs: it holds {member.name!r}; expected RUN/config.json, "
            "RUN/metrics.csv, ... as `ahac collect` writes them"
        )
    (folder / run).mkdir(exist_ok=True)
    (folder / run / file).write_bytes(source.read())


def _is_name(run: str) -> bool:
    """Return whether a run can have this name in an archive, on all systems."""
    return run != "" and not run.startswith(".") and run not in FILES and FORBIDDEN.isdisjoint(run)


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=1) + "\n"


def _metrics(rows: Iterable[Mapping[str, float]]) -> str:
    rows = list(rows)
    known = {name for row in rows for name in row}
    columns = [name for name in COLUMNS if name in known]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_number(name, row[name]) if name in row else "" for name in columns] for row in rows)
    return text.getvalue()


def _number(column: str, value: float) -> str:
    return f"{value:.0f}" if column in COUNTS else f"{value:.5g}"
