"""Generators resume from a saved state; a state of another device type gives a reproducible seed."""

import torch

from ahac.core.rng import restore_generator


def draw(generator: torch.Generator) -> list[float]:
    return torch.rand(4, generator=generator).tolist()


def test_the_same_device_type_resumes_bit_exactly() -> None:
    source = torch.Generator().manual_seed(1)
    restored = torch.Generator().manual_seed(2)
    draw(source)
    state = source.get_state()
    expected = draw(source)
    restore_generator(restored, state)
    assert draw(restored) == expected


def test_another_device_type_is_seeded_from_the_state() -> None:
    def draw_restored(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(7)
        # A CUDA generator's state holds a seed and an offset.
        restore_generator(generator, torch.tensor([seed, 0], dtype=torch.int64).view(torch.uint8))
        return draw(generator)

    assert draw_restored(0) == draw_restored(0)
    assert draw_restored(0) != draw_restored(1)
