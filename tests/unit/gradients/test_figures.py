"""What pictures of gradients have in common."""

from pathlib import Path

from ahac.gradients.figures.style import caption, note, title
from ahac.gradients.figures.task import _ticks
from ahac.plots.theme import new_figure


def test_names_of_runs_and_robots_are_no_mathematics(tmp_path: Path) -> None:
    odd = r"a$\frac{$"
    with new_figure([tmp_path / "a.svg"], 2.0, 2.0) as figure:
        axes = figure.subplots()
        title(axes, odd)
        note(axes, odd)
        caption(figure, odd)
        _ticks(axes, [odd])
    assert (tmp_path / "a.svg").stat().st_size > 0
