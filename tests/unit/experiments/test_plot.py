"""Learning curves: the values of a line, and that a figure is written."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.core.text import printable
from ahac.experiments.compare import group_runs
from ahac.experiments.plot import COLORS, CURVE_POINTS, curve, plot
from ahac.experiments.run_files import read_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def made_run(
    folder: Path,
    seed: int,
    returns: Sequence[float | None],
    pace: int = 100,
    task: str = "ant",
    column: str = "episode_return",
) -> Path:
    """A run of `pace` environment steps and one second per iteration."""
    folder.mkdir(parents=True)
    settings = {"task": task, "algo": "shac", "preset": "default", "iterations": 3, "seed": seed}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    lines = [f"{k},{pace * k},{k},{'' if x is None else x}" for k, x in enumerate(returns, start=1)]
    text = "\n".join([f"iteration,env_steps,seconds,{column}", *lines, ""])
    (folder / "metrics.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> "list[Figure]":
    """What is drawn, instead of files that show it."""
    from matplotlib.figure import Figure

    drawn: list[Figure] = []

    def write(figure: Figure, path: Path, **_: object) -> None:
        drawn.append(figure)
        path.touch()

    monkeypatch.setattr(Figure, "savefig", write)
    return drawn


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    made_run(tmp_path / "runs" / "ant-a-0", 0, [1.0, 2.0, 3.0])
    made_run(tmp_path / "runs" / "ant-a-1", 1, [None, 4.0, 6.0, 8.0])
    made_run(tmp_path / "runs" / "hopper-b-0", 0, [5.0, 5.0], task="hopper")
    return tmp_path / "runs"


def test_a_curve_goes_from_where_all_runs_have_a_return_to_where_the_first_ends(runs: Path) -> None:
    places, returns = curve([read_run(runs / "ant-a-0"), read_run(runs / "ant-a-1")], "env_steps")
    assert (places[0], places[-1], len(places)) == (200.0, 300.0, CURVE_POINTS)
    assert returns[:, 0].tolist() == [2.0, 4.0]
    assert returns[:, -2].tolist() == [2.0, 4.0], "the latest known, not between two"
    assert returns[:, -1].tolist() == [3.0, 6.0]


def test_many_rows_between_two_points_are_averaged(tmp_path: Path) -> None:
    values = np.arange(1.0, 10 * (CURVE_POINTS - 1) + 2)
    record = read_run(made_run(tmp_path / "a-0", 0, values.tolist(), column="horizon"))
    places, found = curve([record], "seconds", "horizon")
    assert (places[1], found[0, 0]) == (11.0, 1.0)
    assert found[0, 1:].tolist() == [values[k + 1 : k + 11].mean() for k in range(0, len(values) - 1, 10)]


def test_other_columns_are_drawn_of_the_groups_that_have_them(runs: Path, tmp_path: Path) -> None:
    made_run(tmp_path / "more" / "ant-c-0", 0, [8.0, 9.0], column="growth")
    groups = {name: records for name, records in group_runs([runs, tmp_path / "more"]).items() if name != "hopper-b"}
    plot(tmp_path / "a.svg", groups, ["growth"])
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "growth of the adjoint" in text
    assert "ant-c" in text
    assert "ant-a" not in text
    with pytest.raises(InputError, match=r"no group has 'phi' in its metrics\.csv; available: episode_return, growth"):
        plot(tmp_path / "b.svg", groups, ["phi"])


def test_non_finite_values_are_ignored_and_a_spike_does_not_spread(tmp_path: Path) -> None:
    values = [1.0, float("nan"), float("inf"), 1e16, *[1e-3] * (5 * CURVE_POINTS)]
    record = read_run(made_run(tmp_path / "a-0", 0, values, column="actor_grad_norm"))
    _, found = curve([record], "seconds", "actor_grad_norm")
    assert found[0, 0] == 1.0
    assert found[0, 1] > 1e15
    np.testing.assert_allclose(found[0, 2:], 1e-3)


def test_a_column_is_drawn_once_and_only_where_it_is(runs: Path, tmp_path: Path, figures: "list[Figure]") -> None:
    made_run(tmp_path / "more" / "ant-c-0", 0, [8.0], column="growth")
    plot(tmp_path / "a.png", group_runs([runs, tmp_path / "more"]), ["growth", "episode_return", "growth"])
    rows = [(axes.get_title(loc="left"), axes.get_ylabel()) for axes in figures[0].axes[::2]]
    assert rows == [("ant", "growth of the adjoint"), ("", "return in training"), ("hopper", "return in training")]


def test_a_group_has_one_color_in_all_rows_and_a_single_point_has_a_marker(
    runs: Path, tmp_path: Path, figures: "list[Figure]"
) -> None:
    made_run(tmp_path / "more" / "ant-c-0", 0, [8.0], column="growth")
    made_run(tmp_path / "more" / "ant-d-0", 0, [8.0, 9.0])
    plot(tmp_path / "a.png", group_runs([runs / "ant-a-0", tmp_path / "more"]), ["episode_return", "growth"])
    returns, _, growth, _ = figures[0].axes
    drawn = {str(line.get_label()).partition("\n")[0]: line for line in returns.get_lines()}
    (alone,) = growth.get_lines()
    assert alone.get_color() == drawn[str(alone.get_label())].get_color()
    assert len({line.get_color() for line in drawn.values()}) == len(drawn) == 3
    assert [alone.get_marker(), drawn["ant-d (1 seed)"].get_marker()] == ["o", "None"]


@pytest.mark.parametrize("axis", ["env_steps", "seconds"])
def test_the_axes_themselves_are_not_plotted(axis: str, runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no group has '{axis}'"):
        plot(tmp_path / "a.png", group_runs([runs]), [axis])


@pytest.mark.parametrize(("values", "scale"), [([0.01, 1.5], "log"), ([0.0, 1.5], "linear"), ([1.0, 50.0], "linear")])
def test_what_spreads_over_orders_of_magnitude_has_a_logarithmic_axis(
    values: list[float], scale: str, tmp_path: Path, figures: "list[Figure]"
) -> None:
    made_run(tmp_path / "runs" / "a-0", 0, values, column="esnr")
    plot(tmp_path / "a.png", group_runs([tmp_path / "runs"]), ["esnr"])
    assert [axes.get_yscale() for axes in figures[0].axes] == [scale, scale]


def test_a_logarithmic_curve_has_equal_ratios_between_its_places(tmp_path: Path) -> None:
    run = made_run(tmp_path / "ant-a-0", 0, [float(k) for k in range(1, 101)])
    places, returns = curve([read_run(run)], "env_steps", logarithmic=True)
    assert (places[0], places[-1]) == pytest.approx((100.0, 10_000.0))
    assert np.allclose(places[1:] / places[:-1], places[1] / places[0])
    assert (returns[0, 0], returns[0, -1]) == pytest.approx((1.0, 100.0), abs=1.5), "means over the last ratio"


def test_runs_without_a_common_range_have_no_curve(tmp_path: Path) -> None:
    short = read_run(made_run(tmp_path / "a-0", 0, [1.0]))
    late = read_run(made_run(tmp_path / "a-1", 1, [None, None, 1.0]))
    never = read_run(made_run(tmp_path / "a-2", 2, [None]))
    for records in ([short, late], [short, never]):
        places, returns = curve(records, "seconds")
        assert (places.shape, returns.shape) == ((0,), (2, 0))


@pytest.mark.parametrize(("name", "begin"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture_is_written_and_the_same_again(name: str, begin: bytes, runs: Path, tmp_path: Path) -> None:
    plot(tmp_path / name, group_runs([runs]))
    first = (tmp_path / name).read_bytes()
    assert first.startswith(begin)
    plot(tmp_path / name, group_runs([runs]))
    assert (tmp_path / name).read_bytes() == first


def test_a_picture_names_groups_tasks_and_what_the_band_is(runs: Path, tmp_path: Path) -> None:
    plot(tmp_path / "a.svg", group_runs([runs]))
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for label in (
        "ant-a (2 seeds)",
        "hopper-b (1 seed)",
        ">hopper<",
        "environment steps",
        "seconds of training",
        "band: lowest to highest seed",
    ):
        assert label in text


def test_any_name_of_a_run_task_or_column_is_drawn_as_it_is(tmp_path: Path) -> None:
    names = [
        r"a$\frac{$",
        "$",
        "$$",
        r"\$a$",
        "a$b$c$",
        "_x",
        "<b>&",
        "\x1b[31m\n",
        "\udcff",
        "a]]>--",
        "{x}",
        "%s",
        "\\",
    ]
    for name in names:
        made_run(tmp_path / "runs" / f"{name}-s0", 0, [0.01, 2.0], task=names[0], column="esnr$$")
    plot(tmp_path / "a.svg", group_runs([tmp_path / "runs"]), ["esnr$$"])
    texts = ElementTree.parse(tmp_path / "a.svg").iter("{http://www.w3.org/2000/svg}text")
    shown = {str(text.text).strip() for text in texts}
    assert {names[0], "esnr$$", *(f"{printable(name)} (1 seed)" for name in names)} <= shown


def test_ticks_of_logarithmic_axes_are_still_mathematics(tmp_path: Path, figures: "list[Figure]") -> None:
    made_run(tmp_path / "runs" / "a-0", 0, [0.01, 2.0], column="esnr")
    plot(tmp_path / "a.png", group_runs([tmp_path / "runs"]), ["esnr"])
    assert all(text.get_parse_math() for text in figures[0].axes[0].get_yticklabels())


def test_a_repeated_seed_is_one_seed(tmp_path: Path, figures: "list[Figure]") -> None:
    for name in ("a-s0", "a-s0-2"):
        made_run(tmp_path / "runs" / name, 0, [1.0, 2.0])
    plot(tmp_path / "a.png", group_runs([tmp_path / "runs"]))
    assert [line.get_label() for line in figures[0].axes[0].get_lines()] == ["a (1 seed)"]


def test_groups_without_a_curve_and_many_groups_are_drawn(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    made_run(out / "none-0", 0, [None])
    for k in range(len(COLORS) + 1):
        made_run(out / f"g{k}-0", 0, [float(k), np.pi])
    plot(tmp_path / "many.png", group_runs([out]))
    assert (tmp_path / "many.png").stat().st_size > 0


def test_other_kinds_of_files_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a figure must be a \.png or \.svg file, got '.*a\.pdf'"):
        plot(tmp_path / "a.pdf", group_runs([runs]))


def test_a_missing_matplotlib_is_named_with_the_extra_that_brings_it(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'ahac\[plot\]'"):
        plot(tmp_path / "a.png", group_runs([runs]))


def test_a_plot_without_any_return_says_so(tmp_path: Path, figures: "list[Figure]") -> None:
    made_run(tmp_path / "runs" / "ant-a-0", 0, [None, None])
    plot(tmp_path / "curves.png", group_runs([tmp_path / "runs"]), ["episode_return"])
    texts = [text.get_text() for axes in figures[0].axes for text in axes.texts]
    assert texts == ["no episode has ended yet: train longer"] * 2


def test_a_group_without_a_curve_says_why_in_the_legend(tmp_path: Path, figures: "list[Figure]") -> None:
    made_run(tmp_path / "runs" / "ant-a-0", 0, [None, None])
    made_run(tmp_path / "runs" / "ant-b-0", 0, [1.0, 2.0])
    plot(tmp_path / "curves.png", group_runs([tmp_path / "runs"]))
    legend = figures[0].axes[1].get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["ant-b (1 seed)", "ant-a (1 seed)\nno episode has ended yet: train longer"]
