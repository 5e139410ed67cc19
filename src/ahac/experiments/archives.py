"""Archives of runs: what comparisons and reports read of many run folders, in one compressed file.

An archive FILE.tar.xz holds folders RUN with config.json, manifest.json, evaluation.json and the columns of metrics.csv
in `COLUMNS`; no checkpoints. The same runs make the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.experiments.run_files import RunFiles

__all__ = ["COLUMNS", "SUFFIX", "is_archive", "unpack", "write_archive"]

SUFFIX = ".tar.xz"
COUNTS = ("iteration", "env_steps")
COLUMNS = (*COUNTS, "seconds", "compile_seconds", "episode_return", "episode_length", "horizon", "critic_epochs")
"""Columns of metrics.csv that are kept, counts exactly and others with five significant digits."""
FILES = ("config.json", "manifest.json", "evaluation.json", "metrics.csv")


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether a path has the suffix of an archive and is not a folder."""
    return Path(path).name.endswith(SUFFIX) and not Path(path).is_dir()


def write_archive(out: Path, runs: Iterable[tuple[str, RunFiles]]) -> None:
    """Write an archive of runs, each in a folder of the given name."""
    with atomic_write(out) as unfinished, tarfile.open(unfinished, "w:xz", preset=9) as archive:
        for name, run in runs:
            contents = {
                "config.json": _json(run.settings),
                "manifest.json": _json(run.manifest),
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
            content = io.BytesIO(compressed.read())  # to the end, where checksums are verified
        with tarfile.open(fileobj=content, mode="r:") as opened:
            for member in opened:
                run, *rest = PurePosixPath(member.name).parts or ("",)
                source = opened.extractfile(member) if member.isfile() else None
                if source is None or len(rest) != 1 or rest[0] not in FILES or run.startswith((".", "/")):
                    raise InputError(
                        f"{archive} is not an archive of runs: it holds {member.name!r}; expected RUN/config.json, "
                        "RUN/metrics.csv, ... as `ahac collect` writes them"
                    )
                (folder / run).mkdir(exist_ok=True)
                (folder / run / rest[0]).write_bytes(source.read())
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError(f"{archive} is damaged or not an archive of runs: {error}") from error
    except OSError as error:
        raise InputError(f"{archive} cannot be unpacked: {error.strerror or error}") from error


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
