"""A grown net against one with a mask on its whole matrices, and what gradients reach."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import affine, convolution
from pyroclaw.inference.growth import Beside, features, join, new_columns, old_units, remember
from pyroclaw.inference.mean_field import Points
from pyroclaw.nets import CNN, MLP, Layer, make_net
from pyroclaw.streams import Streams

NETS = {"mlp": (MLP(5, (4, 3, 4)), (5,)), "cnn": (CNN((2, 8, 8), 4, 3), (2, 8, 8))}


def columns(net, widths, added, key="grow"):
    """New columns of all layers and a head of 3 classes."""
    streams, points = Streams([0], key), Points()
    for layer in new_columns(net, widths, added):
        points.add(layer, streams)
    points.add(Layer("head", features(net, widths[-1] + added[-1]), 3), streams)
    for mean in points.mean.values():  # biases too, which start at 0
        mean += 0.1 * streams.normal(*mean.shape)
    return points.mean


def grown(kind, added=(2, 3, 1)):
    """The columns of a net that two tasks have grown, and a batch."""
    net, shape = NETS[kind]
    base = [layer.units for layer in net.layers]
    first, second = columns(net, [0, 0, 0], base, "first"), columns(net, base, added)
    return net, first, second, Streams([0], "x").normal(1, 6, *shape)


def run(net, first, second, x, gains=()):
    old = old_units(net, {layer.name: first[layer.name] for layer in net.layers}, x, gains)
    with Beside(old):
        return affine(net(x, second), second["head"])


def by_mask(net, kind, first, second, x):
    """The same from whole matrices with blocks of zeros: one net, no handler."""
    for layer in net.layers:
        matrix = join([first[layer.name], second[layer.name]])
        if kind == "mlp":
            x = affine(x, matrix).relu()
        else:
            x = F.max_pool2d(convolution(x, matrix)[0], 2)[None].relu()
    return affine(x.flatten(2), second["head"])


@pytest.mark.parametrize("added", [(2, 3, 1), (0, 3, 1), (2, 0, 1), (2, 3, 0), (0, 0, 0)])
@pytest.mark.parametrize("kind", NETS)
def test_running_old_and_new_apart_is_running_one_masked_net(kind, added):
    net, first, second, x = grown(kind, added)
    torch.testing.assert_close(run(net, first, second, x), by_mask(net, kind, first, second, x), atol=1e-5, rtol=1e-5)


def test_joined_blocks_are_triangular_with_the_bias_last():
    blocks = [torch.full((1, 1, 3, 2), 1.0), torch.full((1, 1, 5, 1), 2.0), torch.full((1, 1, 6, 0), 3.0)]
    expected = torch.tensor([[1, 1, 2], [1, 1, 2], [0, 0, 2], [0, 0, 2], [0, 0, 0], [1, 1, 2]]).float()
    assert torch.equal(join(blocks)[0, 0], expected)


@pytest.mark.parametrize("kind", NETS)
def test_no_gradient_reaches_old_weights_and_all_new_ones_get_theirs(kind):
    net, first, second, x = grown(kind)
    for mean in second.values():
        mean.requires_grad_(True)
    run(net, first, second, x).square().sum().backward()
    assert all(mean.grad is None and not mean.requires_grad for mean in first.values())
    masked = {name: mean.detach().clone().requires_grad_(True) for name, mean in second.items()}
    by_mask(net, kind, first, masked, x).square().sum().backward()
    for name, mean in second.items():
        assert mean.grad.abs().sum() > 0
        torch.testing.assert_close(mean.grad, masked[name].grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", NETS)
def test_old_units_do_not_see_new_ones(kind):
    """The first task's answers from a net grown twice, its own features cut out, are those it gave alone."""
    net, first, second, x = grown(kind)
    widths = [layer.units + k for layer, k in zip(net.layers, (2, 3, 1), strict=True)]
    matrices = {layer.name: join([first[layer.name], second[layer.name]]) for layer in net.layers}
    assert [matrix.shape[3] for matrix in matrices.values()] == widths
    both, alone = net(x, matrices), net(x, first)
    torch.testing.assert_close(both[..., : alone.shape[2]], alone)
    assert both.shape[2] == features(net, widths[-1])


@pytest.mark.parametrize("kind", NETS)
def test_gains_scale_the_weights_into_old_units_and_get_gradients(kind):
    net, first, second, x = grown(kind)
    gains = [(0.5 + torch.rand(1, layer.units)).requires_grad_(True) for layer in net.layers]
    answer = run(net, first, second, x, gains)
    scaled = {
        layer.name: first[layer.name] * gain[:, None, None] for layer, gain in zip(net.layers, gains, strict=True)
    }
    torch.testing.assert_close(answer, run(net, scaled, second, x), atol=1e-5, rtol=1e-5)
    for gain, grad in zip(gains, torch.autograd.grad(answer.square().sum(), gains), strict=True):
        assert grad.shape == gain.shape and grad.abs().sum() > 0


@pytest.mark.parametrize("fixture", ["toy", "toy_pictures"])
def test_a_remembered_part_holds_inputs_labels_and_old_units(fixture, request):
    bench = request.getfixturevalue(fixture)
    net, part = make_net(bench.net, bench.input_shape), bench.tasks([0])[1].train
    points = Points()
    for layer in net.layers:
        points.add(layer, Streams([0], "init"))
    remembered = remember(net, points.mean, part, limit=2**20)
    positions = torch.randperm(part.sizes[0])[None, :20]
    x, y = part.batch(positions)
    packed, labels = remembered.part.batch(positions)
    inputs, old = remembered.unpack(packed)
    assert torch.equal(inputs, x) and torch.equal(labels, y)
    for ours, theirs in zip(old, old_units(net, points.mean, x), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert remember(net, points.mean, part, limit=remembered.part.images.nbytes - 1) is None
