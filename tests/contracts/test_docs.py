"""Documentation: code blocks run, in order and one namespace per page, and links resolve."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from ahac.algos import registry as algorithms
from ahac.envs import registry
from support.marks import extended

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = (
    "training",
    "simulating",
    "parameters",
    "identification",
    "viewing",
    "your-own-robot",
    "memory-and-randomness",
    "commands-and-disturbances",
    "evaluating-in-mujoco",
    "walking",
)
"""Pages that compile several robots, or train."""
COMMANDS_ONLY = ("hardware", "sweeps")
"""Guides that show no Python."""
PAGES = [
    *(ROOT / "docs" / name for name in ("getting-started.md", "gradients.md")),
    *sorted(page for page in (ROOT / "docs" / "guides").glob("*.md") if page.stem not in COMMANDS_ONLY),
]


@pytest.mark.parametrize(
    "page", [extended(page)[0] if page.stem in LONG else page for page in PAGES], ids=lambda page: page.stem
)
def test_code_on_guide_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of it writes files
    for table in (registry._tasks, algorithms._algorithms):  # and registers tasks and algorithms
        monkeypatch.setattr(table, "_factories", dict(table._factories))
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks, f"{page} shows no code"
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


def test_the_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    printed: list[torch.Tensor] = []
    exec(compile(example, "README.md", "exec"), {"print": printed.append})
    (gradient,) = printed
    assert (gradient > 0).all()


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    counts: Counter[str] = Counter()
    names: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{name}-{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return names


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_links_between_documents_resolve(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for file, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = (page.parent / file).resolve() if file else page
        if "://" in file:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(f"{file}#{anchor}" if anchor else file)
    assert not broken, f"{page.name} links to {broken}"
