"""Convolutions in bfloat16 err by its rounding and no more, only where they are asked to, in every method."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.convolutions import FEW, convolve
from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.precision import convolutions_in, lower
from pyroclaw.streams import Streams

ROUNDING = 2.0**-8  # a number of 8 bits is off by half of this; so are two factors and the result
channels = pytest.mark.parametrize("channels", [1, FEW + 1])


def exact(x, weight):
    filters = weight[:, :-1].mT.unflatten(2, (x.shape[2], 3, 3))
    return torch.stack([F.conv2d(*own, padding=1) for own in zip(x, filters, weight[:, -1], strict=True)])


def with_gradients(by, x, weight, slope):
    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    found = by(*leaves)
    return [found, *torch.autograd.grad(found, leaves, slope)]


@channels
def test_values_and_gradients_are_off_by_the_rounding_of_factors_and_result(channels):
    x, weight, slope = (
        torch.randn(2, 3, channels, 8, 6),
        torch.randn(2, 9 * channels + 1, 5),
        torch.randn(2, 3, 5, 8, 6),
    )
    with convolutions_in("bfloat16"):
        found = with_gradients(convolve, x, weight, slope)
    truth = with_gradients(exact, *(one.double() for one in (x, weight, slope)))
    sizes = with_gradients(exact, *(one.double().abs() for one in (x, weight, slope)))
    for own, other, size in zip(found, truth, sizes, strict=True):
        assert own.dtype == torch.float32
        assert ((own - other).abs() <= 2 * ROUNDING * size).all()  # three halves to first order
    assert (found[0] - truth[0]).abs().max() > ROUNDING / 8  # it is not float32 that did it


@channels
def test_outside_nothing_changes_also_after_an_error(channels):
    x, weight = torch.randn(1, 3, channels, 8, 6), torch.randn(1, 9 * channels + 1, 5)
    before = convolve(x, weight)
    with pytest.raises(RuntimeError), convolutions_in("bfloat16"):
        with convolutions_in("float32"):
            assert torch.equal(convolve(x, weight), before)
        assert not torch.equal(convolve(x, weight), before)
        raise RuntimeError
    assert lower() is None and torch.equal(convolve(x, weight), before)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_pictures(toy_pictures, name):
    few = {"points": 12} if "coreset" in name or name == "frcl" else {"trials": 2} if name == "rcl" else {}
    entry = METHODS[name]
    method = entry.make(
        make_net(toy_pictures.net, toy_pictures.input_shape),
        toy_pictures.heads,
        Streams([0], "init"),
        entry.settings(**few),
    )
    with convolutions_in("bfloat16"):
        *_, last = learn_tasks(method, toy_pictures.tasks([0]), Budget(2, 16), [0])
    assert torch.isfinite(last.elbo).all() and len(last.test) == 2
    assert all(value.dtype != torch.bfloat16 for value in method.parameters().values())
