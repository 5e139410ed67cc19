"""Install a wheel into a new virtual environment and use it from outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from distribution.contents import project

__all__ = ["install_wheel", "use_package"]

TIMEOUT = 300.0
"""Longest time of one command [s]; training compiles kernels on its first use."""
LOCATION = "import ahac, pathlib; print(pathlib.Path(ahac.__file__).parent, ahac.__version__)"


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Create a virtual environment with the wheel in it; return its folder of programs.

    Dependencies are those of the running interpreter. A .pth file adds their folder to the path; the .pth files in
    that folder, among them the one of an editable install of this project, are not read.
    """
    venv.create(folder, with_pip=False, symlinks=os.name == "posix")
    bin_folder = folder / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    _run([*pip, str(wheel)], folder)
    purelib = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    (Path(purelib) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return bin_folder


def use_package(bin_folder: Path, folder: Path) -> None:
    """Run commands of an installed package in a folder outside the repository; raise AssertionError if one fails.

    They read every kind of data file but the pages: tasks, pretrained policies, studies and native code.
    """
    ahac = str(bin_folder / "ahac")
    location, version = _run([str(bin_folder / "python"), "-c", LOCATION], folder).split()
    assert bin_folder.parent.resolve() in Path(location).resolve().parents, f"ahac is imported from {location}"
    assert version == project()["version"]
    assert _run([ahac, "--version"], folder).split() == ["ahac", version]
    assert "--record" in _run([ahac, "demo", "--help"], folder)
    for names, expected in {"tasks": "hopper", "algos": "shac", "pretrained": "go1", "studies": "paper-main"}.items():
        assert expected in _run([ahac, "list", names], folder), f"ahac list {names} does not list {expected}"
    run = _run([ahac, "train", "cartpole", "--iterations", "2", "--num-envs", "16", "--device", "cpu"], folder)
    saved = folder / run.splitlines()[-1] / "checkpoints" / "last.safetensors"
    assert saved.is_file(), f"training wrote no checkpoint: {run}"


def _run(command: list[str], folder: Path) -> str:
    """Run a command in a folder, without the paths of this process; return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert result.returncode == 0, f"{' '.join(command)}: exit status {result.returncode}\n{result.stderr}"
    return result.stdout
