"""Every KL is in closed form, or the ELBO says so."""

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO

from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.models import claw
from pyroclaw.models.vcl import Settings, Vcl
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def pair(prior, posterior):
    """A model with a Gaussian likelihood in a subsampled plate, and its guide, for two replicates."""

    def model(y):
        with pyro.plate("replicate", 2, dim=-2):
            w = pyro.sample("w", prior)
            with pyro.plate("data", 50, subsample=torch.arange(5), dim=-1):
                pyro.sample("y", dist.Normal(w.squeeze(-1), 1.0), obs=y)

    def guide(y):
        with pyro.plate("replicate", 2, dim=-2):
            pyro.sample("w", posterior)

    return model, guide, torch.randn(2, 5)


def normals():
    shape = (2, 1, 1)
    return dist.Normal(torch.zeros(shape), 2.0).to_event(1), dist.Normal(torch.ones(shape), 0.5).to_event(1)


def test_it_equals_pyros_estimator_on_the_same_noise():
    prior, posterior = normals()
    model, guide, y = pair(prior, posterior)
    losses = []
    for elbo in (AnalyticELBO(), TraceMeanField_ELBO()):
        pyro.set_rng_seed(1)
        losses.append(elbo.differentiable_loss(model, guide, y))
    torch.testing.assert_close(losses[0], losses[1])


def test_it_agrees_with_monte_carlo_in_expectation():
    prior, posterior = normals()
    model, guide, y = pair(prior, posterior)
    sampled = torch.tensor([Trace_ELBO().loss(model, guide, y) for _ in range(1500)])
    analytic = torch.tensor([AnalyticELBO().loss(model, guide, y) for _ in range(1500)])
    error = ((sampled.var() + analytic.var()) / 1500).sqrt()
    assert (sampled.mean() - analytic.mean()).abs() < 5 * error


def test_the_kl_term_is_exact_and_free_of_noise():
    prior, posterior = normals()
    model, guide, y = pair(prior, posterior)
    expected = -torch.distributions.kl_divergence(posterior, prior).sum()
    for _ in range(3):
        torch.testing.assert_close(AnalyticELBO().terms(model, guide, y)["w"].sum(), expected)


def test_a_site_without_a_closed_form_is_refused_where_pyro_falls_back_silently():
    posterior = normals()[1]
    model, guide, y = pair(dist.StudentT(3.0, torch.zeros(2, 1, 1), 1.0).to_event(1), posterior)
    assert TraceMeanField_ELBO().loss(model, guide, y) > 0
    with pytest.raises(NotImplementedError, match="'w' has no closed-form KL"):
        AnalyticELBO().loss(model, guide, y)


def test_gradients_of_loss_and_grads_are_those_of_the_differentiable_loss():
    mean = torch.zeros(2, 1, 1, requires_grad=True)
    model, guide, y = pair(normals()[0], dist.Normal(mean, 0.5).to_event(1))
    pyro.set_rng_seed(3)
    AnalyticELBO().loss_and_grads(model, guide, y)
    pyro.set_rng_seed(3)
    (expected,) = torch.autograd.grad(AnalyticELBO().differentiable_loss(model, guide, y), mean)
    torch.testing.assert_close(mean.grad, expected)


def test_the_losses_of_replicates_add_up_to_the_loss(toy):
    method = Vcl(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), Settings())
    task = toy.tasks([0, 1])[0]
    method.begin_task(TaskInfo(0, task.name, 2, task.train.sizes), Streams([0, 1], "begin"))
    x, y = task.train.batch(torch.arange(16).expand(2, -1))
    with LocalReparameterisation(None):
        each = AnalyticELBO().replicate_losses(method.model, method.guide, x, y)
        whole = AnalyticELBO().differentiable_loss(method.model, method.guide, x, y)
    assert each.shape == (2,) and each[0] != each[1]
    torch.testing.assert_close(each.sum(), whole)


@pytest.mark.parametrize("index", [0, 1], ids=["log-scale prior", "Kronecker prior"])
def test_with_or_without_validation_claws_elbo_and_gradients_are_pyros_own(toy, index):
    """The lean run of steps that Pyro does not check, the checked one, and Pyro's estimator on the public pair."""
    method = claw.Claw(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), claw.Settings())
    tasks = toy.tasks([0, 1])
    if index:
        method.learn(0, tasks[0], Training(Budget(1, 16), lambda purpose: Streams([0, 1], purpose)))
    method.begin_task(TaskInfo(index, "now", 2, tasks[index].train.sizes), Streams([0, 1], "begin"))
    x, y = tasks[index].train.batch(torch.arange(16).expand(2, -1))
    trained = [one.requires_grad_() for group in method.phases()[-1].groups for one in group["params"]]
    found = []
    for elbo, checked in ((AnalyticELBO(), False), (AnalyticELBO(), True), (TraceMeanField_ELBO(), True)):
        with pyro.validation_enabled(checked), LocalReparameterisation(Streams([0, 1], "noise")):
            loss = elbo.differentiable_loss(method.model, method.guide, x, y)
        found.append((loss, *torch.autograd.grad(loss, trained)))
    for lean, checked, pyros in zip(*found, strict=True):
        torch.testing.assert_close(lean, checked, rtol=0, atol=0)
        torch.testing.assert_close(lean, pyros, rtol=1e-4, atol=1e-6)
