"""Atomic writes: checksums of JSON files, and leftovers of killed processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.core.files import HOST, read_json, remove_leftovers, set_aside, temporary_name, write_json


@pytest.fixture(scope="module")
def dead() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def change(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace("4.5", "9.5"), encoding="utf-8")


def test_a_changed_file_is_found_by_its_checksum(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "evaluation.json"
    write_json(path, {"mean": 4.5}, checksum=True)
    assert read_json(path) == {"mean": 4.5}
    change(path)
    with pytest.raises(InputError, match=r"evaluation\.json is damaged: its checksum does not match"):
        read_json(path)
    assert not caplog.messages
    assert read_json(path, editable=True) == {"mean": 9.5}
    assert "has changed since it was written" in caplog.text


def test_a_file_without_checksum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"seed": 1}), encoding="utf-8")
    assert read_json(path) == {"seed": 1}


@pytest.mark.parametrize("content", ["", "[1]", "{", "null", '{"a": 1'])
def test_content_other_than_a_dictionary_is_rejected(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        read_json(path, editable=True)


def test_leftovers_of_processes_that_ended_are_removed(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".last.ahac-{HOST}-{dead}.tmp.safetensors").touch()
    (tmp_path / f".metrics.{dead}.tmp.csv").touch()  # name used by version 0.1.0
    others = [
        temporary_name(tmp_path / "last.safetensors"),
        tmp_path / f".last.ahac-elsewhere-{dead}.tmp.safetensors",
        tmp_path / ".hidden",
        tmp_path / "run.1.tmp",
        tmp_path / f".evaluation.ahac-{HOST}-{os.getppid()}.tmp.json",
    ]
    for path in others:
        path.touch()
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_set_aside_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    for text in ("one", "two"):
        path.write_text(text, encoding="utf-8")
        set_aside(path, "damaged")
    path.write_text("three", encoding="utf-8")
    set_aside(path, "damaged", copy=True)
    kept = [(tmp_path / f"metrics.damaged-{n}.csv").read_text(encoding="utf-8") for n in (1, 2, 3)]
    assert kept == ["one", "two", "three"]
    assert path.read_text(encoding="utf-8") == "three"
