"""Tables of the page, from the saved figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradient_comparison.cases import CASES
from gradient_comparison.worker import ENGINES

__all__ = ["BEGIN", "END", "fill", "tables"]

BEGIN, END = "<!-- tables: begin, written by `make gradients` -->", "<!-- tables: end -->"
TITLES = {
    "ahac": "ahac",
    "ahac-float32": "ahac",
    "mjx": "MJX, reverse mode",
    "mjx-forward": "MJX, forward mode",
    "brax-generalized": "Brax, generalized",
    "brax-positional": "Brax, positional",
    "brax-spring": "Brax, spring",
    "newton-featherstone": "Newton, Featherstone",
    "newton-featherstone-solvers": "Newton, Featherstone, a solver per substep",
    "newton-semi-implicit": "Newton, semi-implicit",
}
HORIZONS = ("1", "10", "100")
Results = Mapping[str, Mapping[str, Any]]


def fill(page: str, generated: str) -> str:
    """Return a page with everything between the two markers replaced."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must contain {BEGIN!r} and {END!r} once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{generated}\n\n{END}{rest.split(END)[1]}"


def tables(found: Mapping[str, Any]) -> str:
    """Return the sections on setup, accuracy and speed, in Markdown."""
    results: Results = dict(sorted(found.get("results", {}).items()))
    parts = ["## Setup", _setup(results, found.get("not_installed", ())), "## Accuracy"]
    for name, case in CASES.items():
        parts += [f"### {case.title}", _accuracy(results, name)]
    return "\n\n".join([*parts, "## Speed", _speed(results), *_failures(results)])


def _of(results: Results, engine: str) -> list[Mapping[str, Any]]:
    return [result for key, result in results.items() if key.split("/")[1] == engine]


def _setup(results: Results, missing: Sequence[str]) -> str:
    machines = sorted({f"{result['machine']} ({result['date']})" for result in results.values()})
    rows: list[tuple[str, ...]] = []
    for engine, title in TITLES.items():
        measured = _of(results, engine)
        if engine == "ahac-float32":
            continue
        if not measured:
            rows.append((title, "not installed" if engine in missing else "not measured", ""))
            continue
        versions = " and ".join(sorted({_versions(result["versions"]) for result in measured}))
        settings = next((result["settings"] for result in measured if "settings" in result), "failed, see below")
        rows.append((title, settings, versions))
    machine = "Measured on: " + "; ".join(machines) + "." if machines else "Nothing is measured yet."
    return f"{machine}\n\n{_table(('engine', 'settings', 'versions'), rows, numbers=False)}"


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))


def _accuracy(results: Results, case: str) -> str:
    rows: list[tuple[str, ...]] = []
    for engine, title in TITLES.items():
        result = results.get(f"accuracy/{engine}/{case}")
        if result is None:
            continue
        precision = "float64" if ENGINES[engine][3] else "float32"
        if "error" in result:
            rows.append((title, precision, *("failed",) * (2 * len(HORIZONS)), "–", "–"))
            continue
        cells = [cell for horizon in HORIZONS for cell in _cells(result["figures"][horizon])]
        lost = sum(one["nonfinite"] for horizon in HORIZONS for one in result["figures"][horizon])
        norms = [one["norm"] for one in result["figures"][HORIZONS[-1]]]
        norm = "–" if None in norms else _number(max(norms))
        rows.append((title, precision, *cells, norm, str(lost)))
    head = [f"{name}, H = {horizon}" for horizon in HORIZONS for name in ("error (differences)", "cosine")]
    return _table(("engine", "precision", *head, "‖g‖, H = 100", "not finite"), rows) if rows else "Not measured."


def _cells(agreements: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the largest error over starts with the spread of that start's differences, and the smallest cosine."""
    if any(one["error"] is None for one in agreements):
        return "not finite", "–"
    worst = max(agreements, key=lambda one: one["error"])
    cosine = min(one["cosine"] for one in agreements)
    return f"{_short(worst['error'])} ({_short(worst['spread'])})", _cosine(cosine)


def _cosine(cosine: float) -> str:
    """Return a cosine, rounded down so that 1.0000 means no less than 0.99995."""
    return f"{math.floor(cosine * 1e4 + 0.5) / 1e4:.4f}"


def _number(number: float) -> str:
    if number >= 1e6:
        return _short(number)
    return f"{number:.0f}" if number >= 100.0 else f"{number:.3g}"


def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.0e}".replace("e-0", "e-").replace("e+", "e").replace("e0", "e")


def _speed(results: Results) -> str:
    names = list(dict.fromkeys(key.split("/")[2] for key in results if key.startswith("speed/")))
    cases = [name for name in CASES if name in names]
    rows: list[tuple[str, ...]] = []
    for engine, title in TITLES.items():
        cells: list[str] = []
        for case in cases:
            result = results.get(f"speed/{engine}/{case}")
            cells += _times(result)
        if any(cell != "–" for cell in cells):
            rows.append((title, *cells))
    head = [
        f"{CASES[case].name}: {what}" for case in cases for what in ("compile [s]", "1 world [ms]", "256 worlds [ms]")
    ]
    return _table(("engine", *head), rows) if rows else "Not measured."


def _times(result: Mapping[str, Any] | None) -> list[str]:
    if result is None:
        return ["–"] * 3
    if "error" in result:
        return ["failed"] * 3
    figures = result["figures"]
    times = [_number(1e3 * figures[worlds]["gradient"]) for worlds in ("1", "256")]
    return [f"{figures['1']['compile']:.1f}", *times]


def _failures(results: Results) -> list[str]:
    lines = [
        f"- {TITLES[key.split('/')[1]]}, {key.split('/')[2]} ({key.split('/')[0]}): `{result['error']}`"
        for key, result in results.items()
        if "error" in result
    ]
    return ["### Failures", "\n".join(lines)] if lines else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    lines = ["| " + " | ".join(re.sub(r"\|", "/", cell) for cell in row) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|---" + ("|---:" if numbers else "|---") * (len(head) - 1) + "|", *lines[1:]])
