"""What a rollout and its backward pass taught: numbers that stay on their device until all of them are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.rl.recordings import queued
from ahac.rl.rollout import Rollout

__all__ = ["Lesson", "Told", "told"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """Of one rollout."""

    rollout: Rollout
    next_value: Tensor
    """[T, N] what the critic said of the states that were reached; without gradients."""
    targets: Tensor
    """[T, N] what it should have said of the states before."""
    sound: Tensor
    """Bool: whether everything that the policy learnt from is finite; else it learnt nothing."""
    numbers: Mapping[str, Tensor]
    """To log, by name."""
    stiffness: Tensor | None
    """[T] mean over worlds, where it was measured at every step."""
    growth: Tensor | None
    """[T − 1] norms of the adjoint of the state, where something looks at them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """A lesson's numbers on the host."""

    sound: bool
    numbers: dict[str, float]
    stiffness: Tensor | None
    growth: Tensor | None


def told(lesson: Lesson, more: Mapping[str, Tensor]) -> Told:
    """Fetch everything at once: this is where an iteration waits for its device."""
    numbers = {**lesson.numbers, **more}
    lists = {"stiffness": lesson.stiffness, "growth": lesson.growth}
    known = {name: x for name, x in lists.items() if x is not None}
    parts = [lesson.sound.double().reshape(1), torch.stack([x.double() for x in numbers.values()])]
    sizes = [1, len(numbers), *(len(x) for x in known.values())]
    packed = torch.cat([*parts, *(x.double() for x in known.values())])
    if packed.is_cuda:
        queued().synchronize()
    sound, values, *rest = packed.cpu().split(sizes)
    found = dict(zip(known, rest, strict=True))
    return Told(
        sound=bool(sound), numbers=dict(zip(numbers, values.tolist(), strict=True)),
        stiffness=found.get("stiffness"), growth=found.get("growth"),
    )  # fmt: skip
