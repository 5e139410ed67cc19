"""Commands that do not need torch do not import it, and copies of names agree with their originals."""

import subprocess
import sys
from pathlib import Path

import pytest

from ahac.algos.recipes import ALGOS, PRESETS
from ahac.cli import names, paths
from ahac.cli.main import COMMANDS
from ahac.envs import register_task, tasks
from ahac.envs import registry as task_registry
from ahac.sim.model.files import ROBOT_SUFFIXES

CODE = """
import sys
from ahac.cli.main import main
for line in sys.stdin:
    try:
        status = main(line.split())
    except SystemExit as end:
        status = end.code or 0
    print("RESULT", status, "torch" in sys.modules, flush=True)
"""
REFUSED = [
    "train", "train hoper", "train hoper --help", "train --num-envs 3", "eval nowhere", "resume nowhere",
    "export nowhere", "compare nowhere", "sweep nowhere.txt", "play --port 99999999", "play ant --port 99999999",
    "play nowhere", "play nowhere.npz", "play nowhere.xml", "inspect nowhere", "inspect nowhere.xml",
    "identify nowhere.xml a.npz --parameters x", "list nothing", "completion ksh", "grad study",
    "grad landscape", "grad check",
]  # fmt: skip
HELP = ["", "--version", *(f"{name} --help" for name in COMMANDS), "train --help-all", "list runs", "completion bash"]


@pytest.mark.parametrize(("commands", "status"), [(HELP, 0), (REFUSED, 2)])
def test_torch_is_not_imported(commands: list[str], status: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    expected = [f"RESULT {status} False"] * len(commands)
    assert dict(zip(commands, results, strict=True)) == dict(zip(commands, expected, strict=True))
    if status == 2:
        assert len(done.stderr.splitlines()) == len(commands), "one line each"


def test_copied_names_are_current() -> None:
    assert set(names.TASKS) == task_registry._tasks._builtin
    assert tuple(tasks()[: len(names.TASKS)]) == names.TASKS
    assert tuple(ALGOS) == names.ALGOS
    assert names.PRESETS == PRESETS
    assert paths.ROBOT_SUFFIXES == ROBOT_SUFFIXES


def test_names_without_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ahac.envs.registry")
    assert names.task_names()[: len(names.TASKS)] == [*names.TASKS]


def test_tasks_that_a_program_registers_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_registry._tasks, "_factories", dict(task_registry._tasks._factories))
    register_task("mine", lambda variant: task_registry.make_task("cartpole", variant))
    names.check_task("mine")
