"""What no linter checks about the repository: sizes of its files, and the task `make train`."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 500 * 1024
"""As in .pre-commit-config.yaml."""
MAX_ANIMATION_BYTES = 2000 * 1024
"""The same for docs/images/*.gif."""

AHAC = """#!/bin/sh
echo "$@" >> "$LOG"
[ "$1" = train ] || exit 0
echo progress >&2
echo "4 episodes: mean 1.0"
echo "$RUN"
exit $STATUS
"""


def limit(path: Path) -> int:
    animation = path.suffix == ".gif" and path.parent == ROOT / "docs" / "images"
    return MAX_ANIMATION_BYTES if animation else MAX_BYTES


def test_files_of_the_repository_are_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    files = [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    assert files
    large = [str(path.relative_to(ROOT)) for path in files if path.stat().st_size > limit(path)]
    assert not large, f"too large for the repository: {', '.join(large)}"


def make_train(folder: Path, run: str, status: int = 0) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run `make train` with a program in the place of ahac; return its result and the commands it ran."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    program = folder / "ahac"
    program.write_text(AHAC, encoding="utf-8")
    program.chmod(0o755)
    (folder / "installed").touch()
    (folder / "log").touch()
    variables = [f"BIN={folder}", f"TRAIN={folder / 'installed'}", "ARGS=--iterations 5"]
    result = subprocess.run(
        ["make", "--no-print-directory", "train", *variables],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "LOG": str(folder / "log"), "RUN": run, "STATUS": str(status)},
        capture_output=True,
        text=True,
        check=False,
    )
    return result, (folder / "log").read_text(encoding="utf-8").splitlines()


def test_make_train_evaluates_the_new_run(tmp_path: Path) -> None:
    run = tmp_path / "go1-ahac-s0"
    run.mkdir()
    (run / "config.json").touch()
    result, commands = make_train(tmp_path, str(run))
    assert result.returncode == 0, result.stderr
    assert commands == ["train go1 --iterations 5", f"eval {run} --engine mujoco"]
    assert result.stdout.splitlines()[:2] == ["4 episodes: mean 1.0", str(run)]
    assert f"ahac play {run}" in result.stdout


def test_make_train_stops_if_training_does(tmp_path: Path) -> None:
    result, commands = make_train(tmp_path, "", status=130)
    assert result.returncode != 0
    assert commands == ["train go1 --iterations 5"]


def test_make_train_evaluates_nothing_if_there_is_no_run(tmp_path: Path) -> None:
    result, commands = make_train(tmp_path, "--help shows the settings")
    assert result.returncode == 0
    assert commands == ["train go1 --iterations 5"]
