"""The report: what it says and in which order, and the files that it is written to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.core.text import listed
from ahac.experiments.plot import AXES
from ahac.experiments.report.data import Group, ReportData, read_report_data
from ahac.experiments.report.document import Block, Document, Figure, Section, Text, html_page, markdown_text
from ahac.experiments.report.figures import (
    MOST_BANDS,
    Styles,
    aggregate_figure,
    column_styles,
    curve_figure,
    profile_figure,
)
from ahac.experiments.report.paper import REFERENCE, RETURNS
from ahac.experiments.report.run_tables import common_folder, machine_table, run_table, skipped_table
from ahac.experiments.report.scores import (
    Normalization,
    Scope,
    aggregates,
    choose_scope,
    common_tasks,
    improvements,
    normalize,
    profiles,
)
from ahac.experiments.report.tables import (
    aggregate_table,
    improvement_table,
    normalized_table,
    raw_table,
    summary_table,
)
from ahac.stats.convergence import FLAT

__all__ = ["TITLE", "make_report", "write_report"]

TITLE = "Comparison of training runs"
"""Title of a report that was given none."""


def write_report(
    folders: Iterable[str | os.PathLike[str]],
    out: Path,
    *,
    markdown: Path | None = None,
    reference: str | None = None,
    title: str = TITLE,
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write a report of runs and return the files written.

    Args:
        folders: Run folders, folders of run folders, or archives of runs; they are grouped as by `ahac compare`.
        out: The HTML page, one file that needs no other.
        markdown: The same as Markdown, if asked for, with its figures as files NAME-FIGURE.svg next to it.
        reference: "paper" to show the figures of the AHAC paper next to ours.
        title: Title of the page.
        notes: Paragraphs of plain text above the summary.
    """
    document = make_report(folders, reference=reference, title=title, notes=notes)
    written = {out: html_page(document)}
    if markdown is not None:
        written[markdown] = markdown_text(document, markdown.stem)
        written |= {markdown.with_name(f"{markdown.stem}-{fig.name}.svg"): fig.svg for fig in document.figures()}
    for path, text in written.items():
        with atomic_write(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return list(written)


def make_report(
    folders: Iterable[str | os.PathLike[str]],
    *,
    reference: str | None = None,
    title: str = TITLE,
    notes: Sequence[str] = (),
) -> Document:
    """Return a report of runs as a document; see `write_report`."""
    if reference not in (None, REFERENCE):
        raise InputError(f"reference must be {REFERENCE!r} or None, got {reference!r}")
    if isinstance(notes, str):
        raise InputError(f"notes must be a list of texts, got the text {notes!r}; put it in a list")
    data = read_report_data(folders)
    normalization = normalize(data)
    scope = choose_scope(data, normalization)
    styles = column_styles(data.columns)
    paper = reference == REFERENCE
    return Document(
        title,
        [_introduction(data), *map(Text, notes)],
        [
            Section("Summary", [*_summary_texts(), summary_table(data)]),
            _curve_section(data, styles),
            _aggregate_section(data, normalization, scope, styles),
            _profile_section(data, normalization, scope, styles),
            _improvement_section(data),
            _paper_section(data, normalization, paper),
            Section("Machines and versions", [Text("From manifest.json of each run."), machine_table(data)]),
            _run_section(data),
        ],
    )


def _introduction(data: ReportData) -> Text:
    runs = sum(len(group.runs) for group in data.groups)
    incomplete = sum(group.incomplete for group in data.groups)
    text = f"{_count(runs, 'run')} of {_count(len(data.tasks), 'task')}, in {_count(len(data.groups), 'group')}"
    text += f"; {incomplete} incomplete" if incomplete else ""
    text += f"; {len(data.skipped)} more skipped as unusable" if data.skipped else ""
    return Text(f"{text}.")


def _summary_texts() -> list[Block]:
    return [
        Text(
            "The score is the interquartile mean over runs of the mean return in evaluation.json, which is that of the "
            "last policy, with its 95 % bootstrap interval over runs. Seconds are training time without compilation; "
            "seconds and environment steps are means over runs. The last tenth is the change of the return in training "
            f"from the tenth before; curves that change by more than {100.0 * FLAT:.0f} % are not flat."
        )
    ]


def _curve_section(data: ReportData, styles: Styles) -> Section:
    text = (
        "Return in training, of the policy with its noise. Lines are interquartile means over runs, bands their 95 % "
        f"bootstrap intervals at each point; figures of more than {MOST_BANDS} groups have no bands. Incomplete runs "
        "are left out where a group has complete ones; a curve ends where the shortest of its runs ends."
    )
    parts: list[Section] = []
    for number, task in enumerate(data.tasks, start=1):
        groups = [group for column in data.columns if (group := data.group(task, column)) is not None]
        caption = f"{task}: return against environment steps and seconds of training"
        figure = Figure(f"curves-{number}", curve_figure(groups, styles), caption)
        parts.append(Section(task, [figure, *(Text(why) for group in groups if (why := _without_curve(group)))]))
    return Section("Learning curves", [Text(text)], parts)


def _without_curve(group: Group) -> str:
    """Say why a group has no learning curve, or not on some axis; an empty text if it has one on all axes."""
    if not (lacking := group.axes_without_curve):
        return ""
    runs = len(group.curve_runs)
    if all(len(run.rows) == 1 < run.last("iteration") for run in group.curve_runs):
        return f"{group.column} has no curve: of its runs only the last iteration is known."
    where = f" over {' and '.join(AXES[axis] for axis in lacking)}" if group.has_curve else ""
    if without := group.without_return:
        reason = f"{without} of {_count(runs, 'run')} never had a return"
    else:
        reason = f"its runs have no range in common{' there' if where else ''}"
    return f"{group.column} has no curve{where}: {reason}."


def _aggregate_section(data: ReportData, normalization: Normalization, scope: Scope, styles: Styles) -> Section:
    blocks: list[Block] = [Text(_normalization_text(normalization)), *_scope_texts(normalization, scope)]
    found = aggregates(data, normalization, scope)
    if found:
        caption = "Aggregates over tasks: estimates as ticks, 95 % intervals as bars"
        blocks.append(
            Text(
                "Mean and median: over tasks, of the mean over runs. Interquartile mean: of all runs of all tasks. "
                "Optimality gap: by how much runs fall short of 1; lower is better. Intervals are 95 % stratified "
                "bootstrap intervals: runs are drawn anew within each task, tasks and units are fixed. Tasks with a "
                "single run add no uncertainty."
            )
        )
        blocks += [aggregate_table(found), Figure("aggregates", aggregate_figure(found, styles), caption)]
    return Section("Aggregate metrics", blocks)


def _profile_section(data: ReportData, normalization: Normalization, scope: Scope, styles: Styles) -> Section:
    found = profiles(data, normalization, scope)
    if not found:
        return Section("Score distributions", [Text("There are no aggregates, and so no score distributions.")])
    text = (
        "Performance profiles: the fraction of runs whose normalized score exceeds τ, mean over the same tasks as "
        f"above, with 95 % stratified bootstrap bands if there are at most {MOST_BANDS} of them. A curve above another "
        "at every τ is better."
    )
    caption = "Fraction of runs above a normalized score τ"
    return Section("Score distributions", [Text(text), Figure("profiles", profile_figure(found, styles), caption)])


def _improvement_section(data: ReportData) -> Section:
    text = (
        "The probability that a run of X has a higher score than a run of Y on the same task: the fraction of all "
        "pairs of runs (Mann-Whitney U, ties count half), mean over the tasks on which both were evaluated, with its "
        "95 % stratified bootstrap interval. 0.5 means no difference."
    )
    found = improvements(data)
    if not found:
        return Section("Probability of improvement", [Text("No two algorithms were evaluated on the same task.")])
    pairs = len(common_tasks(data))
    if pairs > len(found):
        text += (
            f" The table has {len(found)} of {pairs:,} pairs: those with the most common tasks, ties in the order of "
            "the summary. Report fewer runs to see the others."
        )
    return Section("Probability of improvement", [Text(text), improvement_table(found)])


def _paper_section(data: ReportData, normalization: Normalization, paper: bool) -> Section:
    raw: list[Block] = [Text("Scores as in the summary.")]
    if paper and not RETURNS.keys() & data.tasks:
        raw.append(Text("The paper has none of these tasks."))
        paper = False
    if paper:
        raw.append(Text("Columns of the paper: return at convergence, ten seeds (Georgiev et al., 2024)."))
    raw.append(raw_table(data, paper))
    unit = "PPO's score" if normalization.algo else "the score of the best algorithm"
    text = f"Scores divided by {unit} on the task"
    text += "; the paper's returns are divided by those of its PPO" if paper else ""
    normalized: list[Block] = [Text("No task has a score to divide by.")]
    if normalization.units:
        normalized = [Text(f"{text}."), normalized_table(data, normalization, paper)]
    parts = [Section("Raw", raw), Section("Normalized", normalized)]
    return Section("Tasks by algorithms", [], parts)


def _run_section(data: ReportData) -> Section:
    texts: list[Block] = [
        Text(f"Folders are relative to {_from_here(common_folder(data))}."),
        Text(
            "Changed settings are those that differ from this version's recipe of the task, algorithm and preset; – if "
            "there is none. The evaluation is the mean return; – if there is none of the last iteration."
        ),
    ]
    parts = [Section("Skipped", [skipped_table(data)])] if data.skipped else []
    return Section("Runs", [*texts, run_table(data)], parts)


def _from_here(folder: Path) -> Path:
    """Return a folder relative to the working directory, if it is in it: other machines have other paths."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) and folder != here else folder


def _normalization_text(normalization: Normalization) -> str:
    if not normalization.units:
        return "Scores are not normalized, and there are no aggregates, because no task has a score to divide by."
    if normalization.algo:
        unit = "PPO's score on the same task, the interquartile mean over its runs"
    else:
        unit = "the score of the best algorithm on the same task, since no run of PPO was evaluated"
    return f"The score of a run is its mean evaluation return. Scores are normalized: divided by {unit}."


def _scope_texts(normalization: Normalization, scope: Scope) -> list[Block]:
    """Say which tasks and columns the aggregates cover, and which they leave out."""
    texts: list[str] = [f"{task} is left out: {reason}." for task, reason in normalization.left_out.items()]
    if scope.left_out:
        texts.append(f"Not evaluated on all of these tasks, and therefore left out: {listed(list(scope.left_out))}.")
    if scope.tasks:
        texts.insert(0, f"{_count(len(scope.tasks), 'task')}: {', '.join(scope.tasks)}.")
    elif normalization.units:
        texts.append("There is no task on which all algorithms were evaluated, and so no aggregate.")
    return [Text(text) for text in texts]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
