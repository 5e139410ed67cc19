"""Dockerfiles, as far as they can be checked without Docker: what they copy exists, and they do not run as root."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docker").glob("Dockerfile.*"))


def instructions(file: Path) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile with their arguments, in order, without comments."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    pairs = [line.split(maxsplit=1) for line in joined if line.strip()]
    return [(name, " ".join(text.split())) for name, text in pairs]


def allowed() -> set[str]:
    """What .dockerignore leaves in the context: it excludes everything, then lists exceptions."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    return {line[1:] for line in lines if line.startswith("!")}


def test_there_is_one_for_the_cpu_and_one_for_cuda() -> None:
    assert [file.suffix for file in FILES] == [".cpu", ".cuda"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_that_are_copied_exist_and_are_in_the_context(file: Path) -> None:
    arguments = [text.split() for name, text in instructions(file) if name == "COPY"]
    sources = {word for words in arguments if not words[0].startswith("--from") for word in words[:-1]}
    assert sources == allowed()
    assert all((ROOT / source).exists() for source in sources)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_smoke_test_runs_as_another_user_than_root(file: Path) -> None:
    steps = instructions(file)
    users = [text for name, text in steps if name == "USER"]
    assert users == ["10001"]
    assert steps.index(("RUN", "ahac doctor")) > steps.index(("USER", "10001"))
    assert ("ENTRYPOINT", '["ahac"]') in steps
