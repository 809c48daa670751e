import pytest
import torch
from scipy import stats

from pyroclaw import fused, normal_numbers
from pyroclaw.kernels.noise import _crossed
from pyroclaw.normal_numbers import fill_normal


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 32, 608, 624, 640, 1248, 4000, 9984])
def test_numbers_and_what_follows_are_those_of_torch(size):
    """Also of sizes that are left to torch, and whatever the generator drew before."""
    own, other = generator(), generator()
    for before in (0, 5, 620):
        torch.randperm(before, generator=own), torch.randperm(before, generator=other)
        found, expected = torch.empty(size), torch.empty(size).normal_(generator=other)
        fill_normal(found, own)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=3e-6)
        assert torch.equal(own.get_state(), other.get_state())
        assert torch.equal(torch.rand(9, generator=own), torch.rand(9, generator=other))


def test_numbers_are_normal_and_independent():
    sample = torch.empty(2, 80000)
    fill_normal(sample, generator())
    assert sample.isfinite().all()
    assert stats.kstest(sample.flatten().numpy(), "norm").pvalue > 2e-5
    for lag in (1, 8, 16, 624):
        flat = sample.flatten()
        assert abs((flat[lag:] * flat[:-lag]).mean()) < 5 / len(flat) ** 0.5


def test_every_angle_and_the_largest_radius():
    """All angles of one radius are on a circle; the largest uniform number gives a number that is finite."""
    turns = torch.arange(4096) / 4096
    for uniform in (0.3, 1 - 2.0**-24):
        first, second = torch.full((4096,), uniform), turns.clone()
        _crossed(first.numpy(), second.numpy())
        radius = (-2 * torch.log1p(-torch.tensor(uniform, dtype=torch.float64))).sqrt()
        angle = 2 * torch.pi * turns.double()
        torch.testing.assert_close(first.double(), radius * angle.cos(), rtol=0, atol=2e-6)
        torch.testing.assert_close(second.double(), radius * angle.sin(), rtol=0, atol=2e-6)


def test_another_layout_of_the_state_is_left_to_torch(monkeypatch):
    normal_numbers._agrees.cache_clear()
    monkeypatch.setattr(normal_numbers, "STATE", 1)
    assert not normal_numbers._agrees()
    found = torch.empty(32)
    fill_normal(found, generator())
    assert torch.equal(found, torch.empty(32).normal_(generator=generator()))
    normal_numbers._agrees.cache_clear()


def test_other_numbers_are_left_to_torch(monkeypatch):
    wide = torch.empty(32, dtype=torch.float64)
    fill_normal(wide, generator())
    assert torch.equal(wide, torch.empty_like(wide).normal_(generator=generator()))
    fill_normal(torch.empty(0), generator())
    monkeypatch.setattr(fused, "kernels", None)
    found = torch.empty(32)
    fill_normal(found, generator())
    assert torch.equal(found, torch.empty(32).normal_(generator=generator()))
