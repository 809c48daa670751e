"""A block is a convolution, max-pooling and ReLU as torch does them one by one, drawn or not, in either precision."""

import pytest
import torch
import torch.nn.functional as F
from pyro.poutine.messenger import Messenger
from pyro.poutine.trace_messenger import TraceMessenger

from pyroclaw import blocks, fused, handlers
from pyroclaw.activations import reparameterised
from pyroclaw.convolutions import convolve
from pyroclaw.handlers import FiLM, LocalReparameterisation
from pyroclaw.precision import convolutions_in
from pyroclaw.streams import Streams

CHANNELS, OUT = 5, 16
sizes = pytest.mark.parametrize("size", [(8, 8), (7, 7), (6, 9), (2, 5)])
precisions = pytest.mark.parametrize("precision", ["float32", "bfloat16"])


def pooled(maps):
    return F.relu(F.max_pool2d(maps.flatten(0, 1), 2)).unflatten(0, maps.shape[:2])


def layer(replicates=2, images=3, size=(8, 8)):
    rows = 9 * CHANNELS + 1
    x, mean = torch.randn(replicates, images, CHANNELS, *size), torch.randn(replicates, rows, OUT)
    return x, mean, torch.rand(replicates, rows, OUT) + 0.01


def streams(replicates=2):
    return Streams(range(replicates), "noise")


def with_gradients(by, *inputs):
    leaves = [one.clone().requires_grad_() for one in inputs]
    found = by(*leaves)
    slope = torch.randn(found.shape, generator=torch.Generator().manual_seed(3)).to(found)
    return [found.detach(), *torch.autograd.grad(found, leaves, slope)]


def drawn_one_by_one(x, mean, variance):
    return pooled(reparameterised(convolve(x, mean), convolve(x.square(), variance), streams(len(x))))


def drawn(x, mean, variance):
    return blocks.drawn_block(x, mean, variance, streams(len(x)))


@sizes
@precisions
def test_it_is_its_parts_one_by_one(size, precision):
    """In bfloat16 the parts round the gradient to the maps once more, as it enters the convolution's."""
    x, mean, variance = layer(size=size)
    with convolutions_in(precision):
        found = [*with_gradients(blocks.block, x, mean), *with_gradients(drawn, x, mean, variance)]
        expected = [
            *with_gradients(lambda *given: pooled(convolve(*given)), x, mean),
            *with_gradients(drawn_one_by_one, x, mean, variance),
        ]
    for own, other in zip(found, expected, strict=True):
        assert own.shape == other.shape and own.dtype == torch.float32
        if other.numel():
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4 * other.abs().max().item())


@precisions
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_pooling_is_torchs_to_the_bit_also_of_what_is_not_finite(wrong, precision):
    """Of equals the first is taken, so that the gradient has one place to go to."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    maps = torch.randint(-3, 4, (2, OUT, 6, 8)).to(dtype).contiguous(memory_format=torch.channels_last)
    maps[0, :, :2] = wrong
    maps[1, 3, 2, 5] = wrong
    (own, slope), (other, expected) = (with_gradients(by, maps) for by in (blocks._Pooled.apply, torch_pooled))
    assert torch.equal(own.nan_to_num(9.0), other.float().nan_to_num(9.0)) and torch.equal(slope, expected)
    assert torch.isnan(own).any() == (wrong != wrong)


def torch_pooled(maps):
    return F.relu(F.max_pool2d(maps.float(), 2))


def test_gradients_are_rounded_to_the_nearest_and_to_even():
    """As torch rounds."""
    numbers = torch.cat([1 + torch.arange(512) * 2.0**-10, torch.tensor([1e-40, 3.4e38, torch.inf, -torch.inf])])
    numbers = torch.cat([numbers, -numbers]).view(1, -1, 1, 1)
    maps = torch.ones(1, numbers.numel(), 2, 2, dtype=torch.bfloat16, requires_grad=True)
    (slope,) = torch.autograd.grad(blocks._Pooled.apply(maps), maps, numbers)
    assert torch.equal(slope[..., :1, :1], numbers.bfloat16())
    (slope,) = torch.autograd.grad(blocks._Pooled.apply(maps), maps, numbers * torch.nan)
    assert torch.isnan(slope[..., 0, 0]).all()


@precisions
def test_bits_of_a_replicate_do_not_depend_on_its_company(precision):
    inputs = layer(3)
    with convolutions_in(precision):
        found = with_gradients(drawn, *inputs)
        alone = blocks.drawn_block(*(one[1:2] for one in inputs), Streams([1], "noise"))
    assert torch.equal(found[0][1:2], alone)


@precisions
def test_noise_in_parts_is_the_noise(precision, monkeypatch):
    inputs = layer(images=7, size=(4, 6))
    with convolutions_in(precision):
        whole = with_gradients(drawn, *inputs)
        monkeypatch.setattr(blocks, "CACHED", 2 * OUT * 4 * 6)
        parts = with_gradients(drawn, *inputs)
    assert all(torch.equal(own, other) for own, other in zip(parts, whole, strict=True))


def test_without_kernels_it_is_the_same(monkeypatch):
    inputs = layer()
    found = with_gradients(drawn, *inputs)
    monkeypatch.setattr(fused, "kernels", None)
    for own, other in zip(found, with_gradients(drawn, *inputs), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5 * other.abs().max().item())


class Heard(Messenger):
    """What enters convolutions and leaves them."""

    def __init__(self):
        super().__init__()
        self.inputs, self.maps = [], []

    def _pyro_convolution(self, msg):
        self.inputs.append(msg["args"][0])

    def _pyro_post_convolution(self, msg):
        self.maps.append(msg["value"])


@pytest.mark.parametrize("sampled", [True, False])
def test_a_handler_that_listens_hears_the_convolution_and_changes_nothing(sampled):
    x, mean, variance = layer()
    weight, found = mean.unsqueeze(1), {}
    for listens in (False, True):
        handler = LocalReparameterisation(streams() if sampled else None)
        handler.variances[id(weight)] = weight, variance.unsqueeze(1)
        heard = Heard()
        with handler, heard if listens else TraceMessenger():
            found[listens] = handlers.block(x, weight)
        assert len(heard.inputs) == len(heard.maps) == listens
    torch.testing.assert_close(found[True], found[False], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        plain = handlers.block(x, weight)
    assert torch.allclose(plain, found[False], atol=1e-5) == (not sampled)


def test_film_is_put_on_maps_before_they_are_pooled():
    x, mean, _ = layer()
    weight = mean.unsqueeze(1)
    with FiLM({id(weight): (-torch.ones(2, 1, OUT), torch.zeros(2, 1, OUT))}):
        found = handlers.block(x, weight)
    torch.testing.assert_close(found, pooled(-convolve(x, mean)), rtol=1e-5, atol=1e-5)
