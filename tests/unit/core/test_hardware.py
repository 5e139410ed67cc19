"""Hardware of this machine, also on systems that lack what Linux has."""

import os

import pytest

from ahac.core.hardware import pin_to_cores, split_cores, usable_cores


@pytest.fixture
def no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system as macOS and Windows, where processes cannot be pinned to cores."""
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(os, name, raising=False)


@pytest.mark.usefixtures("no_affinity")
def test_without_affinity_all_cores_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


@pytest.mark.usefixtures("no_affinity")
def test_without_affinity_jobs_get_no_cores_and_run_anywhere() -> None:
    assert list(split_cores(3)) == [set(), set(), set()]
    ran = False
    with pin_to_cores({0}):
        ran = True
    assert ran


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")
def test_pinning_is_undone() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    with pin_to_cores({core}):
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before
