"""The command line with an intact, damaged or unusable kernel cache."""

from pathlib import Path

import pytest
import warp as wp

from ahac.cli.doctor import findings
from ahac.cli.main import main
from ahac.native.cache import record


def kernel(cache: Path, name: str) -> Path:
    folder = cache / f"wp__cpu_kernel__locals__kernel_{name}"
    folder.mkdir()
    (folder / f"{folder.name}.o").write_bytes(b"x" * 10**6)
    return folder


def report() -> list[str]:
    return [finding.text for finding in findings() if finding.text.startswith("kernel cache:")]


def test_intact_cache_is_one_line(cold_cache: Path) -> None:
    record(kernel(cold_cache, "one"))
    record(kernel(cold_cache, "two"))
    assert report() == [f"kernel cache: 2 kernels, 2 MB in {cold_cache} (writable)"]


def test_damaged_kernels_are_named_and_unchecked_ones_counted(cold_cache: Path) -> None:
    record(kernel(cold_cache, "good"))
    damaged = kernel(cold_cache, "damaged")
    record(damaged)
    (damaged / f"{damaged.name}.o").write_bytes(b"")
    kernel(cold_cache, "old")
    assert report() == [
        f"kernel cache: 3 kernels, 2 MB in {cold_cache} (writable)",
        f"kernel cache: 1 DAMAGED, recompiled on next use: {damaged.name}",
        "kernel cache: 1 without checksums, recompiled on next use",
    ]


def test_read_only_cache_is_reported_with_the_fix(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahac.native.cache.unwritable", lambda root, size: "Read-only file system")
    assert main(["doctor"]) == 1
    assert report() == [
        f"kernel cache: 0 kernels, 0 MB in {cold_cache} (NOT writable: Read-only file system; free some space, or "
        "set WARP_CACHE_PATH to a writable folder)"
    ]


def test_unusable_cache_is_reported(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold_cache.rmdir()
    cold_cache.write_bytes(b"a file")

    def fail() -> None:
        raise NotADirectoryError(20, "Not a directory", str(cold_cache))

    monkeypatch.setattr(wp, "init", fail)
    (line,) = report()
    assert main(["doctor"]) == 1
    assert line.startswith(f"kernel cache: cannot write to the kernel cache {cold_cache}: Not a directory; ")


def test_command_fails_with_one_line_if_the_cache_is_unusable(
    cold_cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cold_cache.rmdir()
    cold_cache.write_bytes(b"a file")
    robot = tmp_path / "robot.xml"
    robot.write_text('<mujoco><worldbody><body><joint/><geom size=".123"/></body></worldbody></mujoco>')
    assert main(["grad", "check", str(robot), "--states", "1", "--steps", "1"]) == 2
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("ahac:")] == [
        f"ahac: cannot write to the kernel cache {cold_cache}: File exists; free some space, or set the environment "
        "variable WARP_CACHE_PATH to a writable folder"
    ]
    assert not any("Traceback" in line for line in said)
