# pyright: reportAttributeAccessIssue=false
"""What all tests share: the device they run on, and how other libraries behave meanwhile."""

import signal
from collections.abc import Iterator
from pathlib import Path

import mujoco
import pytest
import torch
import warp

from support import rounding


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=["cpu", "cuda"], default="cpu", help="where tests with a `device` run")
    parser.addoption("--rounding", choices=rounding.ROUNDINGS, default=rounding.HERE, help="compute like other CPUs")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda was asked for, but torch finds no CUDA device here")
    rounding.use(str(config.getoption("--rounding")))
    # Test processes share the cores among themselves.
    torch.set_num_threads(1)
    # By default MuJoCo writes its warnings to a file in the current folder.
    mujoco.set_mju_user_warning(lambda message: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """Where the simulator under test runs: --device, the CPU by default."""
    return torch.device(str(request.config.getoption("--device")))


@pytest.fixture(scope="session", autouse=True)
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Task files that tests train with are not trusted outside of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel cache, for this test alone."""
    warp.init()
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(warp.config, "kernel_cache_dir", str(folder))
    return folder


@pytest.fixture
def hangup_is_heard() -> Iterator[None]:
    """SIGHUP as usual, although these tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
