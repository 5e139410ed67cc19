"""One look for all pictures: colours, strokes and fonts, decided once; names from outside as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.core.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

__all__ = ["COLORS", "FORMATS", "LINESTYLES", "MUTED", "check_format", "new_figure", "plain"]

FORMATS = (".png", ".svg")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#332288")
"""Of Okabe and Ito's, which colour-blind readers tell apart, too; the last two are ours."""
LINESTYLES = ("-", "--", ":", "-.")
"""Of the first eight groups, of the next eight, ..."""
MUTED = "#777777"
"""Of what is said in passing."""
THEME: Any = {
    "font.size": 10.0, "axes.titlesize": 11.0, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#888888", "axes.labelcolor": "#333333", "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#e6e6e6", "xtick.color": "#555555", "ytick.color": "#555555", "legend.frameon": False,
    "svg.hashsalt": "ahac", "text.usetex": False, "text.parse_math": True,
}  # fmt: skip


def plain(text: str) -> str:
    """Text for a label, title or legend that matplotlib shows letter by letter, whatever a run or robot is named.

    Dollar signs would be mathematics, control characters would spoil an SVG, and some versions of matplotlib leave
    names out of a legend that begin with an underscore.
    """
    shown = printable(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def check_format(path: Path) -> None:
    """Refuse a file that is no picture by its name."""
    if path.suffix not in FORMATS:
        raise InputError(f"a picture is a {' or '.join(FORMATS)} file, got {str(path)!r}")


@contextmanager
def new_figure(paths: Sequence[Path], width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on [inches], written to all these files when it is done.

    Inside, matplotlib has our look; outside, it is as it was.
    """
    for path in paths:
        check_format(path)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("pictures need matplotlib, which is not installed: pip install 'ahac[plot]'") from error
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for path in paths:
            with atomic_write(path) as unfinished:
                # Without a date: the same numbers, the same file.
                about = {"Date": None} if path.suffix == ".svg" else None
                figure.savefig(unfinished, format=path.suffix[1:], dpi=150, metadata=about)
