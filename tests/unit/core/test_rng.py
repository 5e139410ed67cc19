"""Chance goes on from a saved state, and from one of another kind of device it begins anew, always in the same way."""

import torch

from ahac.core.rng import restore_generator


def drawn(generator: torch.Generator) -> list[float]:
    return torch.rand(4, generator=generator).tolist()


def test_the_same_kind_goes_on_to_the_bit() -> None:
    one = torch.Generator().manual_seed(1)
    other = torch.Generator().manual_seed(2)
    drawn(one)
    state = one.get_state()
    wanted = drawn(one)
    restore_generator(other, state)
    assert drawn(other) == wanted


def test_another_kind_begins_anew_by_what_it_was() -> None:
    def begun(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(7)
        # What a CUDA generator's state looks like: a seed and an offset.
        restore_generator(generator, torch.tensor([seed, 0], dtype=torch.int64).view(torch.uint8))
        return drawn(generator)

    assert begun(0) == begun(0)
    assert begun(0) != begun(1)
