"""Lateral adapters: against equation (1) by hand, in both kinds of net."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import affine
from pyroclaw.inference.columns import INITIAL_ALPHA, adapted_logits, add_adapter, lateral
from pyroclaw.inference.mean_field import Points
from pyroclaw.nets import CNN, MLP, Layer
from pyroclaw.streams import Streams

SEEDS = [3, 4]
CLASSES = 3


def column(net, purpose, seeds=SEEDS):
    """Weights of a net and its head, with adapters from the second layer on."""
    streams, weights = Streams(seeds, purpose), Points()
    layers = [*net.layers, Layer("head", net.features, CLASSES)]
    for layer in layers:
        weights.add(layer, streams)
    for before, layer in pairwise(net.layers):
        add_adapter(weights, layer, before.units, streams)
    add_adapter(weights, layers[-1], net.features, streams)
    return weights.mean


NETS = [(MLP(6, (5, 4)), (6,)), (CNN((2, 8, 8), 4, 3), (2, 8, 8))]


@pytest.mark.parametrize("net, shape", NETS)
def test_a_column_whose_adapters_give_nothing_is_a_plain_net(net, shape):
    weights, knowledge = column(net, "a"), column(net, "kb")
    x = torch.randn(2, 7, *shape)
    plain = affine(net(x, weights), weights["head"])
    assert not torch.allclose(adapted_logits(net, "head", x, weights, knowledge), plain)
    silent = {name: w * 0 if name.endswith(".alpha") else w for name, w in weights.items()}
    assert torch.equal(adapted_logits(net, "head", x, silent, knowledge), plain)


def test_the_layers_of_an_mlp_are_those_of_equation_1():
    net = NETS[0][0]
    weights, knowledge = column(net, "a"), column(net, "kb")
    x = torch.randn(2, 7, 6)
    logits = adapted_logits(net, "head", x, weights, knowledge)
    for r in range(2):
        w = {name: value[r, 0] for name, value in weights.items()}
        kb = {name: value[r, 0] for name, value in knowledge.items()}
        h = kept = x[r]
        for name in ("hidden_1", "hidden_2", "head"):
            before = h @ w[name][:-1] + w[name][-1]
            if name != "hidden_1":
                hidden = F.relu(kept @ w[f"{name}.V"][:-1] + w[f"{name}.V"][-1])
                before = before + w[f"{name}.alpha"] * (hidden @ w[f"{name}.U"])
            h = F.relu(before)
            kept = F.relu(kept @ kb[name][:-1] + kb[name][-1])
        torch.testing.assert_close(logits[r], before)


def test_the_layers_of_a_cnn_have_1x1_convolutions_as_adapters():
    net = NETS[1][0]
    weights, knowledge = column(net, "a"), column(net, "kb")
    x = torch.randn(2, 3, 2, 8, 8)
    logits = adapted_logits(net, "head", x, weights, knowledge)

    def conv(x, weight, kernel):
        filters = weight[:-1].T.reshape(weight.shape[1], -1, kernel, kernel)
        return F.conv2d(x, filters, weight[-1], padding=kernel // 2)

    for r in range(2):
        w = {name: value[r, 0] for name, value in weights.items()}
        kb = {name: value[r, 0] for name, value in knowledge.items()}
        h = kept = x[r]
        for name in ("conv_1", "conv_2", "conv_3"):
            before = conv(h, w[name], 3)
            if name != "conv_1":
                hidden = F.relu(conv(kept, w[f"{name}.V"], 1))
                mixed = F.conv2d(hidden, w[f"{name}.U"].T[:, :, None, None])
                before = before + w[f"{name}.alpha"].view(1, -1, 1, 1) * mixed
            h = F.max_pool2d(F.relu(before), 2)
            kept = F.max_pool2d(F.relu(conv(kept, kb[name], 3)), 2)
        hidden = F.relu(kept.flatten(1) @ w["head.V"][:-1] + w["head.V"][-1])
        by_hand = h.flatten(1) @ w["head"][:-1] + w["head"][-1] + w["head.alpha"] * (hidden @ w["head.U"])
        torch.testing.assert_close(logits[r], by_hand, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net, shape", NETS)
def test_the_knowledge_base_gets_no_gradient_and_every_adapter_does(net, shape):
    weights, knowledge = column(net, "a"), column(net, "kb")
    for tensor in (*weights.values(), *knowledge.values()):
        tensor.requires_grad_(True)
    adapted_logits(net, "head", torch.randn(2, 7, *shape), weights, knowledge).square().sum().backward()
    assert all(tensor.grad is None for tensor in knowledge.values())
    assert all(tensor.grad.abs().sum() > 0 for tensor in weights.values())


def test_the_first_layer_has_no_adapter_and_alpha_starts_uniform():
    net = MLP(6, (500, 400))
    weights = column(net, "a")
    assert not any(name.startswith("hidden_1.") for name in weights)
    alpha = weights["hidden_2.alpha"]
    assert alpha.shape == (2, 1, 1, 400) and alpha.min() >= 0 and alpha.max() <= INITIAL_ALPHA
    quarters = torch.histc(alpha, 4, 0, INITIAL_ALPHA) / alpha.numel()
    torch.testing.assert_close(quarters, torch.full((4,), 0.25), atol=0.06, rtol=0)


def test_an_adapter_does_not_know_what_company_its_replicate_keeps():
    net = NETS[0][0]
    both, alone = column(net, "a", [3, 4]), column(net, "a", [4])
    assert all(torch.equal(both[name][1:], weight) for name, weight in alone.items())
    h = torch.randn(2, 9, 5)
    torch.testing.assert_close(lateral(h, both, "hidden_2")[1:], lateral(h[1:], alone, "hidden_2"))
