"""`ahac report`: a page with the tables, learning curves and statistics of many runs."""

from __future__ import annotations

import sys
from pathlib import Path

from ahac.cli.parser import Parser, one_of
from ahac.cli.paths import find_run_or_archive
from ahac.core.errors import InputError
from ahac.core.files import check_writable
from ahac.core.text import printable

__all__ = ["report"]

ABOUT = (
    "Write one HTML page about many runs: scores, learning curves, aggregates over tasks with stratified bootstrap "
    "intervals, performance profiles, probabilities of improvement, machines and versions, and a list of all runs. "
    "The page needs no other file and no network. Runs are grouped as by `ahac compare`; runs with damaged files are "
    "listed as skipped. Needs matplotlib: `pip install 'ahac[plot]'`."
)
PAGES = (".html", ".htm")
REFERENCES = ("paper",)
"""A copy of the name in ahac.experiments.report.paper, which is not imported before the options are checked."""


def report(arguments: list[str]) -> int:
    """Run `ahac report`."""
    parser = Parser("ahac report", "RUN [RUN ...] --out FILE.html [options]", ABOUT)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder, folder of run folders, or archive of runs")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="HTML page to write, .html")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="also write it as Markdown, .md, with its figures as .svg files next to it",
    )
    parser.add_argument(
        "--reference",
        type=one_of(*REFERENCES),
        metavar="NAME",
        help="show published returns next to ours: paper (the AHAC paper)",
    )
    parser.add_argument("--title", help="title of the page")
    parser.add_argument(
        "--note", action="append", default=[], metavar="TEXT", help="paragraph above the summary; repeatable"
    )
    options = parser.parse(arguments)
    _check_file(options.out, PAGES)
    if options.markdown is not None:
        _check_file(options.markdown, (".md",))
    folders = [find_run_or_archive(name) for name in options.runs]

    from ahac.experiments.report.page import TITLE, write_report

    written = write_report(
        folders,
        options.out,
        markdown=options.markdown,
        reference=options.reference,
        title=TITLE if options.title is None else options.title,
        notes=options.note,
    )
    sys.stdout.write("".join(f"{printable(str(path))}\n" for path in written))
    return 0


def _check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    if path.suffix not in suffixes:
        raise InputError(f"expected a file name that ends with {suffixes[0]}, got {str(path)!r}; change the suffix")
    check_writable(path)
