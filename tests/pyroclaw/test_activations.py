"""Activations drawn in place are those of the formula, with its gradients."""

import pytest
import torch

from pyroclaw.activations import VARIANCE_FLOOR, reparameterised
from pyroclaw.distributions import chunks
from pyroclaw.handlers import convolution
from pyroclaw.streams import Streams

SHAPES = {"affine": (2, 3, 4), "convolution": (2, 3, 4, 6, 5)}


@pytest.mark.parametrize("piece", [7, chunks.CHUNK])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_values_and_gradients_are_those_of_the_formula(shape, piece, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", piece)
    mean, variance, weights = torch.randn(shape), torch.rand(shape), torch.randn(shape)
    units_last = torch.Size([*shape[:2], *shape[3:], shape[2]])
    noise = Streams([0, 1], "x").normal(*units_last).movedim(-1, 2)
    found = []
    for draw in (
        lambda m, v: m + (v + VARIANCE_FLOOR).sqrt() * noise,
        lambda m, v: reparameterised(m.clone(), v.clone(), Streams([0, 1], "x")),
    ):
        moments = mean.clone().requires_grad_(), variance.clone().requires_grad_()
        drawn = draw(*moments)
        found.append((drawn, *torch.autograd.grad((drawn * weights).sum(), moments)))
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected)


def test_channels_stay_last_in_memory_and_moments_are_not_copied():
    """What a convolution gives is drawn where it lies, one replicate or more."""
    for replicates in (1, 3):
        x, weight = torch.rand(replicates, 2, 4, 6, 6), torch.randn(replicates, 1, 37, 5)
        mean, variance = convolution(x, weight), convolution(x, weight.square())
        assert mean.movedim(2, -1).is_contiguous()
        drawn = reparameterised(mean, variance, Streams(range(replicates), "x"))
        assert drawn.data_ptr() == mean.data_ptr() and drawn.stride() == mean.stride()
