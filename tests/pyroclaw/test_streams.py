import torch
from scipy import stats

from pyroclaw.streams import Streams


def test_a_replicate_draws_the_same_numbers_in_any_company():
    together, alone = Streams([3, 5, 9], "train", 2), Streams([5], "train", 2)
    for _ in range(3):
        assert torch.equal(together.normal(3, 7, 11)[1], alone.normal(1, 7, 11)[0])
    assert torch.equal(together.permutation(1, 50), alone.permutation(0, 50))


def test_replicates_and_keys_are_independent():
    a, b = Streams([0, 1], "train", 0).normal(2, 4000), Streams([0, 1], "train", 1).normal(2, 4000)
    rows = torch.cat([a, b])
    correlations = torch.corrcoef(rows) - torch.eye(4)
    assert correlations.abs().max() < 5 / 4000**0.5


def test_normal_numbers_are_normal():
    sample = Streams([4, 5], "x").normal(2, 5000).flatten().numpy()
    assert stats.kstest(sample, "norm").pvalue > 2e-5


def test_permutation_holds_every_position_once():
    assert sorted(Streams([0], "x").permutation(0, 100).tolist()) == list(range(100))
