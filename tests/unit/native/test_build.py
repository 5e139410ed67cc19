"""Building kernels with a cold, damaged or unusable cache; forking during a build; time spent waiting."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import warp as wp

from ahac.core.errors import AhacError, CompileError
from ahac.native import build, warp_kernels
from ahac.native.build import Kernel, compile_seconds, wait_for_pending_builds
from ahac.native.codegen import MAX_ARRAYS, Target
from ahac.native.source import Source

DEADLINE = 100
"""Seconds after which a process counts as hanging; compiling takes a few seconds, longer on a busy machine."""
SCRIPT = """
import ctypes, os, signal, sys
from ahac.native.build import Kernel
from ahac.native.codegen import Target
from ahac.native.source import Source
x = ctypes.c_double(1.0)
kernel = Kernel(Source("toy", ("x",), "((double*)args.address[0])[0] += 41.0;", 1), Target("cpu", True, 32), "toy")
"""
LAUNCH = 'kernel.launch({"x": ctypes.addressof(x)}, items=1)\n'


def toy(number: int) -> Kernel:
    """Return a kernel that adds `number` to x; every number gives a different kernel."""
    body = f"((double*)args.address[0])[0] += {number}.0;"
    return Kernel(Source("toy", ("x",), body, 1), Target("cpu", True, 32), "robot")


def run(kernel: Kernel) -> float:
    x = ctypes.c_double(0.0)
    kernel.launch({"x": ctypes.addressof(x)}, items=1)
    return x.value


class Compiler:
    """Stands in for Warp: writes the missing files of a module and reads none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.compiled = 0

    def __call__(self, module: wp.Module, device: str, block_dim: int) -> None:
        folder = self.root / module.get_module_identifier(block_dim=block_dim)
        files = [folder / f"{folder.name}{suffix}" for suffix in (".cpp", ".cpu01.o", ".meta")]
        self.compiled += not all(file.exists() for file in files)
        folder.mkdir(exist_ok=True)
        for file in files:
            if not file.exists():
                file.write_bytes(b"compiled " * 100)

    def build(self, number: int) -> Path:
        """Build a kernel and return its module's folder."""
        toy(number).prepare()
        wait_for_pending_builds()
        (folder,) = (entry for entry in self.root.iterdir() if entry.name.startswith("wp_"))
        return folder


@pytest.fixture
def compiler(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    stand_in = Compiler(cold_cache)
    monkeypatch.setattr(wp, "load_module", stand_in)
    return stand_in


def object_file(folder: Path) -> Path:
    (path,) = folder.glob("*.o")
    return path


def test_a_cached_kernel_is_not_compiled_again(compiler: Compiler, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        compiler.build(1)
    assert compiler.compiled == 1
    assert not caplog.text


@pytest.mark.parametrize("suffix", [".o", ".cpp", ".meta", ".sha256"])
@pytest.mark.parametrize("content", [b"", b"\0" * 900, b"compiled " * 99 + b"compilee ", None])
def test_a_damaged_kernel_is_compiled_again_once(
    compiler: Compiler, caplog: pytest.LogCaptureFixture, suffix: str, content: bytes | None
) -> None:
    folder = compiler.build(1)
    (file,) = (entry for entry in folder.iterdir() if entry.name.endswith(suffix))
    intact = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    caplog.clear()
    assert compiler.build(1) == folder
    assert compiler.compiled == 2
    assert file.read_bytes() == intact
    if content is not None:
        (line,) = caplog.messages
        assert line == f"the kernel cache is damaged in {folder}; compiling the toy of 'robot' again"
    compiler.build(1)
    assert compiler.compiled == 2


def test_a_kernel_of_an_older_version_is_compiled_again_without_a_warning(
    compiler: Compiler, caplog: pytest.LogCaptureFixture
) -> None:
    (compiler.build(1) / "ahac.sha256").unlink()
    compiler.build(1)
    assert compiler.compiled == 2
    assert not caplog.text


def test_a_flipped_bit_of_an_object_file_is_repaired_before_it_is_loaded(
    cold_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = toy(100)
    assert run(kernel) == 100.0
    (folder,) = cold_cache.glob("wp_*")
    data = bytearray(object_file(folder).read_bytes())
    data[len(data) // 2] ^= 1
    object_file(folder).write_bytes(data)
    kernel._kernel.module.unload()  # as in a new process
    assert run(toy(100)) == 100.0
    assert "the kernel cache is damaged" in caplog.text
    assert not list(cold_cache.glob("*_p*_t*"))


def test_an_unwritable_cache_is_reported_with_a_remedy(tmp_path: Path, cold_cache: Path) -> None:
    cold_cache.rmdir()
    cold_cache.write_bytes(b"a file")
    with pytest.raises(CompileError) as caught:
        run(toy(200))
    assert isinstance(caught.value, AhacError)
    assert str(caught.value) == (
        f"cannot write to the kernel cache {cold_cache}: File exists; free some space, or set the environment variable "
        "WARP_CACHE_PATH to a writable folder"
    )


def test_a_damaged_kernel_in_a_read_only_cache_is_not_loaded(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = compiler.build(1)
    object_file(folder).write_bytes(b"")

    def refuse(path: Path, target: Path) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CompileError, match=f"{compiler.root}: Read-only file system; .* WARP_CACHE_PATH"):
        run(toy(1))


def test_any_other_failure_names_the_kernel_and_the_cause_in_one_line(
    cold_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ValueError("first line\nsecond line")

    monkeypatch.setattr(wp, "load_module", fail)
    with pytest.raises(CompileError, match=r"^compiling the toy of 'robot' for cpu failed: first line second line$"):
        run(toy(300))


def script(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a separate process with an empty cache, without torch."""
    environment = {"WARP_CACHE_PATH": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + body],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
        check=False,
    )


def test_a_cache_that_warp_cannot_open_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file")
    done = script(tmp_path, LAUNCH)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"CompileError: cannot write to the kernel cache {tmp_path / 'cache'}" in last
    assert "Not a directory; free some space, or set the environment variable WARP_CACHE_PATH" in last


def test_a_process_that_forks_while_a_kernel_is_compiled_can_use_it_in_parent_and_child(tmp_path: Path) -> None:
    body = f"kernel.prepare()\nchild = os.fork()\nsignal.alarm({DEADLINE})\n{LAUNCH}"
    body += "if child == 0:\n    os._exit(int(x.value))\n"
    body += "assert x.value == 42.0\nsys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    done = script(tmp_path, body)
    assert done.returncode == 42, done.stderr


def test_a_kernel_whose_compilation_was_cut_off_by_a_fork_raises(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupted wait before the fork, the child must not wait for a thread that it does not have."""
    release = threading.Event()
    monkeypatch.setattr(wp, "load_module", lambda *args, **options: release.wait())
    kernel = toy(400)
    kernel.prepare()
    for name in ("_starting", "_blocked", "_builders"):  # restored in this process afterwards
        monkeypatch.setattr(build, name, getattr(build, name))
    monkeypatch.setattr(build, "_building", {kernel})
    try:
        build._after_fork()
        with pytest.raises(CompileError, match="toy of 'robot' was being compiled when this process was forked"):
            run(kernel)
    finally:
        release.set()
        monkeypatch.undo()
        wait_for_pending_builds()


def test_waiting_for_a_kernel_counts_as_compile_time_and_running_it_does_not(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wp, "launch", MagicMock())
    kernel, before = toy(5), compile_seconds()
    run(kernel)
    waited = compile_seconds()
    assert waited > before
    run(kernel)
    assert compile_seconds() == waited


def test_threads_that_wait_at_the_same_time_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(build, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    blocked = build._WaitTimer()

    def later(seconds: float) -> float:
        clock.now += seconds
        return blocked.seconds()

    assert later(5.0) == 0.0
    with blocked.waiting():
        assert later(1.0) == 1.0
        with blocked.waiting():
            assert later(2.0) == 3.0
        assert later(4.0) == 7.0
    assert later(8.0) == 7.0


def test_cpu_kernels_read_the_launch_arguments_by_name() -> None:
    body = "double* const x = (double*)args.address[1]; x[0] = args.items; x[1] = args.count; x[2] = args.scalar;"
    kernel = Kernel(Source("toy", ("absent", "x"), body, 1), Target("cpu", True, 32), "robot")
    x = (ctypes.c_double * 3)()
    kernel.launch({"x": ctypes.addressof(x)}, items=3, count=7, scalar=0.5)
    assert list(x) == [3.0, 7.0, 0.5]


@pytest.mark.parametrize(("blocks", "threads"), [(None, 3 * 128), (5, 5 * 128)])
def test_cuda_launches_pass_arguments_in_the_order_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, blocks: int | None, threads: int
) -> None:
    command = MagicMock()
    monkeypatch.setattr(warp_kernels, "new_command", lambda kernel, target, block: command)
    monkeypatch.setattr(warp_kernels, "_stream", lambda device, handle: (device, handle))
    source = Source("toy", ("x", "absent", "y"), "", 1, threads_per_world=4)
    kernel = Kernel(source, Target("cuda:0", False, 16), "robot")
    kernel._ready.set()
    kernel.launch({"x": 11, "y": 12}, items=70, count=7, scalar=0.5, stream=9, blocks=blocks)
    params = [call.args for call in command.set_param_at_index_from_ctype.call_args_list]
    assert params == [(0, [11, 0, 12] + [0] * (MAX_ARRAYS - 3)), (1, 0.5), (2, 70), (3, 7)]
    command.set_dim.assert_called_once_with(threads)
    command.launch.assert_called_once_with(("cuda:0", 9))
