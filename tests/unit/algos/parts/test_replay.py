"""Replay buffer: every transition can be sampled, the oldest are overwritten, and an iteration can be discarded."""

import pytest
import torch
from torch.testing import assert_close

from ahac.algos.parts.replay import Replay
from ahac.core.errors import InputError

WORLDS = 3


def replay(capacity: int = 12, spare: int = 2) -> Replay:
    widths = {"obs": 2, "action": 1, "reward": None}
    return Replay(widths, WORLDS, buffer_size=capacity, spare=spare, device=torch.device("cpu"), dtype=torch.float32)


def add(to: Replay, rows: int) -> None:
    """Every number encodes its row, or its row and world."""
    for _ in range(rows):
        row, world = float(to.added), torch.arange(float(WORLDS))
        to.add(
            obs=torch.stack([torch.full((WORLDS,), row), world], dim=-1),
            action=-world[:, None],
            reward=10.0 * row + world,
        )


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nothing_is_allocated_or_sampled_before_the_first_row() -> None:
    made = replay(capacity=10**12)
    with pytest.raises(InputError, match="sequences of 1 steps need as many rows in the replay buffer, but it has 0"):
        made.sample(1, rng())
    assert made._ring is None


def test_every_transition_is_sampled_about_equally_often() -> None:
    made = replay()
    add(made, 4)
    counts = torch.bincount(made.sample(12_000, rng())["reward"].long(), minlength=43)
    known = [10 * row + world for row in range(4) for world in range(WORLDS)]
    assert counts.nonzero().flatten().tolist() == known
    assert 850 < counts[known].min() <= counts[known].max() < 1150


def test_the_parts_of_a_transition_belong_together() -> None:
    made = replay()
    add(made, 9)
    actual = made.sample(100, rng())
    assert (actual["obs"].shape, actual["action"].shape, actual["reward"].shape) == ((100, 2), (100, 1), (100,))
    row, world = actual["obs"].unbind(dim=-1)
    assert_close(actual["reward"], 10.0 * row + world)
    assert_close(actual["action"].squeeze(-1), -world)


def test_the_oldest_are_overwritten() -> None:
    made = replay()
    for rows in range(1, 20):
        add(made, 1)
        drawn = made.sample(500, rng(rows))["obs"][:, 0]
        assert (made.added, made.size) == (rows, min(rows, 4))
        assert set(drawn.tolist()) == {float(row) for row in range(made.oldest, rows)}


def test_capacity_is_whole_rows_and_at_least_one() -> None:
    assert replay(capacity=11).length == 3
    assert replay(capacity=1).length == 1


def test_sequences_stay_in_their_world_and_never_wrap_around_the_ring() -> None:
    made = replay()
    for rows in (5, 1, 1, 1, 1, 1, 1):
        add(made, rows)
        actual = made.sample_sequences(300, 3, rng(made.added))
        row, world = actual["obs"].unbind(dim=-1)
        assert row.shape == (3, 300)
        assert torch.equal(row[1:], row[:-1] + 1.0)
        assert torch.equal(world[1:], world[:-1])
        assert set(row[0].tolist()) == {float(made.oldest), float(made.oldest + 1)}
    with pytest.raises(InputError, match=r"sequences of 5 steps need as many rows in the replay buffer, but it has 4"):
        made.sample_sequences(1, 5, rng())


def test_an_iteration_can_be_discarded() -> None:
    made, other = replay(), replay()
    add(made, 7)
    add(other, 7)
    add(made, 2)
    made.rewind(7)
    assert torch.equal(made.sample(50, rng())["reward"], other.sample(50, rng())["reward"])
    add(made, 2)
    with pytest.raises(InputError, match=r"at most the last 2 of \d+ rows can be discarded, got a rewind to 6"):
        made.rewind(6)


def test_saved_rows_are_restored_exactly() -> None:
    made, other = replay(), replay()
    add(made, 11)
    other.put(7, made.rows(7, 10))
    other.put(10, made.rows(10, 11))
    other.added = 11
    assert torch.equal(made.sample(50, rng())["obs"], other.sample(50, rng())["obs"])
    with pytest.raises(InputError, match="not all in the buffer"):
        made.rows(4, 6)
    with pytest.raises(InputError, match=r"must have shape \[3, 4\], got \[2, 4\]"):
        made.put(0, torch.zeros(1, 2, 4))
