"""What a wheel and a source distribution contain, against the files of the repository."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["ROOT", "find_distributions", "package_files", "project", "sdist_problems", "wheel_problems"]

ROOT = Path(__file__).resolve().parents[2]
MAX_WHEEL_BYTES = 4 * 2**20
"""Twice the size of version 0.2.0, which has 1.5 MB, and some room for pretrained policies."""
MAX_SDIST_BYTES = 16 * 2**20
"""Twice the size of version 0.2.0, which has 6.6 MB, half of them animations in docs/images."""
MAX_FILE_BYTES = 500 * 1024
"""Of one file in the wheel; the limit of the repository in .pre-commit-config.yaml."""

IGNORED = {"__pycache__", ".DS_Store", "MUJOCO_LOG.TXT"}
"""Names that are never distributed."""
CODE = {".py", ".h"}
DATA = {".html", ".json", ".csv", ".md", ".safetensors", ".toml", ".typed", ".xml"}
"""Suffixes of the files of the package. A new kind of file is added here, after a look at why it is there."""
KINDS = ("*.h", "*.html", "envs/assets/*.xml", "pretrained/*/checkpoints/*.safetensors", "py.typed", "studies/*.toml")
"""Patterns of files without which commands fail: each must match something."""
SDIST_FILES = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "NOTICE",
    "README.md",
    "docs/README.md",
    "pyproject.toml",
    "src/ahac/py.typed",
    "tests/contracts/test_distribution.py",
)
"""Some files of the source distribution, one from each place."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def package_files() -> set[str]:
    """Return the files of src/ahac as the wheel names them."""
    source = ROOT / "src"
    paths = (path.relative_to(source) for path in source.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not IGNORED & set(path.parts) and path.suffix in CODE | DATA}


def find_distributions(folder: Path) -> tuple[Path, Path]:
    """Return the only wheel and the only source distribution of a folder."""
    (wheel,), (sdist,) = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    return wheel, sdist


def wheel_problems(wheel: Path, expected: set[str]) -> list[str]:
    """Return what is wrong with a wheel, one line each.

    Args:
        wheel: The wheel.
        expected: Files of the package that it must have, as `package_files` returns them.
    """
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist() if not entry.is_dir()}
        (metadata_file,) = (name for name in sizes if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        metadata = Parser().parsestr(archive.read(metadata_file).decode())
    info = PurePosixPath(metadata_file).parent
    files = {name for name in sizes if not PurePosixPath(name).is_relative_to(info)}
    problems = [f"missing: {name}" for name in sorted(expected - files)]
    problems += [f"should not be there: {name}" for name in sorted(files - expected)]
    paths = [PurePosixPath(name) for name in files]
    problems += [f"no file matches {kind}" for kind in KINDS if not any(path.match(kind) for path in paths)]
    problems += [f"too large: {name} ({size} bytes)" for name, size in sizes.items() if size > MAX_FILE_BYTES]
    licenses = {PurePosixPath(name).name for name in sizes if PurePosixPath(name).is_relative_to(info / "licenses")}
    texts = {path.name for path in (ROOT / "LICENSES").iterdir()}
    problems += [f"license file missing: {name}" for name in sorted({"LICENSE", "NOTICE", *texts} - licenses)]
    return [*problems, *_size_problems(wheel, MAX_WHEEL_BYTES), *_metadata_problems(metadata)]


def sdist_problems(sdist: Path) -> list[str]:
    """Return what is wrong with a source distribution, one line each."""
    with tarfile.open(sdist) as archive:
        names = {PurePosixPath(*PurePosixPath(entry.name).parts[1:]).as_posix() for entry in archive if entry.isfile()}
    problems = [f"missing: {name}" for name in SDIST_FILES if name not in names]
    unwanted = [name for name in names if IGNORED & set(PurePosixPath(name).parts) or name.endswith(".pyc")]
    problems += [f"should not be there: {name}" for name in sorted(unwanted)]
    return [*problems, *_size_problems(sdist, MAX_SDIST_BYTES)]


def _size_problems(file: Path, limit: int) -> list[str]:
    size = file.stat().st_size
    return [f"{file.name} has {size} bytes, more than {limit}"] if size > limit else []


def _metadata_problems(metadata: Message) -> list[str]:
    """Return what is wrong with the metadata: version, links, extras, and the long description."""
    declared = project()
    problems = [f"version {metadata['Version']}"] if metadata["Version"] != declared["version"] else []
    labels = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    wanted = {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    problems += [f"no URL: {label}" for label in sorted(wanted - labels)]
    extras = set(metadata.get_all("Provides-Extra", []))
    problems += [f"no extra: {name}" for name in sorted(set(declared["optional-dependencies"]) - extras)]
    description = str(metadata.get_payload())
    relative = [link for link in LINK.findall(description) if not link.startswith(("https://", "#"))]
    problems += [f"link of the long description works in the repository only: {link}" for link in relative]
    if re.search(r"pip install '?\.", description) or "from a clone" in description:
        problems.append("the long description installs from a clone")
    return problems
