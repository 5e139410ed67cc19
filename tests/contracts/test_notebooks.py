"""Notebooks: committed as they ran, readable without running them, and they run."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from support.marks import extended

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TOTAL_BYTES = 2000 * 1024
"""Of all notebooks together; tests/contracts/test_repository.py limits single files."""
OUTPUT_CHARACTERS = 250_000
"""Of one output: a player of a few seconds, or a figure."""
MACHINE = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|work|usr|opt|mnt|Users)/[\w.-]+")
"""Absolute paths, which belong to the machine of whoever ran the notebook."""
SECONDS = 300
"""Time limit of a cell."""

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:  # noqa: ANN401 - nbformat has no types
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def texts(output: Any) -> list[str]:  # noqa: ANN401
    """Texts of an output, without images."""
    data = {kind: text for kind, text in output.get("data", {}).items() if not kind.startswith("image/")}
    return [output.get("text", ""), *data.values()]


def test_there_are_notebooks_and_they_are_small() -> None:
    assert len(NOTEBOOKS) >= 4
    assert sum(path.stat().st_size for path in NOTEBOOKS) < TOTAL_BYTES


@each
def test_a_notebook_is_valid_and_begins_with_its_title(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")


@each
def test_a_notebook_was_executed_in_order_without_errors(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs), "GitHub shows images, but runs no scripts"


@each
def test_a_notebook_has_no_paths_of_a_machine_and_no_warnings(path: Path) -> None:
    for cell in read(path).cells:
        written = [cell.source, *(text for output in cell.get("outputs", []) for text in texts(output))]
        for text in written:
            assert not MACHINE.findall(text), f"cell {cell.id}"
            assert "Warning" not in text, f"cell {cell.id}"
            assert len(text) < OUTPUT_CHARACTERS, f"cell {cell.id}"


@each
def test_links_of_a_notebook_resolve(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]


@each
def test_a_notebook_can_run_in_small(path: Path) -> None:
    first, *others = (cell.source for cell in code_cells(path))
    assert 'SMALL = bool(os.environ.get("AHAC_SMALL"))' in first
    assert any("if SMALL else" in source for source in others) or "if SMALL else" in first


@pytest.mark.parametrize("path", extended(*NOTEBOOKS), ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: pip install nbclient ipykernel")
    notebook = read(path)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**os.environ, "AHAC_SMALL": "1"})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
