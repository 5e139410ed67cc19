"""`python -m distribution FOLDER`: check the wheel and the source distribution in a folder, as `make dist` does."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from distribution.contents import find_distributions, package_files, sdist_problems, wheel_problems
from distribution.install import install_wheel, use_package

__all__ = ["main"]


def main(folder: Path) -> int:
    """Print what is wrong, or the names and sizes of both files; return the exit status."""
    wheel, sdist = find_distributions(folder)
    problems = [f"{wheel.name}: {problem}" for problem in wheel_problems(wheel, package_files())]
    problems += [f"{sdist.name}: {problem}" for problem in sdist_problems(sdist)]
    if not problems:
        with tempfile.TemporaryDirectory() as outside:
            use_package(install_wheel(wheel.resolve(), Path(outside, "venv")), Path(outside))
    lines = problems or [f"{file}: {file.stat().st_size / 1e6:.1f} MB, contents checked" for file in (wheel, sdist)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
