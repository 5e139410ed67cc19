"""Tensor files: damage is detected before anything is loaded, and files of version 0.1.0 are still read."""

import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ahac.training.checkpoint import Checkpoint, checkpoint_names, load_checkpoint, save_checkpoint
from ahac.training.tensor_files import CheckpointError, read_tensors, write_tensors

TENSORS = {"algo/weight": torch.arange(12.0).reshape(3, 4), "algo/steps": torch.arange(3), "env/empty": torch.zeros(0)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "last.safetensors"
    write_tensors(path, TENSORS, {"about": "a test"})
    return path


def test_tensors_and_header_are_read_back(path: Path) -> None:
    tensors, header = read_tensors(path)
    assert {name: x.tolist() for name, x in tensors.items()} == {name: x.tolist() for name, x in TENSORS.items()}
    assert header == {"about": "a test", "version": "2"}


def test_no_flipped_bit_is_accepted(path: Path) -> None:
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    padding = len(content[8:end]) - len(content[8:end].rstrip(b" "))
    for place in range(len(content)):
        if end - padding <= place < end:  # spaces between header and data mean nothing
            continue
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(CheckpointError):
            read_tensors(path)


def test_changed_data_is_refused_by_its_checksum(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"last\.safetensors is damaged: its checksum does not match"):
        read_tensors(path)


def test_a_file_without_checksum_is_refused_unless_it_is_old(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_file(TENSORS, path, metadata={"version": "2"})
    with pytest.raises(CheckpointError, match="checksum"):
        read_tensors(path)
    save_file(TENSORS, path, metadata={"version": "1"})
    with caplog.at_level(logging.WARNING, "ahac"):
        assert read_tensors(path)[0].keys() == TENSORS.keys()
    assert "without a checksum" in caplog.text


NUMBERS = [
    "",
    "7",
    "[1]",
    "null",
    '{"iteration": "7"}',
    '{"iteration": null}',
    '{"iteration": NaN}',
    '{"iteration": true}',
]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_header_numbers_that_are_none_are_refused(numbers: str, path: Path) -> None:
    save_file(TENSORS, path, metadata={"version": "1", "numbers": numbers})
    with pytest.raises(CheckpointError, match="is damaged"):
        load_checkpoint(path)


@pytest.mark.parametrize("value", [-1.0, 0.5, float("inf"), None])
def test_a_counter_must_be_a_whole_number(value: float | None, path: Path) -> None:
    numbers = {} if value is None else {"iteration": value}
    save_file(TENSORS, path, metadata={"version": "1", "numbers": json.dumps(numbers)})
    with pytest.raises(CheckpointError, match="iteration"):
        load_checkpoint(path).count("iteration")


def test_temporary_files_are_not_checkpoints(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "best.safetensors", Checkpoint(TENSORS, {}))
    for name in (".last.4242.tmp.safetensors", ".best.77.tmp.safetensors"):
        (tmp_path / name).touch()
    assert checkpoint_names(tmp_path) == ["best"]
