"""A displaced Normal is a Normal; what its displacement says of a prior enters the KL, if it says something."""

import torch
from torch.distributions import Independent, Normal, kl_divergence

from pyroclaw.distributions import DisplacedNormal, KroneckerGaussian


class Pull:
    """Half a square that no mean has, so that the KL shows whether it was asked."""

    def __init__(self, value):
        self.value = value

    def pull(self, prior):
        return None if self.value is None else prior.mean.new_full(prior.batch_shape, self.value)


def laws(displacement):
    mean, scale = torch.randn(2, 1, 3, 4), torch.rand(2, 1, 3, 4) + 0.1
    prior = KroneckerGaussian(torch.zeros(2, 1, 3, 4), torch.eye(3), 2 * torch.eye(4), beta=0.5)
    return DisplacedNormal(mean, scale, displacement), Normal(mean, scale), prior


def test_it_is_the_normal_and_copies_keep_the_displacement():
    displaced, normal, _ = laws(Pull(1.0))
    value = torch.randn(2, 1, 3, 4)
    assert torch.equal(displaced.log_prob(value), normal.log_prob(value))
    copy = displaced.expand((5, 2, 1, 3, 4))
    assert isinstance(copy, DisplacedNormal) and copy.displacement is displaced.displacement
    assert copy.batch_shape == (5, 2, 1, 3, 4) and torch.equal(copy.mean[0], normal.mean)


def test_its_pull_takes_the_place_of_the_quadratic_part():
    displaced, normal, prior = laws(Pull(7.0))
    quadratic = 0.5 * 2 * normal.mean.square().sum((-2, -1))  # A = 1, G = 2
    expected = kl_divergence(Independent(normal, 2), prior) + 0.5 * (7.0 - quadratic)
    torch.testing.assert_close(kl_divergence(Independent(displaced, 2), prior), expected)


def test_where_it_says_nothing_the_means_do():
    displaced, normal, prior = laws(Pull(None))
    assert torch.equal(*(kl_divergence(Independent(one, 2), prior) for one in (displaced, normal)))
