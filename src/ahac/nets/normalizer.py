"""Normalization of observations to zero mean and unit variance, with running statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["FrozenNormalizer", "Normalizer"]

FLOOR = 1e-5
"""Added to the variance."""
FIRST_COUNT = 1e-4
"""Weight of the initial statistics, mean 0 and variance 1, in samples."""


class FrozenNormalizer:
    """A snapshot of a normalizer's statistics, used for a whole rollout."""

    def __init__(self, mean: Tensor, variance: Tensor, enabled: bool = True) -> None:
        self.mean = mean
        self.scale = torch.rsqrt(variance + FLOOR)
        self.enabled = enabled

    def __call__(self, x: Tensor) -> Tensor:
        """(x − mean) / √(variance + 1e-5), or x itself when disabled; gradients flow to x only."""
        return self.scaled(self.center(x))

    def center(self, x: Tensor) -> Tensor:
        """Return x − mean: the first half of the normalization."""
        return x - self.mean if self.enabled else x

    def scaled(self, x: Tensor) -> Tensor:
        """Return x / √(variance + 1e-5): the second half, also for weights applied to centered observations."""
        return x * self.scale if self.enabled else x

    def copy_from(self, other: FrozenNormalizer) -> None:
        """Copy another snapshot in place: captured CUDA graphs keep reading the same tensors."""
        self.mean.copy_(other.mean)
        self.scale.copy_(other.scale)

    def denormalize(self, x: Tensor) -> Tensor:
        """Invert the normalization."""
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
        # In float32 the count would stop growing in a long training run.
        self.register_buffer("count", torch.tensor(FIRST_COUNT, dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Tensor, valid: Tensor | None = None) -> None:
        """Merge [B, size] observations; skip the update if `valid`, a bool on the device, is false."""
        if not self.enabled:
            return
        variance, mean = torch.var_mean(batch, dim=0, correction=0)
        samples = len(batch)
        total = self.count + samples
        share = (samples / total).to(mean.dtype)
        delta = mean - self.mean
        merged = self.variance + (variance - self.variance) * share + delta.square() * share * (1.0 - share)
        for old, new in ((self.mean, self.mean + delta * share), (self.variance, merged), (self.count, total)):
            old.copy_(new if valid is None else torch.where(valid, new, old))

    def like(self, size: int) -> Normalizer:
        """Return a new normalizer of another size, with the same settings, precision and device."""
        return Normalizer(size, self.enabled, self.mean.dtype).to(self.mean.device)

    def frozen(self) -> FrozenNormalizer:
        """Return a snapshot of the current statistics."""
        return FrozenNormalizer(self.mean.clone(), self.variance.clone(), self.enabled)
