"""Peak memory of a process, whose unit depends on the system."""

import sys
from types import SimpleNamespace

import pytest
import torch

from ahac.bench import training

CPU = torch.device("cpu")


@pytest.mark.parametrize(("platform", "maxrss"), [("linux", 5_000), ("darwin", 5_000_000)])
def test_peak_memory_is_in_megabytes(platform: str, maxrss: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=maxrss))
    monkeypatch.setattr(training, "resource", usage)
    monkeypatch.setattr(sys, "platform", platform)
    assert training._peak(CPU) == 5.0


def test_peak_memory_is_unknown_without_the_module_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "resource", None)
    assert training._peak(CPU) is None
