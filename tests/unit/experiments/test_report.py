"""Reports of synthetic run folders: what their tables say, and the files that are written."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.experiments.report import scores
from ahac.experiments.report.data import read_report_data
from ahac.experiments.report.document import Document, Figure, Section, Table, Text
from ahac.experiments.report.figures import MOST_BANDS, _shortened, aggregate_figure
from ahac.experiments.report.page import make_report, write_report
from ahac.experiments.report.paper import ALGORITHMS, RETURNS
from ahac.experiments.report.run_tables import changed_settings, machine_table, run_table, skipped_table
from ahac.experiments.report.scores import Estimate
from ahac.experiments.report.tables import number_text, raw_table, summary_table
from ahac.experiments.run_files import read_run
from ahac.stats.across_tasks import METRICS
from support.run_folders import MANIFEST, write_run

SECTIONS = [
    "Summary",
    "Learning curves",
    "Aggregate metrics",
    "Score distributions",
    "Probability of improvement",
    "Tasks by algorithms",
    "Machines and versions",
    "Runs",
]
VOID = {"meta", "link", "img"}
"""Elements without an end tag."""


class Page(HTMLParser):
    """Checks that elements are nested and collects cells, images, identifiers and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name.startswith("on")], "no scripts"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two tasks: AHAC and PPO with two seeds on each."""
    folder = tmp_path / "runs"
    for task, scale in (("ant", 1.0), ("hopper", 10.0)):
        for seed in (0, 1):
            ahac, ppo = scale * (300.0 + 100.0 * seed), scale * (100.0 + 200.0 * seed)
            write_run(folder / f"{task}-ahac-s{seed}", seed, task=task, algo="ahac", score=ahac, manifest=MANIFEST)
            write_run(folder / f"{task}-ppo-s{seed}", seed, task=task, algo="ppo", score=ppo, manifest=MANIFEST)
    return folder


def table(part: Document | Section, *titles: str) -> Table:
    """The table of a section."""
    title, *rest = titles
    (section,) = [section for section in part.sections if section.title == title]
    if rest:
        return table(section, *rest)
    (found,) = [block for block in section.blocks if isinstance(block, Table)]
    return found


def texts(document: Document, title: str) -> str:
    """The paragraphs of a section."""
    (section,) = [section for section in document.sections if section.title == title]
    return " ".join(block.text for block in section.blocks if isinstance(block, Text))


def svg_texts(figure: Figure) -> list[str]:
    """The texts in a figure."""
    return [text.text or "" for text in ElementTree.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_report_has_all_sections_in_order(runs: Path) -> None:
    document = make_report([runs], reference="paper")
    assert [section.title for section in document.sections] == SECTIONS
    assert [part.title for part in document.sections[1].sections] == ["hopper", "ant"], "as in the paper"
    assert [figure.name for figure in document.figures()] == ["curves-1", "curves-2", "aggregates", "profiles"]
    for figure in document.figures():
        assert ElementTree.fromstring(figure.svg).tag.endswith("svg")
    found = table(document, "Aggregate metrics")
    assert found.header == ("algorithm", "mean", "median", "interquartile mean", "optimality gap")
    # PPO's score is the unit, 200 and 2000; AHAC's mean is 350 and 3500.
    # Both runs of both tasks are the lower ones in 1/16 of the bootstrap samples, more than 2.5 %.
    assert [row[:3] for row in found.rows] == [
        ("ahac", "1.75 [1.50, 2.00]", "1.75 [1.50, 2.00]"),
        ("ppo", "1.00 [0.50, 1.50]", "1.00 [0.50, 1.50]"),
    ]
    assert "divided by PPO's score on the same task" in texts(document, "Aggregate metrics")
    # AHAC's 300 and 400 against PPO's 100 and 300: three wins and a tie of four pairs.
    assert [row[:3] for row in table(document, "Probability of improvement").rows] == [("ahac", "ppo", "0.88")]
    normalized = table(document, "Tasks by algorithms", "Normalized")
    assert normalized.header[:5] == ("task", "ahac", "ahac, paper", "shac, paper", "ppo")
    assert normalized.rows[0][:5] == ("hopper", "1.75", "1.10", "1.02", "1.00")


def test_notes_are_plain_text_above_the_summary(runs: Path, tmp_path: Path) -> None:
    notes = ["SAC was <b>stopped</b> early.", "Pilot runs are *not* part of it."]
    write_report([runs], tmp_path / "a.html", markdown=tmp_path / "a.md", notes=notes)
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    shown = [text for text in page.text if text.strip()]
    summary = max(place for place, text in enumerate(shown) if text == "Summary")
    assert shown.index(notes[0]) < shown.index(notes[1]) < summary
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert r"SAC was \<b\>stopped\</b\> early." + "\n\n" + r"Pilot runs are \*not\* part of it." in text
    assert text.index("Pilot runs") < text.index("## Summary")
    with pytest.raises(InputError, match="notes must be a list of texts, got the text 'SAC'; put it in a list"):
        make_report([runs], notes="SAC")


def test_a_shortened_table_of_probabilities_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(runs / "ant-sac-s0", algo="sac", score=5.0)
    assert "of 3 pairs" not in texts(make_report([runs]), "Probability of improvement")
    monkeypatch.setattr(scores, "MOST_PAIRS", 2)
    document = make_report([runs])
    assert [row[:2] for row in table(document, "Probability of improvement").rows] == [("ahac", "ppo"), ("ahac", "sac")]
    assert "The table has 2 of 3 pairs: those with the most" in texts(document, "Probability of improvement")


def test_the_summary_has_a_row_per_task_and_algorithm(runs: Path) -> None:
    write_run(runs / "hopper-sac-s0", task="hopper", algo="sac", returns=[1.0, 2.0])
    found = summary_table(read_report_data([runs]))
    assert found.header[:3] == ("task", "algorithm", "score")
    assert found.rows == [
        ("hopper", "ahac", "3,500", "[3,000, 4,000]", "6", "300", "2", "–", ""),
        ("", "ppo", "2,000", "[1,000, 3,000]", "6", "300", "2", "–", ""),
        ("", "sac", "–", "–", "4", "200", "1", "–", "0 of 1 runs evaluated; 1 of 1 runs incomplete"),
        ("ant", "ahac", "350", "[300, 400]", "6", "300", "2", "–", ""),
        ("", "ppo", "200", "[100, 300]", "6", "300", "2", "–", ""),
    ]


@pytest.mark.parametrize(("rise", "flat"), [(0.5, True), (-0.8, True), (2.0, False), (-3.0, False)])
def test_the_summary_marks_curves_that_are_not_flat(rise: float, flat: bool, tmp_path: Path) -> None:
    returns = [50.0] * 70 + [100.0] * 20 + [100.0 + rise] * 10
    for seed in (0, 1):
        write_run(tmp_path / f"ant-shac-s{seed}", seed, returns, iterations=100)
    ((*_, change, notes),) = summary_table(read_report_data([tmp_path])).rows
    assert float(change.removesuffix(" %")) == pytest.approx(rise, rel=0.2)  # curves have values between iterations
    assert ("not flat" in notes) == (not flat)


def test_the_papers_figures_are_next_to_ours(runs: Path) -> None:
    write_run(runs / "ant-bptt-s0", algo="bptt", score=5.0)
    data = read_report_data([runs])
    ours = raw_table(data, paper=False)
    assert ours.header == ("task", "ahac", "ppo", "bptt")
    assert ours.rows == [("hopper", "3,500", "2,000", "–"), ("ant", "350", "200", "5")]
    both = raw_table(data, paper=True)
    assert both.header == (
        "task", "ahac", "ahac, paper", "shac, paper", "ppo", "ppo, paper", "sac, paper", "svg, paper", "bptt"
    )  # fmt: skip
    assert both.rows[1] == ("ant", "350", "9,313", "7,662", "200", "6,605", "6,275", "5,482", "5")


def test_a_task_that_the_paper_lacks_has_no_figures_of_it(tmp_path: Path) -> None:
    write_run(tmp_path / "go1-ahac-s0", task="go1", algo="ahac", score=5.0)
    assert raw_table(read_report_data([tmp_path]), paper=True).header == ("task", "ahac")
    (tables,) = [part for part in make_report([tmp_path], reference="paper").sections if part.title.startswith("Tasks")]
    shown = " ".join(block.text for part in tables.sections for block in part.blocks if isinstance(block, Text))
    assert "The paper has none of these tasks." in shown
    assert "Columns of the paper" not in shown
    assert "the paper's returns" not in shown


def test_figures_of_the_paper() -> None:
    assert [RETURNS[task]["ahac"] for task in RETURNS] == [5216, 9313, 17562, 9846, 6746]
    assert [RETURNS["anymal"][algo] for algo in ALGORITHMS] == [17562, 15157, 12029, 11788, 10104]
    assert list(RETURNS["humanoid"].values()) == [9846, 8387, 7293, 7285, 7731]


def test_incomplete_runs_are_marked_and_unusable_ones_listed(runs: Path) -> None:
    write_run(runs / "ant-shac-s0", returns=[1.0])
    write_run(runs / "ant-sac-s0", algo="sac", returns=[1.0], env_steps=5000)
    write_run(runs / "ant-svg-s0", algo="svg", returns=[])
    (write_run(runs / "ant-svg-s1", 1, algo="svg") / "evaluation.json").write_text("{", encoding="utf-8")
    data = read_report_data([runs])
    rows = {row[0]: row for row in run_table(data).rows}
    assert len(rows) == 10
    assert rows["ant-shac-s0"][-1] == "no: 1 of 3 iterations"
    assert rows["ant-sac-s0"][-1] == "no: 100 of 5,000 steps"
    assert rows["ant-ahac-s1"][-1] == "yes"
    assert rows["ant-ahac-s1"][5:9] == ("1", "300", "6", "400")
    skipped = {row[0]: row[1] for row in skipped_table(data).rows}
    assert list(skipped) == ["ant-svg-s0", "ant-svg-s1"]
    assert skipped["ant-svg-s0"] == "it has no completed iteration"
    assert skipped["ant-svg-s1"].startswith("evaluation.json is damaged"), "without the folder of this machine"
    document = make_report([runs])
    assert table(document, "Runs", "Skipped").rows == skipped_table(data).rows
    introduction = " ".join(block.text for block in document.introduction if isinstance(block, Text))
    assert introduction == "10 runs of 2 tasks, in 6 groups; 2 incomplete; 2 more skipped as unusable."


def test_notes_tell_what_is_odd_about_a_group(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"ant-ahac-s{seed}", seed, algo="ahac", score=1.0)
        write_run(tmp_path / f"ant-ppo-s{seed}", seed, algo="ppo", score=1.0, num_envs=64 + seed)
    write_run(tmp_path / "ant-ahac-s2", 2, algo="ahac", returns=[])
    (write_run(tmp_path / "ant-ahac-s3", 3, algo="ahac") / "config.json").write_text("{", encoding="utf-8")
    write_run(tmp_path / "ant-ppo-s1-2", 1, algo="ppo", score=1.0, algorithm={"gamma": 0.5})
    notes = {row[1]: row[-1] for row in summary_table(read_report_data([tmp_path])).rows}
    assert notes == {
        "ahac": "1 more skipped",
        "ppo": "3 runs: a seed occurs more than once; runs differ in algorithm.gamma, num_envs",
    }


def test_a_group_without_a_curve_is_marked_with_the_reason_below_the_figure(tmp_path: Path) -> None:
    nan = float("nan")
    for seed, returns in enumerate(([1.0, 2.0, 3.0], [nan, nan, nan])):
        write_run(tmp_path / f"ant-ahac-s{seed}", seed, algo="ahac", returns=returns)
        write_run(tmp_path / f"ant-ppo-s{seed}", seed, algo="ppo", returns=[1.0, nan, 3.0])
        apart = [1.0, None, None] if seed else [None, None, 1.0]
        write_run(tmp_path / f"ant-sac-s{seed}", seed, algo="sac", returns=apart)
        metrics = write_run(tmp_path / f"ant-shac-s{seed}", seed, algo="shac") / "metrics.csv"
        metrics.write_text("iteration,env_steps,seconds,episode_return\n3,300,6.0,\n", encoding="utf-8")
    document = make_report([tmp_path])
    (section,) = document.sections[1].sections
    assert [block.text for block in section.blocks if isinstance(block, Text)] == [
        "ahac has no curve: 1 of 2 runs never had a return.",
        "shac has no curve: of its runs only the last iteration is known.",
        "sac has no curve: its runs have no range in common.",
    ]
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    for label in ("ppo (2 seeds)", *(f"{algo} (no curve)" for algo in ("ahac", "shac", "sac"))):
        assert f">{label}<" in figure.svg
    assert texts(document, "Learning curves").startswith("Return in training, of the policy with its noise.")


def test_a_group_can_have_a_curve_on_one_axis_only(tmp_path: Path) -> None:
    for seed in range(2):
        metrics = write_run(tmp_path / f"ant-ahac-s{seed}", seed, algo="ahac") / "metrics.csv"
        rows = [f"{k},{100 * k},{10.0 * seed + k},{k}" for k in (1, 2, 3)]  # the second run starts its clock later
        metrics.write_text("\n".join(["iteration,env_steps,seconds,episode_return", *rows, ""]), encoding="utf-8")
    (section,) = make_report([tmp_path]).sections[1].sections
    figure, *others = section.blocks
    assert others == [Text("ahac has no curve over seconds of training: its runs have no range in common there.")]
    assert isinstance(figure, Figure)
    labels = svg_texts(figure)
    assert labels.count("ahac (2 seeds)") == 1
    assert labels.count("no group whose runs have a range in common") == 1
    assert labels.count("300") == 1, "of environment steps"
    assert "0.8" not in labels, "an empty axis from 0 to 1"


def test_a_figure_without_curves_has_no_numbers(tmp_path: Path) -> None:
    write_run(tmp_path / "ant-ahac-s0", algo="ahac", returns=[None, None, None])
    (figure,) = make_report([tmp_path]).figures()
    assert sorted(set(svg_texts(figure))) == [
        "ahac (no curve)", "environment steps", "no group whose runs all have a return yet", "return in training",
        "seconds of training",
    ]  # fmt: skip


def test_only_the_columns_that_are_shown_are_kept(runs: Path) -> None:
    path = runs / "ant-ahac-s0" / "metrics.csv"
    path.write_text("iteration,env_steps,seconds,episode_return,horizon\n1,10,1,5,16\n", encoding="utf-8")
    group = read_report_data([runs]).group("ant", "ahac")
    assert group is not None
    assert group.runs[0].rows == [{"iteration": 1.0, "env_steps": 10.0, "seconds": 1.0, "episode_return": 5.0}]


def test_folders_are_relative_to_the_working_directory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent)
    assert "Folders are relative to runs." in texts(make_report([runs]), "Runs")
    monkeypatch.chdir("/")
    assert f"Folders are relative to {runs.relative_to('/')}." in texts(make_report([runs]), "Runs")


def test_bars_of_intervals_end_where_the_intervals_end() -> None:
    """Caps of thick lines would make them wider by the thickness of the line."""
    svg = aggregate_figure({"ahac": dict.fromkeys(METRICS, Estimate(1.0, 0.0, 2.0))}, {"ahac": ("#123456", "-")})
    bars = [line for line in svg.splitlines() if "stroke-width: 7" in line]
    assert len(bars) == len(METRICS)
    assert not [line for line in bars if "stroke-linecap" in line], "the document's default is butt"
    assert "*{stroke-linejoin: round; stroke-linecap: butt}" in svg


@pytest.mark.parametrize("groups", [MOST_BANDS, MOST_BANDS + 1])
def test_figures_of_many_groups_have_no_bands(groups: int, tmp_path: Path) -> None:
    for k in range(groups):
        for seed in range(2):
            write_run(tmp_path / f"ant-ahac-{k}-s{seed}", seed, algo="ahac", returns=[1.0 + seed, 2.0, 3.0], score=1.0)
    curves, _, profile = make_report([tmp_path]).figures()
    wanted = groups if groups == MOST_BANDS else 0
    assert curves.svg.count("fill-opacity: 0.15") == 2 * wanted, "one per axis"
    assert profile.svg.count("fill-opacity: 0.15") == wanted


@pytest.mark.parametrize(("iterations", "logarithmic"), [(12, False), (300, True)])
def test_the_axis_is_logarithmic_if_one_curve_is_much_longer(
    iterations: int, logarithmic: bool, tmp_path: Path
) -> None:
    write_run(tmp_path / "ant-ahac-s0", returns=[1.0, 2.0, 3.0], algo="ahac", score=1.0)
    write_run(tmp_path / "ant-ppo-s0", returns=[1.0] * iterations, algo="ppo", score=1.0, iterations=iterations)
    curves, *_ = make_report([tmp_path]).figures()
    labels = set(svg_texts(curves))
    assert ({"100", "1k", "10k"} <= labels) == logarithmic
    assert ("0" in labels) != logarithmic, "a linear axis starts at 0, a logarithmic one has no 0"


def test_paths_are_shortened_without_changing_their_shape() -> None:
    lines = '<path d="M 1.26 2.999 \nL 3.04 4 \nL 5 6.123456 \nz\nM 7 8 \nL 9 10 \n" x="1.23"/>'
    assert _shortened(lines) == '<path d="M 1.2 2.9 3.0 4 5 6.1 z M 7 8 9 10 " x="1.23"/>'
    curves = '<path d="M 0 1.55 \nC 1 2 3 4 5 6 \nL 7 8.88 \nz\n"/>'
    assert _shortened(curves) == '<path d="M 0 1.5 C 1 2 3 4 5 6 L 7 8.8 z "/>'


def test_figures_are_short() -> None:
    svg = aggregate_figure({"ahac": dict.fromkeys(METRICS, Estimate(1 / 3, 1 / 7, 2 / 3))}, {"ahac": ("#123456", "-")})
    paths = re.findall(r' d="([^"]*)"', svg)
    assert paths
    assert not [path for path in paths if re.search(r"\.\d{2}", path)]
    assert "<text" in svg, "letters are not paths"


def test_an_incomplete_run_does_not_shorten_the_curve_of_complete_ones(runs: Path) -> None:
    write_run(runs / "ant-ahac-s2", 2, algo="ahac", returns=[1.0])
    write_run(runs / "ant-sac-s0", algo="sac", returns=[1.0])
    data = read_report_data([runs])
    lengths = {
        column: [len(run.rows) for run in group.curve_runs]
        for column in ("ahac", "sac")
        if (group := data.group("ant", column)) is not None
    }
    assert lengths == {"ahac": [3, 3], "sac": [1]}


def test_runs_of_several_folders_are_listed_with_their_folder(runs: Path) -> None:
    write_run(runs.parent / "more" / "ant-ahac-s0", algo="ahac", score=1.0)
    data = read_report_data([runs, runs.parent / "more"])
    assert {row[0].partition("/")[0] for row in run_table(data).rows} == {"runs", "more"}


def test_machines_and_versions_are_those_of_the_manifests(runs: Path) -> None:
    write_run(runs / "ant-shac-s0", manifest={**MANIFEST, "gpu": "NVIDIA H200", "git": None})
    write_run(runs / "ant-shac-s1", 1)
    write_run(runs / "ant-shac-s2", 2, manifest={"versions": 3, "git": [], "cores": {"a": 1}})
    found = machine_table(read_report_data([runs]))
    rows = [dict(zip(found.header, row, strict=True)) for row in found.rows]
    assert sorted(row["runs"] for row in rows) == ["1", "1", "1", "8"]
    (most,) = [row for row in rows if row["runs"] == "8"]
    assert (most["host"], most["GPU"], most["torch"]) == ("box", "–", "2.11.0")
    assert most["commit"] == "012345678 + changes"
    assert found.header[-2:] == ("runs", "platform")
    assert (most["platform"], found.header.index("runs") in found.left) == ("Linux", False)
    assert [row["GPU"] for row in rows if row["commit"] == "–"].count("NVIDIA H200") == 1


def test_changed_settings_are_those_that_differ_from_the_recipe(tmp_path: Path) -> None:
    from ahac.core.config import to_dict
    from ahac.training.api import configure

    recipe = to_dict(configure("ant", "shac"))
    config = {name: value for name, value in recipe.items() if name not in ("seed", "task", "algo")}
    as_recipe = write_run(tmp_path / "a-s0", **json.loads(json.dumps(config)))
    assert changed_settings(read_run(as_recipe)) == ""
    config["algorithm"]["gamma"] = 0.5
    config["algorithm"]["actor"]["hidden"] = [8, 8]
    config |= {"num_envs": 7, "env_steps": 1000, "device": "cuda", "iterations": 1}
    changed = write_run(tmp_path / "b-s0", **json.loads(json.dumps(config)))
    found = changed_settings(read_run(changed))
    assert sorted(found.split(", ")) == [
        "algorithm.actor.hidden=8 8", "algorithm.gamma=0.5", "env_steps=1000", "num_envs=7",
    ]  # fmt: skip
    assert changed_settings(read_run(write_run(tmp_path / "c-s0", algo="mine"))) == "–"
    assert changed_settings(read_run(write_run(tmp_path / "d-s0", task="mine.py:robot"))) == "–"


def test_the_page_is_one_file_that_needs_no_other(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert write_report([runs], out, title="My <title>") == [out]
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("img") == 4
    assert page.tags.count("table") == 7
    assert text.count('<table class="lines">') == 1, "of machines"
    assert "script" not in page.tags
    assert "default-src 'none'" in text
    anchors = {address for address in page.addresses if address.startswith("#")}
    assert anchors == {f"#{name}" for name in page.ids}
    assert len(set(page.ids)) == len(page.ids)
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert page.text.count("My <title>") == 2
    pictures = [address.partition(",") for address in page.addresses if address.startswith("data:image")]
    assert {kind for kind, _, _ in pictures} == {"data:image/svg+xml"}
    for _, _, data in pictures:
        assert not set('<>"#&\n') & set(data), "a browser would cut the address or change it"
        assert ElementTree.fromstring(unquote(data)).tag.endswith("svg")


def test_the_page_is_the_same_again(runs: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report([runs], tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    names = ["<script>alert(1)<", "a|b`*_[x](y)", "\x1b[31m\udcff", '"onload="x', "__BODY__ __TITLE__", "&lt;"]
    for name in names:
        write_run(tmp_path / "runs" / f"{name}-s0", task=f"{name}'", score=1.0)
    out = tmp_path / "report.html"
    write_report([tmp_path / "runs"], out, markdown=tmp_path / "a.md", title=names[0])
    page = Page(out.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    for name in names:
        shown = name.replace("\x1b", r"\x1b").replace("\udcff", r"\udcff")
        assert f"{shown}-s0" in page.text
        assert page.text.count(f"{shown}'") >= 3, "in tables, headings and contents"
    lines = (tmp_path / "a.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == r"# \<script\>alert\(1\)\<"
    assert any(line.startswith(r"| a\|b\`\*\_\[x\]\(y\)-s0 |") for line in lines)


def test_markdown_has_the_same_tables_and_figures_next_to_it(runs: Path, tmp_path: Path) -> None:
    written = write_report([runs], tmp_path / "a.html", markdown=tmp_path / "b.md")
    figures = [f"b-{name}.svg" for name in ("curves-1", "curves-2", "aggregates", "profiles")]
    assert [path.name for path in written] == ["a.html", "b.md", *figures]
    lines = (tmp_path / "b.md").read_text(encoding="utf-8").splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")] == SECTIONS
    assert lines[lines.index("## Summary") + 4 :][:3] == [
        "| task | algorithm | score | 95 % interval | seconds | env steps | seeds | last tenth | notes |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --- |",
        r"| hopper | ahac | 3,500 | \[3,000, 4,000\] | 6 | 300 | 2 | – |  |",
    ]
    assert [line.partition("(")[2] for line in lines if line.startswith("![")] == [f"{name})" for name in figures]


def test_names_of_figures_with_other_characters_are_in_angle_brackets(runs: Path, tmp_path: Path) -> None:
    write_report([runs], tmp_path / "a.html", markdown=tmp_path / "b (1).md")
    assert "](<b (1)-curves-1.svg>)\n" in (tmp_path / "b (1).md").read_text(encoding="utf-8")


def test_runs_without_evaluations_have_a_page_as_well(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "ant-shac-s0", returns=[None, None, None])
    write_run(tmp_path / "runs" / "ant-ahac-s0", algo="ahac", returns=[1.0])
    document = make_report([tmp_path / "runs"], reference="paper")
    assert [section.title for section in document.sections] == SECTIONS
    assert "no task has a score to divide by" in texts(document, "Aggregate metrics")
    assert "ant is left out: no run was evaluated." in texts(document, "Aggregate metrics")
    assert "No two algorithms" in texts(document, "Probability of improvement")
    assert [figure.name for figure in document.figures()] == ["curves-1"]


def test_a_report_needs_a_usable_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a run nor a folder of runs"):
        make_report([tmp_path])
    write_run(tmp_path / "ant-shac-s0", returns=[])
    with pytest.raises(InputError, match="none of the runs can be used: ant-shac-s0: it has no completed iteration"):
        make_report([tmp_path])


def test_an_unknown_reference_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reference must be 'paper' or None, got 'other'"):
        make_report([tmp_path], reference="other")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1234.5, "1,234"), (99.96, "100"), (99.94, "99.9"), (5.0, "5"), (0.1234, "0.123"), (-1e6, "-1,000,000")],
)
def test_numbers_in_tables(value: float, wanted: str) -> None:
    assert number_text(value) == wanted


def test_unknown_numbers_in_tables() -> None:
    assert number_text(np.nan) == "–"
