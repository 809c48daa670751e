"""A drawn linear map is that of the formula, with its gradients, by either library."""

import math

import pytest
import torch

from pyroclaw import products
from pyroclaw.activations import VARIANCE_FLOOR
from pyroclaw.drawn_linear import drawn_linear


def take(monkeypatch, library):
    """Whatever the size of a product."""
    monkeypatch.setattr(products, "SMALL", 0 if library == "oneDNN" else math.inf)
    monkeypatch.setattr(products, "FEW", 0)


def example(replicates, dtype):
    """Inputs, means and variances, and noise."""
    x, mean, noise = (torch.randn(replicates, *shape, dtype=dtype) for shape in ((6, 4), (5, 3), (6, 3)))
    return [one.requires_grad_() for one in (x, mean, torch.rand_like(mean) + 0.1)], noise


def formula(x, mean, variance, noise):
    with_one = torch.nn.functional.pad(x, (0, 1), value=1.0)
    return with_one @ mean + (with_one.square() @ variance + VARIANCE_FLOOR).sqrt() * noise


@pytest.mark.parametrize("replicates", [1, 3])
def test_gradients_are_those_of_differences(replicates):
    inputs, noise = example(replicates, torch.float64)
    assert torch.autograd.gradcheck(lambda *x: drawn_linear(*x, noise.clone()), inputs)


@pytest.mark.parametrize("library", ["oneDNN", "MKL"])
@pytest.mark.parametrize("replicates", [1, 3])
def test_values_and_gradients_are_those_of_the_formula(monkeypatch, library, replicates):
    take(monkeypatch, library)
    inputs, noise = example(replicates, torch.float32)
    found, expected = drawn_linear(*inputs, noise.clone()), formula(*inputs, noise)
    torch.testing.assert_close(found, expected)
    slope = torch.randn_like(noise)
    for own, other in zip(*(torch.autograd.grad(one, inputs, slope) for one in (found, expected)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


def test_inputs_that_need_no_gradient_get_none():
    (x, mean, variance), noise = example(1, torch.float32)
    drawn_linear(x.requires_grad_(False), mean, variance, noise).sum().backward()
    assert x.grad is None and mean.grad.shape == mean.shape and variance.grad.shape == variance.shape
