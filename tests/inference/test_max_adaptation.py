"""Equations (13) and (14) against their closed form for a quadratic error."""

import torch

from pyroclaw.inference.max_adaptation import learn_max_adaptation


class Positions:
    """A part whose example at position i is the number i."""

    def __init__(self, sizes):
        self.sizes = tuple(sizes)

    def batch(self, positions):
        return positions.float().unsqueeze(-1), positions


def error(s, x, y):
    """½(s - x)² summed over two units: its gradient in s is s - x."""
    return 0.5 * ((s[:, None, :] - x) ** 2).sum(-1)


def test_one_step_on_each_half_of_the_data():
    general = torch.tensor([[2.0, 3.0], [1.0, 5.0]])
    task_specific, updated = learn_max_adaptation(general, error, Positions([10, 7]), 4, omega_1=0.05, omega_2=0.02)
    first = torch.tensor([[2.0], [1.0]])  # mean of 0..4, and of 0..2
    second = torch.tensor([[7.0], [4.5]])  # mean of 5..9, and of 3..6
    torch.testing.assert_close(task_specific, general - 0.05 * (general - first))
    # the gradient of (14) is taken at the task's own value and applied to the general one
    torch.testing.assert_close(updated, general - 0.02 * (task_specific - second))


def test_the_batch_size_does_not_matter():
    general = torch.rand(2, 2)
    whole, parts = (learn_max_adaptation(general, error, Positions([10, 7]), size) for size in (100, 3))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_the_papers_step_sizes_are_the_defaults():
    general = torch.zeros(1, 1)
    task_specific, updated = learn_max_adaptation(general, error, Positions([4]), 2)
    torch.testing.assert_close(task_specific, torch.tensor([[0.05 * 0.5]]))
    torch.testing.assert_close(updated, torch.tensor([[-0.02 * (0.025 - 2.5)]]))
