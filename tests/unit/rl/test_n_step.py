"""Returns of n steps, by hand."""

import torch

from ahac.rl.n_step import n_step_return


def test_returns_end_with_the_episode() -> None:
    # No end; a time-out after the second step; a termination after the first; a termination after the third.
    reward = torch.tensor([[1.0], [2.0], [4.0]]).expand(3, 4)
    terminated = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    done = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    total, discount, last = n_step_return(reward, terminated, done, 0.5)
    assert total.tolist() == [3.0, 2.0, 1.0, 3.0]
    assert discount.tolist() == [0.125, 0.25, 0.0, 0.0]
    assert last.tolist() == [2, 1, 0, 2]


def test_one_step_is_the_transition_itself() -> None:
    reward = torch.tensor([[1.5, -2.0]])
    total, discount, last = n_step_return(reward, torch.tensor([[0.0, 1.0]]), torch.ones(1, 2), 0.9)
    assert torch.equal(total, reward[0])
    assert torch.equal(discount, torch.tensor([0.9, 0.0]))
    assert last.tolist() == [0, 0]
