import pyro.distributions as dist
import pytest
import torch
from torch.distributions import kl_divergence

from pyroclaw.distributions import Flat


def test_the_kl_of_a_point_is_zero_for_each_replicate():
    weights = torch.randn(3, 1, 5, 2)
    q, p = dist.Delta(weights).to_event(2), Flat(weights.shape).to_event(2)
    assert torch.equal(kl_divergence(q, p), torch.zeros(3, 1))
    assert torch.equal(kl_divergence(q, p.expand((3, 1))), torch.zeros(3, 1))


def test_the_density_is_where_the_weights_are():
    weights = torch.empty(2, 3, dtype=torch.float64, device="meta")
    found = Flat((4, 2, 3)).log_prob(weights)
    assert (found.device, found.dtype, found.shape) == (weights.device, weights.dtype, (4, 2, 3))


def test_there_is_no_sampler():
    with pytest.raises(NotImplementedError):
        Flat((2,)).sample()
