"""NOTICE against the metadata of installed packages: each that comes with this one is listed with its license."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^ {4}([a-z0-9][a-z0-9-]*)(?: (\S+))? {2,}(\S.*(?:\n {38}\S.*)*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def listed() -> dict[str, tuple[str, str]]:
    """Version, empty where it was not installed, and license, by name."""
    found = LINE.findall((ROOT / "NOTICE").read_text(encoding="utf-8"))
    return {name: (version, " ".join(license_.split())) for name, version, license_ in found}


def declared() -> list[str]:
    """What pyproject.toml asks for: always, by extras, and for development."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, groups = content["project"], content["dependency-groups"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name != "all"}  # of the others
    return [*project["dependencies"], *(line for lines in [*extras.values(), *groups.values()] for line in lines)]


def found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def requirements(lines: list[str], extras: frozenset[str] = frozenset()) -> Iterator[Requirement]:
    """Those of these that hold here, with these extras."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def reached() -> dict[str, str | None]:
    """Every package that pip installs, with the one that asks for it; None where that is this project."""
    by: dict[str, str | None] = {}
    waiting = [(requirement, None) for requirement in requirements(declared())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, parent = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        extras = frozenset(requirement.extras)
        by.setdefault(name, parent)
        installed = found(name)
        if (name, extras) in seen or installed is None:
            continue
        seen.add((name, extras))
        waiting += [(inner, name) for inner in requirements(installed.requires or [], extras)]
    return by


def checked(name: str, listed: dict[str, tuple[str, str]]) -> bool:
    """Whether the version that is installed is the one whose metadata NOTICE was written from."""
    installed = found(name)
    return installed is not None and name in listed and Version(installed.version).public == listed[name][0]


def test_every_package_is_listed(listed: dict[str, tuple[str, str]]) -> None:
    packages = reached()
    direct = {name for name, parent in packages.items() if parent is None}
    assert len(direct) > 15
    assert direct <= listed.keys(), "add these to NOTICE, with their licenses"
    # Later versions of packages may ask for others that were not there when NOTICE was written.
    unlisted = {name: parent for name, parent in packages.items() if name not in listed and parent is not None}
    assert not {name for name, parent in unlisted.items() if checked(str(parent), listed)}, "add these to NOTICE, too"


def test_licenses_are_those_of_the_metadata(listed: dict[str, tuple[str, str]]) -> None:
    for name in reached():
        installed = found(name)
        if installed is None or not checked(name, listed):
            continue
        for told in installed.metadata.get_all("License-Expression") or []:
            assert told == listed[name][1], f"license of {name} in NOTICE"


def test_the_license_of_ffmpeg_is_that_of_its_binary(listed: dict[str, tuple[str, str]]) -> None:
    text = " ".join((ROOT / "NOTICE").read_text(encoding="utf-8").split())
    assert "it is under the GPL-3.0-or-later" in text
    if not checked("imageio-ffmpeg", listed):
        pytest.skip("NOTICE was written from another version of imageio-ffmpeg")
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    for program in (Path(imageio_ffmpeg.__file__).parent / "binaries").glob("ffmpeg-linux-*"):
        told = subprocess.run([program, "-L"], capture_output=True, text=True, check=True).stdout
        assert "GNU General Public License" in told
        assert "either version 3 of the License, or (at your option) any later version" in " ".join(told.split())
