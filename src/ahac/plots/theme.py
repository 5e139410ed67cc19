"""Style of all figures: colors, line styles and fonts, and names shown as plain text."""

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
"""Colors of groups: Okabe and Ito's color-blind-safe palette, and two more."""
LINESTYLES = ("-", "--", ":", "-.")
"""Line styles: the first for the first eight groups, the second for the next eight, ..."""
MUTED = "#777777"
"""Color of annotations."""
THEME: Any = {
    "font.size": 10.0, "font.sans-serif": ["DejaVu Sans"], "axes.titlesize": 11.0, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": "#888888", "axes.labelcolor": "#333333", "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#e6e6e6", "xtick.color": "#555555", "ytick.color": "#555555",
    "legend.frameon": False, "svg.hashsalt": "ahac", "svg.fonttype": "none", "text.usetex": False,
    "text.parse_math": True,
}  # fmt: skip


def plain(text: str) -> str:
    """Escape text so that matplotlib shows it literally in a label, title or legend.

    Dollar signs would start a formula, control characters would make an SVG invalid, and some versions of matplotlib
    omit names that begin with an underscore from a legend.
    """
    shown = printable(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def check_format(path: Path) -> None:
    """Raise an error if the suffix of a file is not that of a figure."""
    if path.suffix not in FORMATS:
        raise InputError(f"a figure must be a {' or '.join(FORMATS)} file, got {str(path)!r}; change the suffix")


@contextmanager
def new_figure(paths: Sequence[Path], width: float, height: float) -> Iterator[Figure]:
    """Yield a figure of this size [inches], and save it to all files when the block ends.

    The style applies inside the block only.
    """
    for path in paths:
        check_format(path)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("figures need matplotlib, which is not installed: pip install 'ahac[plot]'") from error
    with mpl.rc_context(THEME):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for path in paths:
            with atomic_write(path) as unfinished:
                # No date, so that equal data gives equal files.
                metadata = {"Date": None} if path.suffix == ".svg" else None
                figure.savefig(unfinished, format=path.suffix[1:], dpi=150, metadata=metadata)
