"""Common style of the gradient figures."""

from pathlib import Path

from ahac.gradients.figures.style import caption, note, title
from ahac.gradients.figures.task import _ticks
from ahac.plots.theme import new_figure


def test_names_of_runs_and_robots_are_not_parsed_as_mathtext(tmp_path: Path) -> None:
    name = r"a$\frac{$"
    with new_figure([tmp_path / "a.svg"], 2.0, 2.0) as figure:
        axes = figure.subplots()
        title(axes, name)
        note(axes, name)
        caption(figure, name)
        _ticks(axes, [name])
    assert (tmp_path / "a.svg").stat().st_size > 0
