"""The comparison of engines (`make gradients`): its differences, figures, workers and page."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import gradient_comparison.__main__ as command
from gradient_comparison import worker
from gradient_comparison.cases import CASES, Case
from gradient_comparison.measure import SIZES, accuracy, agreement, central_differences, speed
from gradient_comparison.report import BEGIN, END, fill, tables

TOLERANCE = 1e-5
"""Largest error of a gradient in float64, as in `ahac grad check`."""


@dataclass
class FakeRollouts:
    """Free fall in closed form, x(T) = x + n v + n² u / 2 and v(T) = v + n u; gradients may be scaled or not finite."""

    case: Case
    factor: float
    calls: list[int] = field(default_factory=list)

    def states(self, inputs: np.ndarray, steps: Sequence[int]) -> np.ndarray:
        x, v, u = inputs.T
        return np.stack([np.stack([x + n * v + n * n * u / 2.0, v + n * u], axis=1) for n in steps])

    def gradients(self, inputs: np.ndarray, steps: int) -> np.ndarray:
        self.calls.append(len(inputs))
        a, b = self.case.weights()
        row = np.array([a, steps * a + b, steps * steps * a / 2.0 + steps * b])
        return np.tile(self.factor * row, (len(inputs), 1))


@dataclass
class FakeEngine:
    factor: float = 1.0
    settings: str = "closed form"
    loaded: list[FakeRollouts] = field(default_factory=list)

    def load(self, case: Case, worlds: int, double: bool) -> FakeRollouts:
        self.loaded.append(FakeRollouts(case, self.factor))
        return self.loaded[-1]


def test_central_differences_of_a_cubic_converge_with_the_square_of_the_step() -> None:
    found = central_differences(lambda x: (x**3)[None], np.array([[2.0]]), (1e-1, 1e-2), np.ones(1))
    assert found.shape == (1, 1, 2, 1)
    np.testing.assert_allclose(found[0, 0, :, 0] - 12.0, [1e-2, 1e-4], rtol=1e-6)


def test_differences_belong_to_their_horizon_start_and_input() -> None:
    points = np.array([[1.0, 2.0], [3.0, 5.0]])
    found = central_differences(lambda x: np.stack([x * x, 10.0 * x * x]), points, (1e-3,), np.array([1.0, -1.0]))
    expected = np.stack([2.0 * points * [1.0, -1.0], 20.0 * points * [1.0, -1.0]])
    np.testing.assert_allclose(found[:, :, 0], expected, rtol=1e-9)


def test_the_smallest_error_is_reported_with_its_step_size_and_the_spread_of_the_differences() -> None:
    differences = np.array([[3.0, 5.0], [3.0, 4.0], [6.0, 8.0]])
    found = agreement(np.array([3.0, 4.0]), differences, (1.0, 0.1, 0.01))
    assert (found.error, found.cosine, found.size) == (0.0, pytest.approx(1.0), 0.1)
    assert found.spread == pytest.approx(0.2)
    assert agreement(np.array([-3.0, -4.0]), differences, (1.0, 0.1, 0.01)).cosine == pytest.approx(-1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_counted(bad: float) -> None:
    found = agreement(np.array([bad, 1.0, bad]), np.ones((2, 3)), (1e-3, 1e-4))
    assert (found.nonfinite, found.error, found.cosine, found.norm) == (2, None, None, None)


def test_a_gradient_that_is_not_zero_where_differences_are_has_an_error() -> None:
    assert agreement(np.array([0.5]), np.zeros((2, 1)), (1e-3, 1e-4)).error == 0.5
    assert agreement(np.array([0.0]), np.zeros((2, 1)), (1e-3, 1e-4)).error == 0.0


@pytest.mark.parametrize(("factor", "error"), [(1.0, 0.0), (1.5, 0.5), (-1.0, 2.0)])
def test_accuracy_of_an_engine_with_a_known_error(factor: float, error: float) -> None:
    case = CASES["pendulum"]
    found = accuracy(FakeEngine(factor), case, double=True, starts=2)
    assert list(found) == ["1", "10", "100"]
    for by_start in found.values():
        assert isinstance(by_start, list)
        assert [one["error"] for one in by_start] == pytest.approx([error] * 2, abs=1e-6)
        assert [one["cosine"] for one in by_start] == pytest.approx([np.sign(factor)] * 2)


def test_speed_separates_compilation_from_gradients() -> None:
    engine = FakeEngine()
    times = iter([0.0, 7.0, 10.0, 12.0, 20.0, 23.0, 30.0, 38.0, 40.0, 43.0, 50.0, 53.0])
    found = speed(engine, CASES["pendulum"], lambda: next(times))
    assert found == {"1": {"gradient": 2.0, "compile": 5.0}, "256": {"gradient": 3.0, "compile": 5.0}}
    assert [rollouts.calls for rollouts in engine.loaded] == [[1] * 3, [256] * 3]


@pytest.mark.parametrize("name", ["double_pendulum", "sphere"])
def test_gradients_of_ahac_agree_with_differences(name: str) -> None:
    engine = worker.make_engine("ahac")
    for by_start in accuracy(engine, CASES[name], double=True, starts=2).values():
        assert isinstance(by_start, list)
        for one in by_start:
            assert one["error"] < TOLERANCE
            assert one["cosine"] > 1.0 - TOLERANCE


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_cases_are_consistent(case: Case) -> None:
    assert len(case.q) == len(case.v) == len(case.weights()) // 2
    assert len(case.control) == len(case.actuated) == len(case.joints)
    starts = case.starts(4)
    assert starts.shape == (4, case.inputs)
    np.testing.assert_array_equal(starts[0], [*case.q, *case.v, *case.control])
    assert len(np.unique(starts, axis=0)) == 4
    assert max(SIZES[True]) < max(SIZES[False])


def test_a_failure_of_an_engine_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> FakeEngine:
        raise RuntimeError("no such solver\nand many more lines")

    monkeypatch.setattr(worker, "make_engine", fail)
    assert worker.measured("accuracy", "ahac", "pendulum")["error"] == "RuntimeError: no such solver"


def results() -> dict[str, object]:
    one = {"cosine": 0.99999, "size": 1e-5, "spread": 1e-9, "nonfinite": 0, "norm": 1.0}
    good = {horizon: [one | {"error": 2e-8}, one | {"error": 1e-8}] for horizon in ("1", "10", "100")}
    lost = good | {"100": [one | {"error": None, "cosine": None, "nonfinite": 3, "norm": None}]}
    about = {"date": "2026-11-17", "machine": "a processor, 2 cores", "versions": {"ahac": "1.0"}, "settings": "some"}
    times = {"1": {"gradient": 0.002, "compile": 1.25}, "256": {"gradient": 0.01, "compile": 1.3}}
    return {
        "not_installed": ["brax-spring"],
        "results": {
            "accuracy/ahac/pendulum": about | {"figures": good},
            "accuracy/mjx/pendulum": about | {"figures": lost},
            "accuracy/brax-positional/pendulum": about | {"error": "ValueError: odd | odder"},
            "speed/ahac/sphere": about | {"figures": times},
        },
    }


def test_tables_show_figures_failures_and_missing_engines() -> None:
    text = tables(results())
    assert "| ahac | float64 | 2e-8 (1e-9) | 1.0000 |" in text
    assert "| not finite | – | – | 3 |" in text
    assert "| 2e-8 (1e-9) | 1.0000 | 1 | 0 |" in text
    assert "| Brax, positional | float64 | failed |" in text
    assert "- Brax, positional, pendulum (accuracy): `ValueError: odd | odder`" in text
    assert "| Brax, spring | not installed |" in text
    assert "| Brax, generalized | not measured |" in text
    assert "| ahac | 1.2 | 2 | 10 |" in text
    assert "a processor, 2 cores (2026-11-17)" in text


def test_only_the_part_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert fill(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert fill(fill(page, "new"), "newer") == fill(page, "newer")
    with pytest.raises(ValueError, match="must contain"):
        fill("no markers", "new")


def test_the_page_has_the_saved_figures() -> None:
    page = command.PAGE.read_text(encoding="utf-8")
    assert fill(page, tables(json.loads(command.RESULTS.read_text(encoding="utf-8")))) == page


def test_the_command_measures_what_is_missing_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, saved = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    asked: list[list[str]] = []

    def run(python: str, arguments: Sequence[str], limit: float) -> dict[str, object]:
        asked.append(list(arguments))
        if arguments[0] == "installed":
            return {"versions": {"ahac": "1.0"}, "engines": ["ahac", "ahac-float32"]}
        return {"error": "ValueError: none"}

    monkeypatch.setattr(command, "_worker", run)
    options = ["--results", str(saved), "--page", str(page), "--cases", "pendulum", "sphere", "--only", "ahac", "mjx"]
    assert command.main(options) == 0
    measured = [arguments for arguments in asked if arguments[0] != "installed"]
    assert measured == [["accuracy", "ahac", "pendulum"], ["accuracy", "ahac", "sphere"], ["speed", "ahac", "sphere"]]
    assert "| MJX, reverse mode | not installed |" in page.read_text(encoding="utf-8")
    asked.clear()
    assert command.main(options) == 0
    assert asked == [["installed"]]


def test_an_interpreter_that_does_not_run_is_an_error_in_one_line(tmp_path: Path) -> None:
    assert "cannot run" in command._worker(str(tmp_path / "absent"), ["installed"], 10.0)["error"]
    assert "status" in command._worker(sys.executable, ["unknown"], 60.0)["error"]


def test_a_relative_interpreter_is_that_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert command._absolute("./python") == str(tmp_path / "python")
    assert command._absolute(sys.executable) == sys.executable


def test_a_worker_reports_what_is_installed() -> None:
    here = command._worker(sys.executable, ["installed"], 60.0)
    assert "ahac" in here["engines"]
    assert here["versions"]["numpy"] == np.__version__
