"""The gains of all units at once are those of equations (5) and (6), with their gradients."""

import pytest
import torch

from pyroclaw.distributions.gains import Group, grouped_gains

GROUPS = [Group(2, taps=3, bias=True, rows=True), Group(4), Group(0)]


def example(dtype, replicates=2):
    p, a, s = torch.rand(3, replicates, 6, dtype=dtype)
    return [one.requires_grad_() for one in (p, 4 * a - 2, 1 + s)]


def flat(*inputs):
    return tuple(moment for moments in grouped_gains(*inputs, GROUPS) for moment in moments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_are_laid_out_as_weights_need_them(dtype):
    p, a, s = example(dtype)
    b = s * torch.sigmoid(a) - 1
    mean, variance = 1 + b * p, b**2 * p * (1 - p)
    (rows, noise), (columns, spread), nothing = grouped_gains(p, a, s, GROUPS)
    assert rows.shape == noise.shape == (2, 1, 7, 1) and columns.shape == spread.shape == (2, 1, 1, 4)
    assert [one.shape for one in nothing] == [(2, 1, 1, 0)] * 2
    torch.testing.assert_close(rows.flatten(1)[:, :6], mean[:, :2].repeat_interleave(3, 1))
    torch.testing.assert_close(noise.flatten(1)[:, :6], variance[:, :2].repeat_interleave(3, 1))
    assert (rows[:, 0, -1] == 1).all() and (noise[:, 0, -1] == 0).all()
    torch.testing.assert_close(columns.flatten(1), mean[:, 2:])
    torch.testing.assert_close(spread.flatten(1), variance[:, 2:])


def test_gradients_are_those_of_differences():
    assert torch.autograd.gradcheck(flat, example(torch.float64))


def test_a_task_starts_with_gains_of_exactly_one_where_it_did_before():
    """b = s · sigmoid(a) - 1 is rounded twice, so that it is 0 where the product rounds to 1."""
    s = torch.linspace(1.01, 3, 1000).unsqueeze(0)
    a = -torch.log(s - 1)
    b = s * torch.sigmoid(a) - 1
    ((mean, _),) = grouped_gains(torch.ones_like(s), a, s, [Group(1000)])
    assert torch.equal(mean.flatten(), 1 + b.flatten()) and (b == 0).float().mean() > 0.3
