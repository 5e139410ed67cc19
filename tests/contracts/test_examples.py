"""Every example runs: in a process of its own, in a folder of its own, with its smallest size."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

OWN_TESTS = ("codesign_hopper", "run_exported_policy", "log_to_wandb", "log_to_mlflow", "tune_with_optuna")
"""Examples that take minutes, files or packages; tests/unit/examples tests them."""

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in OWN_TESTS)
NEEDS = {"go1": "mjlab", "go1_velocity": "mjlab", "walking_robot": "mjlab"}
"""Packages that an example takes its robot from, where they are installed."""

TRAINING = [script for script in EXAMPLES if "ahac.train(" in script.read_text(encoding="utf-8")]
"""Examples that train a policy; the others print a table."""

FILES = {"export_policy": {"go1.json", "go1.onnx"}}
"""Files that examples of the second kind write."""

ITERATIONS = 2


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.extended
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_examples_run(script: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(script.stem)
    if needed and find_spec(needed) is None:
        pytest.skip(f"{script.name} takes its robot from {needed}: pip install --no-deps {needed}")
    done = run([str(script), str(ITERATIONS)], tmp_path)
    assert done.returncode == 0, done.stderr
    if script in TRAINING:
        (folder,) = re.findall(r"^return -?\d+ in (.+)$", done.stdout, flags=re.MULTILINE)
        assert len((tmp_path / folder / "metrics.csv").read_text(encoding="utf-8").splitlines()) == ITERATIONS + 1
    else:
        assert len(done.stdout.splitlines()) > 1
        assert {path.name for path in tmp_path.iterdir()} == FILES.get(script.stem, set())


def test_the_table_lists_every_example() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\w+\.py)\]\(\1\) \|.+\| `python examples/\1[^`|]*` \|$", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize(
    "script", [script for script in EXAMPLES if script.stem in NEEDS], ids=lambda script: script.stem
)
def test_examples_say_what_they_lack(script: Path, tmp_path: Path) -> None:
    needed = NEEDS[script.stem]
    code = f"""
import importlib.util, runpy
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {needed!r} else found(name, *more)
runpy.run_path({str(script)!r}, run_name="__main__")
"""
    done = run(["-c", code], tmp_path)
    assert done.returncode == 1
    assert f"pip install --no-deps {needed}" in done.stderr
