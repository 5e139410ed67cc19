"""The distributions: one version everywhere, complete wheels, and a wheel that works outside the repository."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from distribution import contents
from distribution.install import install_wheel, use_package

ROOT = contents.ROOT
INFO = "ahac-0.dist-info"
LABELS = ("Homepage", "Documentation", "Repository", "Issues", "Changelog")


def write_wheel(path: Path, files: dict[str, bytes], description: str = "[a](https://x.org/a)") -> Path:
    """A wheel with correct metadata and licenses, and these files of the package."""
    project = contents.project()
    fields = [
        f"Version: {project['version']}",
        *(f"Project-URL: {label}, https://x.org" for label in LABELS),
        *(f"Provides-Extra: {name}" for name in project["optional-dependencies"]),
    ]
    licenses = ["LICENSE", "NOTICE", *(f"LICENSES/{file.name}" for file in (ROOT / "LICENSES").iterdir())]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{INFO}/METADATA", "\n".join(fields) + f"\n\n{description}")
        for name in licenses:
            archive.writestr(f"{INFO}/licenses/{name}", "text")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def files() -> dict[str, bytes]:
    return dict.fromkeys(contents.package_files(), b"")


def test_a_complete_wheel_has_no_problems(files: dict[str, bytes], tmp_path: Path) -> None:
    assert contents.wheel_problems(write_wheel(tmp_path / "a.whl", files), set(files)) == []


@pytest.mark.parametrize(
    "name",
    [
        "ahac/py.typed",
        "ahac/envs/assets/go1.xml",
        "ahac/studies/smoke.toml",
        "ahac/native/lanes.h",
        "ahac/view/player.html",
        "ahac/pretrained/go1/checkpoints/last.safetensors",
    ],
)
def test_a_missing_file_is_a_problem(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    expected = set(files)
    del files[name]
    assert f"missing: {name}" in contents.wheel_problems(write_wheel(tmp_path / "a.whl", files), expected)


@pytest.mark.parametrize(
    "name", ["tests/test_a.py", "ahac/core/__pycache__/env.cpython-311.pyc", "ahac/runs/a/last.safetensors"]
)
def test_a_file_that_is_not_of_the_package_is_a_problem(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "a.whl", {**files, name: b""})
    assert contents.wheel_problems(wheel, set(files)) == [f"should not be there: {name}"]


def test_a_large_file_is_a_problem(files: dict[str, bytes], tmp_path: Path) -> None:
    files["ahac/py.typed"] = bytes(contents.MAX_FILE_BYTES + 1)
    (problem,) = contents.wheel_problems(write_wheel(tmp_path / "a.whl", files), set(files))
    assert problem.startswith("too large: ahac/py.typed")


@pytest.mark.parametrize("description", ["[a](docs/a.md)", "![a](a.png)", "pip install '.[view]'"])
def test_a_description_for_the_repository_is_a_problem(
    description: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "a.whl", files, description)
    (problem,) = contents.wheel_problems(wheel, set(files))
    assert "description" in problem


def test_files_missing_from_a_source_distribution_are_problems(tmp_path: Path) -> None:
    file = tmp_path / "ahac-0.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(ROOT / "LICENSE", "ahac-0/LICENSE")
        archive.add(ROOT / "LICENSE", "ahac-0/src/ahac/__pycache__/a.py")
    problems = contents.sdist_problems(file)
    assert "missing: NOTICE" in problems
    assert "missing: LICENSE" not in problems
    assert "should not be there: src/ahac/__pycache__/a.py" in problems


def test_every_file_of_the_package_has_a_known_kind() -> None:
    package = ROOT / "src" / "ahac"
    listed = contents.package_files()
    found = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    unknown = {name for name in found - listed if not contents.IGNORED & set(Path(name).parts)}
    assert not unknown, f"add the suffixes of these files to DATA in tests/distribution/contents.py: {unknown}"


def test_the_citation_and_the_changelog_have_the_version_of_the_project() -> None:
    version = contents.project()["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [version]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d.*?)\]", changelog, flags=re.MULTILINE)[0] == version


def test_the_extra_all_has_every_other_extra() -> None:
    extras = contents.project()["optional-dependencies"]
    (line,) = extras["all"]
    assert line == f"ahac[{','.join(sorted(set(extras) - {'all'}))}]"


def test_continuous_integration_has_the_python_versions_of_the_classifiers() -> None:
    named = [line.rpartition(" :: ")[2] for line in contents.project()["classifiers"] if ":: Python :: 3." in line]
    versions = sorted(named, key=lambda name: int(name.partition(".")[2]))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert f"python: {versions}".replace("'", '"') in workflow
    first, last = versions[0], f"3.{int(versions[-1].split('.')[1]) + 1}"
    assert contents.project()["requires-python"] == f">={first},<{last}"


@pytest.mark.extended
def test_the_wheel_works_outside_the_repository(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    wheel, sdist = contents.find_distributions(tmp_path / "dist")
    assert contents.wheel_problems(wheel, contents.package_files()) == []
    assert contents.sdist_problems(sdist) == []
    twine = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    checked = subprocess.run(twine, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    use_package(install_wheel(wheel, tmp_path / "venv"), tmp_path)
