"""What the documents show is run: code blocks in order, each page in a namespace of its own."""

import re
from pathlib import Path

import pytest
import torch

from ahac.envs import registry
from support.marks import extended

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = ("training", "simulating", "viewing")
"""Pages that compile several robots, or train."""
PAGES = [*sorted((ROOT / "docs" / "guides").glob("*.md")), ROOT / "docs" / "gradients.md"]


@pytest.mark.parametrize(
    "page", [extended(page)[0] if page.stem in LONG else page for page in PAGES], ids=lambda page: page.stem
)
def test_code_on_guide_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of it writes files
    monkeypatch.setattr(registry._tasks, "_factories", dict(registry._tasks._factories))  # and registers tasks
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks, f"{page} shows no code"
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


def test_the_readmes_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    robot = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .1">
      <joint name="x" type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody>
      <actuator><motor joint="x"/></actuator></mujoco>"""
    (tmp_path / "robot.xml").write_text(robot, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown: list[torch.Tensor] = []
    exec(compile(example, "README.md", "exec"), {"print": shown.append})
    (gradient,) = shown
    assert (gradient > 0).all()


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing, f"{page.name} links to {missing}"
