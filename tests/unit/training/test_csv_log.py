"""Files are written completely or not at all, and a truncated table is read up to its last complete line."""

import csv
import json
import logging
import re
from pathlib import Path

import pytest

from ahac.core.files import atomic_write, write_json
from ahac.training import csv_log as module
from ahac.training.csv_log import CsvLog, read_csv


def row(iteration: int, **more: float) -> dict[str, float]:
    return {"iteration": float(iteration), "env_steps": 64.0 * iteration, **more}


def half(path: Path) -> None:
    """Write something and fail."""
    path.write_text("half", encoding="utf-8")
    raise IsADirectoryError


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_a_write_that_breaks_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": 2, "b": object()})
    with pytest.raises(IsADirectoryError), atomic_write(path) as unfinished:
        half(unfinished)
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_a_table_that_is_rewritten_is_never_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.csv"
    sink = CsvLog(path)
    for k in (1, 2, 3):
        sink.write(row(k))
    before = path.read_bytes()

    class Breaking(csv.DictWriter):
        def writerows(self, rows: object) -> None:
            raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.csv, "DictWriter", Breaking)
        with pytest.raises(OSError, match="no space left"):
            sink.write(row(4, new=1.0))
        with pytest.raises(OSError, match="no space left"):
            CsvLog(path, keep_until=2)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.csv"]


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_partial_last_line_is_skipped(cut: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever the line is cut: 3.0,192.5 without its last digit would be a valid but wrong number."""
    path = tmp_path / "metrics.csv"
    sink = CsvLog(path)
    for k in (1, 2, 3):
        sink.write(row(k, x=0.25 * k))
    path.write_bytes(path.read_bytes()[:-cut])
    with caplog.at_level(logging.WARNING, "ahac"):
        assert read_csv(path) == [row(1, x=0.25), row(2, x=0.5)]
    assert caplog.messages == [f"line 4 of {path} is damaged and skipped"]
    CsvLog(path, keep_until=3).write(row(3, x=0.75))
    assert [r["iteration"] for r in read_csv(path)] == [1, 2, 3]


@pytest.mark.parametrize("line", ["2.0,many,1.0", "2.0,128.0", "2.0,128.0,1.0,4.0", ",128.0,1.0", "\0\0\0", ""])
def test_only_the_damaged_line_is_skipped(line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"iteration,env_steps,x\r\n1.0,64.0,1.0\r\n{line}\r\n3.0,192.0,\r\n", encoding="utf-8", newline="")
    with caplog.at_level(logging.WARNING, "ahac"):
        assert read_csv(path) == [row(1, x=1.0), row(3)]
    assert caplog.messages == [f"line 3 of {path} is damaged and skipped"]


def test_many_damaged_lines_are_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("iteration,env_steps,x\r\n1.0,64.0,1.0\r\n" + "many\r\n" * 50, encoding="utf-8", newline="")
    with caplog.at_level(logging.WARNING, "ahac"):
        assert read_csv(path) == [row(1, x=1.0)]
    (message,) = caplog.messages
    assert re.fullmatch(rf"lines 3, 4, .* and \d+ more of {re.escape(str(path))} are damaged and skipped", message)


@pytest.mark.parametrize("content", [b"", b"iteration,env", b"\xff\xfe\r\n", b"x\r\n1.0\r\n"])
def test_a_table_without_rows_has_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    assert read_csv(path) == []
