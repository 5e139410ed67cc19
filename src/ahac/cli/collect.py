"""`ahac collect`: the metrics of many runs as one table."""

from __future__ import annotations

import sys
from pathlib import Path

from ahac.cli.parser import Parser
from ahac.cli.paths import find_run
from ahac.core.files import check_writable
from ahac.core.text import printable

__all__ = ["collect"]

ABOUT = (
    "Write the metrics of many runs to one table: a row per run and iteration, with columns run, task, algo, preset "
    "and seed, then those of metrics.csv. Runs with damaged files are skipped with a warning.\n\n"
    "The suffix of --out selects the format: .csv, or .parquet, which needs `pip install 'ahac[report]'`."
)


def collect(arguments: list[str]) -> int:
    """Run `ahac collect`."""
    parser = Parser("ahac collect", "RUN [RUN ...] --out FILE.csv|FILE.parquet [options]", ABOUT)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder, or a folder of run folders")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="table to write, .csv or .parquet")
    parser.add_argument(
        "--final",
        action="store_true",
        help="one row per run instead: its last iteration, evaluation and settings",
    )
    options = parser.parse(arguments)
    check_writable(options.out)
    folders = [find_run(name) for name in options.runs]

    from ahac.experiments.collect import write_table

    rows = write_table(folders, options.out, final=options.final)
    sys.stdout.write(printable(f"{rows} row{'s' * (rows != 1)}: {options.out}") + "\n")
    return 0
