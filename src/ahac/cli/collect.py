"""`ahac collect`: many runs in one file, as a table or as an archive."""

from __future__ import annotations

import sys
from pathlib import Path

from ahac.cli.parser import Parser, whole_number
from ahac.cli.paths import find_run_or_archive
from ahac.core.files import check_writable
from ahac.core.text import printable
from ahac.experiments.archives import SUFFIX

__all__ = ["collect"]

ABOUT = (
    "Write the metrics of many runs to one table, or the runs to an archive. A table has a row per run and iteration, "
    "with columns run, task, algo, preset and seed, then those of metrics.csv. Runs with damaged files are skipped "
    "with a warning.\n\n"
    "The suffix of --out selects the format: .csv, or .parquet, which needs `pip install 'ahac[report]'`; or .tar.xz, "
    "an archive of the runs without checkpoints, which `ahac compare`, `ahac report` and this command read in place of "
    "a folder."
)


def collect(arguments: list[str]) -> int:
    """Run `ahac collect`."""
    parser = Parser("ahac collect", "RUN [RUN ...] --out FILE.csv|FILE.parquet|FILE.tar.xz [options]", ABOUT)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder, folder of run folders, or archive of runs")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file to write: .csv, .parquet or .tar.xz"
    )
    parser.add_argument(
        "--final",
        action="store_true",
        help="one row per run instead: its last iteration, evaluation and settings",
    )
    parser.add_argument(
        "--every",
        type=whole_number,
        default=1,
        metavar="N",
        help="keep iterations N, 2N, ... and the last one (default: 1)",
    )
    options = parser.parse(arguments)
    archive = options.out.name.endswith(SUFFIX)
    if archive and options.final:
        parser.error("--final selects the rows of a table; an archive has all of them")
    check_writable(options.out)
    folders = [find_run_or_archive(name) for name in options.runs]

    from ahac.experiments.collect import archive_runs, write_table

    if archive:
        count, unit = archive_runs(folders, options.out, every=options.every), "run"
    else:
        count, unit = write_table(folders, options.out, final=options.final, every=options.every), "row"
    sys.stdout.write(printable(f"{count} {unit}{'s' * (count != 1)}: {options.out}") + "\n")
    return 0
