import torch

from pyroclaw.handlers import affine
from pyroclaw.nets import CNN, MLP


def random_weights(net, replicates):
    return {layer.name: torch.randn(replicates, 1, layer.fan_in + 1, layer.units) for layer in net.layers}


def test_mlp_equals_a_torch_mlp_per_replicate():
    net = MLP(6, (5, 4))
    weights, x = random_weights(net, 2), torch.randn(2, 3, 6)
    for r in range(2):
        h = x[r]
        for layer in net.layers:
            w = weights[layer.name][r, 0]
            h = torch.relu(h @ w[:-1] + w[-1])
        torch.testing.assert_close(net(x, weights)[r], h)


def test_cnn_equals_a_torch_cnn_per_replicate():
    net = CNN((3, 9, 8), filters=4, blocks=2)
    weights, x = random_weights(net, 2), torch.randn(2, 5, 3, 9, 8)
    for r in range(2):
        h, channels = x[r], 3
        for layer in net.layers:
            conv = torch.nn.Conv2d(channels, 4, 3, padding=1)
            conv.weight.data = weights[layer.name][r, 0, :-1].T.reshape(4, channels, 3, 3)
            conv.bias.data = weights[layer.name][r, 0, -1]
            h, channels = torch.max_pool2d(torch.relu(conv(h)), 2), 4
        torch.testing.assert_close(net(x, weights)[r], h.flatten(1), rtol=1e-4, atol=1e-4)


def test_the_papers_nets_have_the_papers_shapes():
    assert [(layer.fan_in, layer.units) for layer in MLP(784, (150,) * 4).layers] == [(784, 150)] + [(150, 150)] * 3
    omniglot, cifar = CNN((1, 28, 28), 64, 4), CNN((3, 32, 32), 64, 4)
    assert [layer.fan_in for layer in cifar.layers] == [27, 576, 576, 576]
    assert (omniglot.features, cifar.features) == (64, 256)


def test_heads_of_unequal_size_share_the_features():
    net = MLP(6, (5,))
    features = net(torch.randn(2, 3, 6), random_weights(net, 2))
    assert [affine(features, torch.randn(2, 1, 6, classes)).shape[-1] for classes in (14, 55)] == [14, 55]
