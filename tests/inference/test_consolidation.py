"""The consolidated precision against dense Gauss-Newton matrices, conjugate posteriors and a singular value problem."""

import pyro
import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import LocalReparameterisation, affine
from pyroclaw.inference import consolidation
from pyroclaw.inference.consolidation import Precision, curvature, merged
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def gauss_newton(logits_of, weight, x, temperature):
    """Σ_n Jᵀ H J of one replicate by the Jacobian itself: [P, P] over the entries of the weight, row by row."""
    jacobian = torch.func.jacrev(logits_of)(weight, x).flatten(2)  # [n, classes, P]
    pi = (logits_of(weight, x) / temperature).softmax(-1)
    h = torch.diag_embed(pi) - pi[:, :, None] * pi[:, None, :]
    return torch.einsum("ncp,ncd,ndq->pq", jacobian, h, jacobian)


def dense(precision, r):
    return torch.kron(precision.rows[r, 0], precision.columns[r, 0])


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_with_one_example_it_is_the_gauss_newton_matrix(temperature, given):
    """With one example the mean of products is a product of means, so the Kronecker form is exact."""
    x, first, head = torch.randn(2, 1, 4), torch.randn(2, 1, 5, 3), torch.randn(2, 1, 4, 3)
    weights = {"hidden": first, "head": head}

    def forward(x):
        return affine(affine(x, first).relu(), head)

    found = curvature(forward, weights, given(x, [1, 1]), Streams([0, 1], "c"), 0, temperature)
    for r in range(2):
        own = {name: weight[r : r + 1] for name, weight in weights.items()}
        for name in weights:

            def logits_of(w, x, own=own, name=name):
                mine = own | {name: w[None, None]}
                return affine(affine(x[None], mine["hidden"]).relu(), mine["head"])[0]

            expected = gauss_newton(logits_of, own[name][0, 0], x[r], temperature)
            torch.testing.assert_close(dense(found[name], r), expected, rtol=1e-4, atol=1e-5)


def test_where_inputs_and_slopes_are_independent_it_is_the_gauss_newton_matrix_of_all_examples(given):
    """A last layer at weight 0 predicts 1/C whatever enters: H is the same for all examples, so the form is exact."""
    x, head = torch.randn(1, 60, 4), torch.zeros(1, 1, 5, 3)
    found = curvature(lambda x: affine(x, head), {"head": head}, given(x, [60]), Streams([0], "c"), 0, 1.0)
    expected = gauss_newton(lambda w, x: affine(x[None], w[None, None])[0], head[0, 0], x[0], 1.0)
    torch.testing.assert_close(dense(found["head"], 0), expected, rtol=1e-4, atol=1e-4)


def test_a_part_of_the_examples_stands_for_all(given):
    x, head = torch.randn(1, 3000, 4), torch.zeros(1, 1, 5, 3)
    arguments = lambda x: affine(x, head), {"head": head}, given(x, [3000]), Streams([0], "c")
    whole, some = (curvature(*arguments, examples, 1.0)["head"] for examples in (0, 500))
    torch.testing.assert_close(some.columns, whole.columns, rtol=1e-4, atol=1e-3)  # scaled to all 3000
    error = x[0].square().std(0) / 500**0.5
    assert ((some.rows[0, 0].diagonal()[:-1] - whole.rows[0, 0].diagonal()[:-1]).abs() < 5 * error).all()


def test_a_replicate_with_fewer_examples_counts_only_its_own(given):
    x, head = torch.randn(2, 700, 4), torch.zeros(2, 1, 5, 3)
    both = curvature(lambda x: affine(x, head), {"head": head}, given(x, [700, 300]), Streams([0, 1], "c"), 0, 1.0)
    alone, own = given(x[1:, :300], [300]), head[1:]
    short = curvature(lambda x: affine(x, own), {"head": own}, alone, Streams([1], "c"), 0, 1.0)
    for one, other in zip(both["head"], short["head"], strict=True):
        torch.testing.assert_close(one[1:], other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0])
def test_the_seeds_are_a_factor_of_the_curvature_of_the_logits(spread):
    """However sure the predictions are: at 300, probabilities underflow."""
    logits = spread * torch.randn(2, 50, 4, dtype=torch.float64)
    seeds, pi = consolidation._seeds(logits, Streams([0, 1], "c")), logits.softmax(-1)
    assert seeds.shape == (2, 3, 50, 4)
    expected = torch.diag_embed(pi) - pi.unsqueeze(-1) * pi.unsqueeze(-2)
    torch.testing.assert_close(torch.einsum("rkbc,rkbd->rbcd", seeds, seeds), expected, rtol=1e-6, atol=1e-12)


def test_a_product_that_is_symmetric_is_computed_by_half(monkeypatch):
    monkeypatch.setattr(consolidation, "BLOCK", 3)
    rows = torch.randn(2, 5, 8)
    torch.testing.assert_close(consolidation._gram(rows), rows @ rows.mT)
    torch.testing.assert_close(consolidation._gram(rows.mT), rows.mT @ rows)


@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_random_seeds_have_the_curvature_of_the_logits_as_expectation(monkeypatch, spread):
    monkeypatch.setattr(consolidation, "PROBES", 20000)
    logits = spread * torch.randn(2, 3, 12)
    seeds, pi = consolidation._seeds(logits, Streams([0, 1], "c")), logits.softmax(-1)
    products = 20000 * seeds.unsqueeze(-1) * seeds.unsqueeze(-2)
    expected = torch.diag_embed(pi) - pi.unsqueeze(-1) * pi.unsqueeze(-2)
    error = products.std(1) / 20000**0.5
    assert ((products.mean(1) - expected).abs() <= 5 * error + 1e-6).all()


def test_random_seeds_give_the_exact_expectation(monkeypatch, given):
    x, head = torch.randn(1, 4000, 2), torch.randn(1, 1, 3, 3)
    arguments = lambda x: affine(x, head), {"head": head}, given(x, [4000]), Streams([0], "c"), 0, 1.0
    exact = curvature(*arguments)["head"].columns[0, 0]
    monkeypatch.setattr(consolidation, "EXACT", 2)
    drawn = curvature(*arguments)["head"].columns[0, 0]
    # an entry sums 4000 terms of size below 1, each with a variance below 1/4 per vector
    assert ((drawn - exact).abs() < 5 * (4000 / 4 / 2) ** 0.5).all() and not torch.equal(drawn, exact)


def test_positions_of_a_convolution_are_examples(toy_pictures):
    """Of the first layer's factors: patches by hand, and gradients by hand."""
    net = make_net(toy_pictures.net, toy_pictures.input_shape)
    weights = {layer.name: torch.randn(1, 1, layer.fan_in + 1, layer.units) for layer in net.layers}
    weights["head"] = torch.randn(1, 1, net.features + 1, 2)
    train = toy_pictures.tasks([0])[0].train

    def forward(x):
        return affine(net(x, weights), weights["head"])

    found = curvature(forward, weights, train, Streams([0], "c"), 0, 1.0)[net.layers[0].name]
    x, _ = train.batch(torch.arange(train.sizes[0]).expand(1, -1))
    patches = F.pad(F.unfold(x[0], 3, padding=1).mT, (0, 1), value=1.0).flatten(0, 1)
    torch.testing.assert_close(found.rows[0, 0], patches.T @ patches / len(patches), rtol=1e-3, atol=1e-4)
    # a shift of one filter's whole map is its bias: Σ over positions of δ is J of the bias, but G adds squares of each
    assert found.columns.shape == (1, 1, net.layers[0].units, net.layers[0].units)
    assert (torch.linalg.eigvalsh(found.columns[0, 0]) > -1e-3).all()


def test_a_convolution_has_the_trace_of_the_gauss_newton_matrix(toy_pictures):
    """Positions are correlated: the trace is not that of positions as examples. Random signs give its expectation."""
    net = make_net(toy_pictures.net, toy_pictures.input_shape)
    weights = {layer.name: torch.randn(1, 1, layer.fan_in + 1, layer.units) for layer in net.layers}
    weights["head"] = torch.randn(1, 1, net.features + 1, 2)
    train, name = toy_pictures.tasks([0])[0].train, net.layers[0].name

    def forward(x, own=weights):
        return affine(net(x, own), own["head"])

    x, _ = train.batch(torch.arange(train.sizes[0]).expand(1, -1))
    exact = gauss_newton(lambda w, x: forward(x, weights | {name: w})[0], weights[name], x, 1.0).trace()
    traces = [
        consolidation._trace(curvature(forward, weights, train, Streams([seed], "c"), 0, 1.0)[name]).item()
        for seed in range(100)
    ]
    mean, error = torch.tensor(traces).mean(), torch.tensor(traces).std() / 100**0.5
    assert abs(mean - exact) < 4 * error and error < 0.1 * exact


def test_noise_of_the_posterior_enters(toy, given):
    """Under local reparameterisation the expectation is over q: predictions soften and curvature changes."""
    x = torch.randn(1, 50, 4)
    with LocalReparameterisation(Streams([0], "n")):
        w = pyro.sample("w", pyro.distributions.Normal(10 * torch.ones(1, 1, 5, 2), 5.0).to_event(2))
        noisy = curvature(lambda x: affine(x, w), {"w": w}, given(x, [50]), Streams([0], "c"), 0, 1.0)["w"]
    plain = curvature(lambda x: affine(x, w), {"w": w}, given(x, [50]), Streams([0], "c"), 0, 1.0)["w"]
    torch.testing.assert_close(noisy.rows, plain.rows)
    assert not torch.allclose(noisy.columns, plain.columns)


def test_merging_is_the_nearest_kronecker_product_scaled_to_the_trace():
    def some():
        root = torch.randn(2, 1, 4, 4, dtype=torch.float64), torch.randn(2, 1, 3, 3, dtype=torch.float64)
        return Precision(*(r @ r.mT for r in root))

    first, second = some(), some()
    found = merged(first, second)
    for r in range(2):
        total = dense(first, r) + dense(second, r)
        torch.testing.assert_close(dense(found, r).trace(), total.trace())
        # Van Loan's rearrangement: blocks as rows, then the leading singular pair
        blocks = total.view(4, 3, 4, 3).permute(0, 2, 1, 3).reshape(16, 9)
        u, s, v = torch.linalg.svd(blocks)
        nearest = torch.kron((u[:, 0] * s[0]).view(4, 4), v[0].view(3, 3))
        torch.testing.assert_close(dense(found, r) / found_scale(found, r, nearest), nearest)
        assert (torch.linalg.eigvalsh(dense(found, r)) > -1e-9).all()


def found_scale(found, r, nearest):
    return dense(found, r).trace() / nearest.trace()


def test_merging_equal_shapes_of_importance_adds_them():
    a, g = torch.eye(3).view(1, 1, 3, 3) + 0.2, torch.eye(2).view(1, 1, 2, 2) + 0.1
    found = merged(Precision(a, g), Precision(2 * a, 3 * g))
    torch.testing.assert_close(dense(found, 0), 7 * torch.kron(a[0, 0], g[0, 0]))


def test_a_task_without_curvature_changes_nothing():
    some = Precision(torch.eye(3).view(1, 1, 3, 3), torch.eye(2).view(1, 1, 2, 2))
    none = Precision(*(torch.zeros_like(factor) for factor in some))
    for pair in ((some, none), (none, some)):
        torch.testing.assert_close(dense(merged(*pair), 0), torch.eye(6))
    assert (dense(merged(none, none), 0) == 0).all()


def test_gains_scale_rows_and_columns(given):
    x, w = torch.randn(1, 1, 3), torch.randn(1, 1, 4, 2)
    rows, columns = torch.tensor([[2.0, 0.0, 0.5, 1.0]]), torch.tensor([[3.0, 0.1]])
    gain = rows[:, None, :, None] * columns[:, None, None, :]
    scaled = w * gain
    found = curvature(lambda x: affine(x, scaled), {"w": scaled}, given(x, [1]), Streams([0], "c"), 0, 1.0)["w"]
    expected = gauss_newton(lambda v, x: affine(x[None], v[None, None] * gain)[0], w[0, 0], x[0], 1.0)
    torch.testing.assert_close(dense(found.scaled(rows, columns), 0), expected, rtol=1e-4, atol=1e-5)


def test_a_ridge_makes_any_factor_positive():
    flat = Precision(torch.zeros(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    for factor in flat.positive():
        assert (torch.linalg.eigvalsh(factor) > 0).all()
