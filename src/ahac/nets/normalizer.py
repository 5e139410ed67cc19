"""Observations at zero mean and unit variance, by statistics that grow with what is seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup

__all__ = ["FrozenNormalizer", "Normalizer"]

FLOOR = 1e-5
"""Added to variances."""
FIRST_COUNT = 1e-4
"""Weight of the initial guess, mean 0 and variance 1."""


class FrozenNormalizer:
    """The statistics of one moment: a rollout is seen through one view, while the statistics grow."""

    def __init__(self, mean: Tensor, variance: Tensor, enabled: bool = True) -> None:
        self.mean = mean
        self.scale = torch.rsqrt(variance + FLOOR)
        self.enabled = enabled

    def __call__(self, x: Tensor) -> Tensor:
        """(x − mean) / √(variance + 1e-5), or x itself where nothing is normalised; gradients flow through x alone."""
        return self.scaled(self.center(x))

    def center(self, x: Tensor) -> Tensor:
        """Its first half, x − mean."""
        return x - self.mean if self.enabled else x

    def scaled(self, x: Tensor) -> Tensor:
        """Its second half; of weights that are applied to centred observations as well."""
        return x * self.scale if self.enabled else x

    def copy_from(self, other: FrozenNormalizer) -> None:
        """See as another view does, without moving: recorded work looks through the same tensors."""
        self.mean.copy_(other.mean)
        self.scale.copy_(other.scale)

    def denormalize(self, x: Tensor) -> Tensor:
        """What was normalised, as it was."""
        return x / self.scale + self.mean if self.enabled else x


class Normalizer(nn.Module):
    """Running mean and variance, merged batch by batch (Chan's parallel formula)."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int, enabled: bool = True, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.enabled = enabled
        self.register_buffer("mean", torch.zeros(size, dtype=dtype))
        self.register_buffer("variance", torch.ones(size, dtype=dtype))
        # In float32 a count would stop growing in a long training.
        self.register_buffer("count", torch.tensor(FIRST_COUNT, dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Tensor, sound: Tensor | None = None, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        """Learn from [B, size] observations on each rank, where `sound`, a bool on the device, says so."""
        if not self.enabled:
            return
        variance, mean = torch.var_mean(batch, dim=0, correction=0)
        mean, variance = ranks.merge_moments(mean, variance)
        seen = len(batch) * ranks.size
        total = self.count + seen
        share = (seen / total).to(mean.dtype)
        delta = mean - self.mean
        spread = self.variance + (variance - self.variance) * share + delta.square() * share * (1.0 - share)
        for old, new in ((self.mean, self.mean + delta * share), (self.variance, spread), (self.count, total)):
            old.copy_(new if sound is None else torch.where(sound, new, old))

    def frozen(self) -> FrozenNormalizer:
        """The statistics as they are now."""
        return FrozenNormalizer(self.mean.clone(), self.variance.clone(), self.enabled)
