"""Architecture search: the mixed layers and their gradient, and two steps that leave each other's numbers alone."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.errors import InputError
from pyroclaw.handlers import affine
from pyroclaw.inference.darts import SearchSettings, Space, search
from pyroclaw.inference.svi import Interrupted
from pyroclaw.nets import CNN, MLP
from pyroclaw.streams import Streams

SIZES = {0: [0, 0, 7, 7, 40], -1: [12]}  # of a searched layer, and of a head of the task's own


def space(net, dtype=torch.float64):
    """Five random choices for each layer of a net, and one for its head."""
    generator = torch.Generator().manual_seed(1)
    shapes = {layer.name: (5, 1, 1, layer.fan_in + 1, layer.units) for layer in net.layers}
    shapes["head"] = (1, 1, 1, net.features + 1, 3)
    weights = {name: torch.randn(shape, generator=generator, dtype=dtype) * 0.3 for name, shape in shapes.items()}
    return Space(
        forward=lambda x, filled: affine(net(x, filled), filled["head"]),
        matrices=lambda: weights,
        sizes={name: torch.tensor(SIZES[-1 if name == "head" else 0]) for name in shapes},
        weights=list(weights.values()),
    )


class Data:
    """A training part that remembers what was asked for."""

    def __init__(self, size, fold=1, inputs=(6,)):
        generator = torch.Generator().manual_seed(2)
        self.sizes, self.fold, self.asked = (size,), fold, []
        self.x, self.y = torch.randn(1, size, *inputs, generator=generator), torch.arange(size)[None] % 3

    def batch(self, positions):
        self.asked.append(positions)
        return self.x[:, positions[0]], self.y.gather(1, positions)


def by_hand(net, given, alphas, x, y):
    """The cross-entropy with each choice's output computed on its own and weighted afterwards."""
    for layer in net.layers:
        outputs = []
        for weight in given.matrices()[layer.name]:
            matrix, bias = weight[0, 0, :-1], weight[0, 0, -1]
            if isinstance(net, MLP):
                outputs.append(x @ matrix + bias)
            else:
                filters = matrix.T.reshape(layer.units, -1, 3, 3)
                outputs.append(F.conv2d(x, filters, bias, padding=1))
        shares = torch.exp(alphas[layer.name]) / torch.exp(alphas[layer.name]).sum()
        x = torch.relu(sum(share * h for share, h in zip(shares, outputs, strict=True)))
        x = x if isinstance(net, MLP) else F.max_pool2d(x, 2)
    head = given.matrices()["head"][0, 0, 0]
    return F.cross_entropy(x.flatten(1) @ head[:-1] + head[-1], y)


@pytest.mark.parametrize(
    ("net", "inputs"), [(MLP(6, (5, 4)), (6,)), (CNN((2, 8, 8), 3, 2), (2, 8, 8))], ids=["mlp", "cnn"]
)
def test_a_mixed_layer_is_the_weighted_sum_of_its_choices_outputs_and_so_is_its_gradient(net, inputs):
    given = space(net)
    generator = torch.Generator().manual_seed(3)
    alphas = {name: torch.randn(len(s), generator=generator).double() for name, s in given.sizes.items()}
    x, y = torch.randn(1, 7, *inputs, generator=generator).double(), torch.arange(7)[None] % 3
    torch.testing.assert_close(given.cross_entropy(alphas, x, y), by_hand(net, given, alphas, x[0], y[0]))

    def objective():
        largest = 40 * len(net.layers) + 12
        growth = sum((alphas[name].exp() / alphas[name].exp().sum() * s).sum() for name, s in sizes)
        return by_hand(net, given, alphas, x[0], y[0]) + 0.5 * growth / largest

    sizes = list(given.sizes.items())
    for alpha in alphas.values():
        alpha.requires_grad_(True)
    (given.cross_entropy(alphas, x, y) + 0.5 * given.size(alphas)).backward()
    for alpha in alphas.values():
        for c in range(len(alpha)):
            with torch.no_grad():
                alpha[c] += 1e-6
                above = objective()
                alpha[c] -= 2e-6
                below = objective()
                alpha[c] += 1e-6
            assert alpha.grad[c].item() == pytest.approx((above - below).item() / 2e-6, abs=1e-8, rel=1e-5)


def found(steps, train=None, **settings):
    """Search an MLP: α, the weights before and after, and the space."""
    given = space(MLP(6, (5, 4)), torch.float32)
    before = [weight.clone() for weight in given.weights]
    alphas, trace = search(given, train or Data(40), steps, 8, SearchSettings(**settings), Streams([0], "search"))
    assert len(trace) == steps
    return alphas, before, given


def test_the_step_of_the_architecture_moves_no_weight_and_has_the_sign_of_its_own_gradient():
    train = Data(40)
    alphas, before, given = found(1, train)
    assert all(torch.equal(a, b) for a, b in zip(before, given.weights, strict=True))
    start = {name: torch.zeros_like(alpha, requires_grad=True) for name, alpha in alphas.items()}
    (given.cross_entropy(start, *train.batch(train.asked[0])) + 0.01 * given.size(start)).backward()
    for name, alpha in alphas.items():  # the first step of Adam has the length of its rate
        torch.testing.assert_close(alpha, -0.01 * start[name].grad.sign(), rtol=1e-3, atol=1e-6)
        assert name == "head" or alpha.abs().min() > 0.009


def test_the_step_of_the_weights_does_not_move_the_architecture():
    one, _, _ = found(1)
    two, before, given = found(2)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not any(torch.equal(a, b) for a, b in zip(before, given.weights, strict=True))
    assert not any(weight.requires_grad for weight in given.weights)


def test_the_two_steps_see_disjoint_halves_with_an_image_and_its_variants_in_one_of_them():
    train = Data(35, fold=5)
    found(40, train)
    validation, training = (set(torch.cat(train.asked[k::2], 1)[0].tolist()) for k in (0, 1))
    assert validation == set(range(15, 35)) and training == set(range(15))


def test_a_large_penalty_chooses_what_adds_nothing():
    alphas, _, _ = found(120, size_penalty=100.0)
    assert all(alpha.argmax() < 2 for name, alpha in alphas.items() if name != "head")


def test_it_tells_every_step_and_stops_when_asked():
    told = []
    with pytest.raises(Interrupted):
        search(
            space(MLP(6, (5,)), torch.float32),
            Data(40),
            10,
            8,
            SearchSettings(),
            Streams([0], "search"),
            lambda step, objective: told.append((step, objective.item())),
            lambda: len(told) == 3,
        )
    assert [step for step, _ in told] == [0, 1, 2] and all(objective < 0 for _, objective in told)


def test_one_image_cannot_be_halved():
    with pytest.raises(InputError, match="cannot be halved"):
        found(2, Data(5, fold=5))
