"""Selection of the device, on machines with and without a GPU."""

from __future__ import annotations

import pytest
import torch

from ahac.core.device import resolve_device
from ahac.core.errors import InputError

BUSY = (
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
    "Search for `cudaErrorDevicesUnavailable' in the documentation of CUDA\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.mark.usefixtures("two_gpus")
def test_device_has_an_index_and_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[torch.device] = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device: tried.append(device))
    assert resolve_device("cuda") == torch.device("cuda:1")
    assert resolve_device("cuda:0") == torch.device("cuda:0")
    assert tried == [torch.device("cuda:1"), torch.device("cuda:0")]
    with pytest.raises(InputError, match="the number of CUDA devices is 2"):
        resolve_device("cuda:2")


@pytest.mark.usefixtures("two_gpus")
def test_busy_gpu_is_reported_with_the_cause_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, device: torch.device) -> None:
        raise RuntimeError(BUSY)

    monkeypatch.setattr(torch, "zeros", fail)
    with pytest.raises(InputError, match=r"run fewer processes on this GPU \(NVIDIA MPS serves at most 48") as caught:
        resolve_device("cuda:0")
    message = str(caught.value)
    assert message.startswith("device 'cuda:0' cannot be used: CUDA error: CUDA-capable device(s) is/are busy")
    assert "\n" not in message
    assert "TORCH_USE_CUDA_DSA" not in message


def test_cpu_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "zeros", None)
    assert resolve_device("cpu") == torch.device("cpu")
