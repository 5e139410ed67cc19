"""Tables of a report about scores: summary, aggregates, probabilities of improvement, and the paper's layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ahac.core.text import listed
from ahac.experiments.report.data import Group, ReportData
from ahac.experiments.report.document import Table
from ahac.experiments.report.paper import ALGORITHMS, RETURNS
from ahac.experiments.report.scores import PPO, Estimate, Improvement, Normalization
from ahac.stats.across_tasks import METRICS
from ahac.stats.convergence import FLAT

__all__ = [
    "aggregate_table",
    "improvement_table",
    "interval_text",
    "normalized_table",
    "number_text",
    "raw_table",
    "summary_table",
]

NONE = "–"
"""Cell without a value."""


def number_text(value: float) -> str:
    """Return a number for a table: whole from 100 on, three digits below, "–" if it is unknown."""
    if not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if abs(value) >= 99.95 or value == round(value) else f"{value:.3g}"


def interval_text(low: float, high: float, form: str = "") -> str:
    """Return an interval for a table, numbers as in `number_text` or in the given format; "–" if it is unknown."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    first, last = (format(x, form) if form else number_text(x) for x in (low, high))
    return f"[{first}, {last}]"


def summary_table(data: ReportData) -> Table:
    """Return a row per task and column: score, interval, time, steps, seeds, and whether the curve is flat."""
    rows: list[tuple[str, ...]] = []
    for task in data.tasks:
        groups = [group for column in data.columns if (group := data.group(task, column)) is not None]
        rows += [(task if place == 0 else "", *_summary_cells(group)) for place, group in enumerate(groups)]
    header = ("task", "algorithm", "score", "95 % interval", "seconds", "env steps", "seeds", "last tenth", "notes")
    return Table(header, rows, left=(0, 1, len(header) - 1))


def _summary_cells(group: Group) -> tuple[str, ...]:
    summary = group.summary
    notes: list[str] = []
    if summary.evaluated < summary.runs:
        notes.append(f"{summary.evaluated} of {summary.runs} runs evaluated")
    if group.incomplete:
        notes.append(f"{group.incomplete} of {summary.runs} runs incomplete")
    if summary.runs > len(summary.seeds):
        notes.append(f"{summary.runs} runs: a seed occurs more than once")
    if group.skipped:
        notes.append(f"{group.skipped} more skipped")
    if group.different:
        notes.append(f"runs differ in {listed(group.different)}")
    change = group.last_tenth_change
    if abs(change) > FLAT:
        notes.append("not flat")
    return (
        group.column,
        number_text(summary.score),
        interval_text(summary.low, summary.high),
        number_text(summary.seconds),
        number_text(summary.env_steps),
        str(len(summary.seeds)),
        f"{100.0 * change:+.1f} %" if math.isfinite(change) else NONE,
        "; ".join(notes),
    )


def aggregate_table(aggregates: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Return a row per column, with the estimate and interval of each metric."""
    rows = [
        (column, *(_estimate_text(estimates[name]) for name in METRICS)) for column, estimates in aggregates.items()
    ]
    return Table(("algorithm", *METRICS), rows)


def _estimate_text(estimate: Estimate) -> str:
    interval = interval_text(estimate.low, estimate.high, ".2f")
    return _ratio(estimate.value) + ("" if interval == NONE else f" {interval}")


def improvement_table(improvements: Sequence[Improvement]) -> Table:
    """Return a row per pair of columns."""
    rows = [
        (
            pair.first,
            pair.second,
            _ratio(pair.probability.value),
            interval_text(pair.probability.low, pair.probability.high, ".2f"),
            str(pair.tasks),
        )
        for pair in improvements
    ]
    return Table(("X", "Y", "P(X > Y)", "95 % interval", "tasks"), rows, left=(0, 1))


def raw_table(data: ReportData, paper: bool) -> Table:
    """Return scores with a row per task and a column per algorithm, next to the paper's figures if asked for."""
    ours = {
        (task, column): number_text(group.summary.score)
        for task in data.tasks
        for column in data.columns
        if (group := data.group(task, column)) is not None
    }
    theirs = {(task, algo): number_text(value) for task, returns in RETURNS.items() for algo, value in returns.items()}
    return _paper_layout(data, data.tasks, ours, theirs if paper else {})


def normalized_table(data: ReportData, normalization: Normalization, paper: bool) -> Table:
    """Return the same in units of the normalization; the paper's figures in units of its PPO."""
    tasks = [task for task in data.tasks if task in normalization.units]
    ours = {
        (task, column): _ratio(group.summary.score / normalization.units[task])
        for task in tasks
        for column in data.columns
        if (group := data.group(task, column)) is not None
    }
    theirs = {
        (task, algo): _ratio(value / returns[PPO])
        for task, returns in RETURNS.items()
        for algo, value in returns.items()
    }
    return _paper_layout(data, tasks, ours, theirs if paper else {})


def _paper_layout(
    data: ReportData,
    tasks: Sequence[str],
    ours: Mapping[tuple[str, str], str],
    theirs: Mapping[tuple[str, str], str],
) -> Table:
    """Return a table of our columns, with that of the paper after the last one of each algorithm."""
    columns: list[tuple[str, Mapping[tuple[str, str], str], str]] = []
    algorithms = [algo for algo in ALGORITHMS if any((task, algo) in theirs for task in tasks)]
    for algo in dict.fromkeys([*algorithms, *data.algos.values()]):
        columns += [(column, ours, column) for column in data.columns if data.algos[column] == algo]
        columns += [(f"{algo}, paper", theirs, algo)] if algo in algorithms else []
    rows = [(task, *(values.get((task, key), NONE) for _, values, key in columns)) for task in tasks]
    return Table(("task", *(title for title, _, _ in columns)), rows)


def _ratio(value: float) -> str:
    """Return a normalized score or a probability for a table."""
    return f"{value:.2f}" if math.isfinite(value) else NONE
