"""Convolutions by patches are torch's own, with the same gradients."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.convolutions import FEW, columns, convolve, weight_gradient

channels = pytest.mark.parametrize("channels", [1, 3, FEW + 1])


def plain(x, weight):
    filters = weight[:, :-1].mT.unflatten(2, (x.shape[2], 3, 3))
    return torch.stack([F.conv2d(*own, padding=1) for own in zip(x, filters, weight[:, -1], strict=True)])


@channels
@pytest.mark.parametrize("replicates", [1, 2])
def test_values_and_gradients_are_those_of_float64(channels, replicates):
    x, weight = torch.randn(replicates, 3, channels, 8, 6), torch.randn(replicates, 9 * channels + 1, 5)
    leaves = x.requires_grad_(), weight.requires_grad_()
    found, expected = convolve(x, weight), plain(x.double(), weight.double())
    slope = torch.randn_like(found)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    for own, other in zip(
        torch.autograd.grad(found, leaves, slope), torch.autograd.grad(expected, leaves, slope.double()), strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-4)


@channels
def test_sums_over_many_positions_are_those_of_float64(channels):
    x, weight = torch.randn(1, 11, channels, 32, 32), torch.randn(1, 9 * channels + 1, 2, requires_grad=True)
    slope = torch.randn(1, 11, 2, 32, 32)
    (own,) = torch.autograd.grad(convolve(x, weight), weight, slope)
    (other,) = torch.autograd.grad(plain(x.double(), weight.double()), weight, slope.double())
    torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(weight_gradient(x, slope), other, rtol=1e-4, atol=1e-2)


@channels
def test_gradients_are_those_of_differences(channels):
    x, weight = torch.randn(2, 1, channels, 3, 2), torch.randn(2, 9 * channels + 1, 2)
    assert torch.autograd.gradcheck(convolve, [one.double().requires_grad_() for one in (x, weight)])


@channels
def test_units_come_last_in_memory(channels):
    """Also of one channel, where the inputs do not tell."""
    for replicates in (1, 2):
        found = convolve(torch.randn(replicates, 3, channels, 8, 6), torch.randn(replicates, 9 * channels + 1, 5))
        assert found.movedim(2, -1).is_contiguous()


def test_columns_are_torchs_patches_and_ones():
    images = torch.randn(4, 3, 6, 5)
    expected = F.pad(F.unfold(images, 3, padding=1), (0, 0, 0, 1), value=1.0)
    assert torch.equal(columns(images), expected.movedim(0, 1).flatten(1))


def test_torch_func_sees_through_it():
    x, weight = torch.randn(1, 2, 1, 4, 4), torch.randn(1, 10, 3)
    found, expected = (torch.func.grad(lambda w, by=by: by(x, w).square().sum())(weight) for by in (convolve, plain))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
