"""VCL against posteriors known from elsewhere, and CLAW that does not adapt against VCL."""

import warnings
from dataclasses import asdict

import pyro.distributions as dist
import pytest
import torch
import torch.nn.functional as F

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.own import from_arrays
from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.method import Budget, TaskInfo
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import claw, vcl
from pyroclaw.models.vcl import Settings, Vcl
from pyroclaw.nets import MLP, make_net
from pyroclaw.streams import Streams


def infer(method, task, x, y, steps=1000, classes=1):
    """SVI with a decaying rate, to the optimum as far as noise lets it."""
    method.begin_task(TaskInfo(task, f"task {task}", classes, (len(y),)), Streams([0], "begin", task))
    groups = method.phases()[0].groups
    for group in groups:
        for parameter in group["params"]:
            parameter.requires_grad_(True)
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.994)
    noise = Streams([0], "train", task)
    for _ in range(steps):
        with LocalReparameterisation(noise):
            loss = AnalyticELBO().differentiable_loss(method.model, method.guide, x[None], y[None])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    for group in groups:
        for parameter in group["params"]:
            parameter.requires_grad_(False)


class Regression(Vcl):
    """No hidden layer and a Gaussian likelihood: linear regression, whose posterior is known."""

    def likelihood(self, logits):
        return dist.Normal(logits.squeeze(-1), 0.5)


def test_chaining_posterior_to_prior_gives_the_exact_posterior_of_linear_regression():
    """Orthogonal inputs make the exact posterior of y = w·x + N(0, ½²) factorise, so mean-field is exact.

    Precision 1 + Σx²/σ² and mean Σxy/σ² over that, from the data of both tasks at once.
    """
    generator, inputs, sigma = torch.Generator().manual_seed(0), 3, 0.5
    method = Regression(MLP(inputs, ()), "single", Streams([0], "init"), Settings(lr=0.05, lr_variance=0.05))
    # rows ±unit vectors, balanced: inputs are orthogonal to each other and to the bias
    design = torch.cat([torch.eye(inputs), -torch.eye(inputs)]).repeat(10, 1)
    truth = torch.tensor([1.0, -2.0, 0.5])
    targets = [design @ truth + 0.3 + sigma * torch.randn(len(design), generator=generator) for _ in range(2)]
    for t, y in enumerate(targets):
        infer(method, t, design, y)
    x, y = torch.cat([design, torch.ones(len(design), 1)], 1).repeat(2, 1), torch.cat(targets)
    precision = 1 + (x**2).sum(0) / sigma**2
    assert (x.T @ x - torch.diag((x**2).sum(0))).abs().max() < 1e-5
    posterior = method.carried()["head"]
    error = 0.1 * precision.rsqrt().min().item()
    torch.testing.assert_close(posterior.mean.flatten(), x.T @ y / sigma**2 / precision, atol=error, rtol=0)
    torch.testing.assert_close(posterior.stddev.flatten(), precision.rsqrt(), rtol=0.02, atol=0)


def test_the_posterior_of_logistic_regression_is_laplaces_where_it_is_nearly_gaussian():
    """With much data the posterior is close to Gaussian; the best factorised Gaussian has then the mode as mean and
    1 / H_ii as variance, which is the diagonal Laplace approximation of laplace-torch around its own optimum."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies use what torch deprecates
        laplace = pytest.importorskip("laplace")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 3, generator=generator)
    y = torch.bernoulli(torch.sigmoid(x @ torch.tensor([1.0, -0.5, 0.3]) + 0.2), generator=generator).long()
    method = Vcl(MLP(3, ()), "single", Streams([0], "init"), Settings(lr=0.02, lr_variance=0.05))
    infer(method, 0, x, y, classes=2)

    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def objective():
        optimiser.zero_grad()
        prior = 0.5 * sum(p.square().sum() for p in model.parameters())
        loss = F.cross_entropy(model(x), y, reduction="sum") + prior
        loss.backward()
        return loss

    optimiser.step(objective)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = laplace.Laplace(
            model, "classification", subset_of_weights="all", hessian_structure="diag", prior_precision=1.0
        )
        oracle.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=1000))
    deviation = oracle.posterior_variance.sqrt()
    posterior = method.carried()["head"]
    mean, stddev = (value[0, 0].T for value in (posterior.mean, posterior.stddev))
    # laplace-torch has all weights first, then the biases; only differences of the two classes matter to the data
    weights, biases = oracle.mean[:6].view(2, 3), oracle.mean[6:]
    theirs = torch.cat([weights[1] - weights[0], biases[1:] - biases[:1]])
    assert ((mean[1] - mean[0] - theirs).abs() < 0.3 * deviation[[0, 1, 2, 6]]).all()
    torch.testing.assert_close(
        torch.cat([stddev[:, :-1].flatten(), stddev[:, -1]]), oracle.posterior_variance.sqrt(), rtol=0.03, atol=0
    )


class NeverAdapting(claw.Claw):
    """CLAW from VCL's prior; with p = 0 and no step for p and a, no neuron ever adapts."""

    initial_prior = Vcl.initial_prior


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_claw_that_never_adapts_is_vcl(toy, heads):
    net, budget = make_net(toy.net, toy.input_shape), Budget(10, 16)
    still = {"warm": 0.0, "average": 0.0, "lr_adaptation": 0.0, "initial_probability": 0.0, "lr_head": Settings().lr}
    settings = claw.Settings(beta=1.0, lam=1.0, consolidation="none", **asdict(Settings()), **still)
    ours = NeverAdapting(net, heads, Streams([0, 1], "init"), settings)
    theirs = Vcl(net, heads, Streams([0, 1], "init"), Settings())
    notes = [list(learn_tasks(method, toy.tasks([0, 1]), budget, [0, 1])) for method in (ours, theirs)]
    for name, mean in theirs.weights.mean.items():
        torch.testing.assert_close(ours.weights.mean[name], mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            ours.weights.log_variance[name], theirs.weights.log_variance[name], rtol=1e-4, atol=1e-5
        )
        moved = theirs.weights.log_variance[name] - Settings().initial_log_variance
        assert moved.abs().max() > 0.01  # they did learn something to be equal in
    for one, other in zip(*notes, strict=True):
        torch.testing.assert_close(one.elbo, other.elbo, rtol=1e-4, atol=1e-4)


def test_a_new_head_has_the_first_prior_and_shared_layers_the_last_posterior(toy):
    method = Vcl(make_net(toy.net, toy.input_shape), "multi", Streams([0], "init"), Settings())
    list(learn_tasks(method, toy.tasks([0]), Budget(2, 16), [0]))
    method.begin_task(TaskInfo(2, "third", 3, (50,)), Streams([0], "begin", 2))
    head, layer = method.priors["head_3"].base, method.priors["hidden_1"].base
    assert (head.mean == 0).all() and (head.stddev == 1).all() and head.mean.shape[-1] == 3
    torch.testing.assert_close(layer.mean, method.weights.mean["hidden_1"])
    torch.testing.assert_close(layer.stddev, method.weights.scale("hidden_1"))


def test_stored_bytes_are_a_mean_and_a_variance_for_each_weight():
    tasks = [(torch.randn(40, 5).numpy(), torch.arange(40).numpy() % 2) for _ in range(2)]
    bench = from_arrays("tiny", tasks, net=NetPreset("mlp", hidden=(3,)), epochs=1, batch_size=8)
    method = Vcl(make_net(bench.net, bench.input_shape), "multi", Streams([0, 1], "init"), vcl.Settings())
    first, second = learn_tasks(method, bench.tasks([0, 1]), Budget(1, 8), [0, 1])
    trunk, head = 6 * 3, 4 * 2
    assert (first.parameters, second.parameters) == (2 * (trunk + head), 2 * (trunk + 2 * head))
    assert second.stored_bytes == 4 * second.parameters
