"""What a rollout and its backward pass taught: numbers that stay on their device until all of them are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.rl.rollout import Rollout
from ahac.runtime.cuda_graphs import record_event

__all__ = ["Lesson", "Told", "told"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """Of one rollout."""

    rollout: Rollout
    next_value: Tensor
    """[T, N] what the critic said of the states that were reached; without gradients."""
    obs: Tensor
    """[T, N of all ranks, obs] the states before, normalised."""
    targets: Tensor
    """[T, N of all ranks] what it should have said of them."""
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


def told(lesson: Lesson, more: Mapping[str, Tensor], ranks: ProcessGroup = SINGLE_PROCESS) -> Told:
    """Fetch everything at once, the same on all ranks: this is where an iteration waits for its device."""
    numbers = {**lesson.numbers, **more}
    lists = {"stiffness": lesson.stiffness, "growth": lesson.growth}
    known = {name: x for name, x in lists.items() if x is not None}
    parts = [lesson.sound.double().reshape(1), torch.stack([x.double() for x in numbers.values()])]
    sizes = [1, len(numbers), *(len(x) for x in known.values())]
    packed = ranks.from_rank_zero(torch.cat([*parts, *(x.double() for x in known.values())]))
    if packed.is_cuda:
        record_event().synchronize()
    sound, values, *rest = packed.cpu().split(sizes)
    found = dict(zip(known, rest, strict=True))
    return Told(
        sound=bool(sound),
        numbers=dict(zip(numbers, values.tolist(), strict=True)),
        stiffness=found.get("stiffness"),
        growth=found.get("growth"),
    )
