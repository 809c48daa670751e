"""CLAW's training step written out in torch alone: what the Pyro step is measured against.

The same mathematics on the same tensors, in the fewest operations that a reader would write by hand: no site, no plate,
no distribution and no check of anything. The exact KL to the log-scale prior and products of matrices by oneDNN are the
package's own functions, since no torch operation gives them; all else is here, with gradients that torch finds.

    γ·(gain mean), γ²·(gain variance) + σ²·(gain second moment)        moments of the weights (8)
    h = x·m + √(x²·v) ε                                                activations, by local reparameterisation
    KL to the log-scale prior (9-12), or to the Kronecker Gaussian that the task before left
"""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pyroclaw.activations import VARIANCE_FLOOR
from pyroclaw.data.part import Task
from pyroclaw.distributions import KroneckerGaussian, log_scale_kl
from pyroclaw.inference.svi import BETAS
from pyroclaw.models.claw import Claw
from pyroclaw.products import linear
from pyroclaw.streams import Streams


def bare_losses(claw: Claw, x: Tensor, y: Tensor, streams: Streams) -> Tensor:
    """Minus the ELBO of each replicate [R], per example, as CLAW's model and guide have it (MLP, one head)."""
    (p, a, s), layers = claw.adaptations[claw.task], claw.net.layers
    b = s * torch.sigmoid(a) - 1
    counts = [claw.net.input_units, *(layer.units for layer in layers)]
    means, variances = ((1 + b * p).split(counts, 1), (b * b * (p * (1 - p))).split(counts, 1))
    divergence = torch.zeros(len(x), device=x.device)
    for i, layer in enumerate(layers):
        gain, spread = means[i + 1].unsqueeze(1), variances[i + 1].unsqueeze(1)
        if i == 0:  # an input unit's gain times a neuron's; the bias has no input unit
            rows, noise = F.pad(means[0], (0, 1), value=1.0).unsqueeze(2), F.pad(variances[0], (0, 1)).unsqueeze(2)
            gain, spread = rows * gain, torch.addcmul(rows * rows * spread, noise, gain * gain + spread)
        gamma, own = _weights(claw, layer.name)
        weight = gamma * gain
        variance = torch.addcmul(own * torch.addcmul(spread, gain, gain), gamma * gamma, spread)
        x = F.relu(_drawn(x, weight, variance, streams))
        divergence = divergence + _divergence(claw, layer.name, gamma, own)
    head = claw.head(claw.task)
    gamma, own = _weights(claw, head)
    logits = _drawn(x, gamma, own, streams)
    divergence = divergence + _divergence(claw, head, gamma, own)
    errors = F.cross_entropy(logits.transpose(1, 2), y, reduction="none").mean(1)
    return errors + divergence / claw.sizes.squeeze(1)


def _weights(claw: Claw, name: str) -> tuple[Tensor, Tensor]:
    """Mean and variance [R, fan-in + 1, units] of the weights that all tasks share."""
    along = claw.weights.coordinates.get(name)
    mean = claw.weights.mean[name] if along is None else along.location()
    return mean.squeeze(1), claw.weights.log_variance[name].squeeze(1).exp()


def _drawn(x: Tensor, weight: Tensor, variance: Tensor, streams: Streams) -> Tensor:
    mean, spread = linear(x, weight), linear(x.square(), variance)
    return torch.addcmul(mean, (spread + VARIANCE_FLOOR).sqrt(), streams.normal(*mean.shape))


def _divergence(claw: Claw, name: str, gamma: Tensor, variance: Tensor) -> Tensor:
    """β KL of one matrix [R]."""
    prior = claw.priors[name]
    if not isinstance(prior, KroneckerGaussian):
        return claw.settings.beta * log_scale_kl(gamma, variance).sum((1, 2))
    rows, columns, along = prior.rows.squeeze(1), prior.columns.squeeze(1), claw.weights.coordinates[name]
    pull = 0.5 * (along.precision * along.position.square()).sum((1, 2, 3))
    weighted = variance * rows.diagonal(dim1=1, dim2=2).unsqueeze(2) * columns.diagonal(dim1=1, dim2=2).unsqueeze(1)
    volume = variance.log().sum((1, 2)) + prior.log_determinant.squeeze(1) + gamma[0].numel()
    return claw.settings.beta * (0.5 * (weighted.sum((1, 2)) - volume) + pull)


def bare_step(claw: Claw, task: Task, streams: Streams) -> Callable[[Tensor], Tensor]:
    """A step on the examples at given positions [R, B], by Adam on all that CLAW's last phase trains."""
    groups = claw.phases()[-1].groups
    return stepping(groups, lambda x, y: bare_losses(claw, x, y, streams), task, claw.constrain)


def plain_step(claw: Claw, task: Task) -> Callable[[Tensor], Tensor]:
    """The same net's step of maximum likelihood: its means as weights, by plain SGD."""
    names = claw.sites(claw.task)
    weights = {name: claw.weights.mean[name].detach().clone() for name in names}

    def losses(x: Tensor, y: Tensor) -> Tensor:
        for name in names:
            x = F.relu(x) if name != names[0] else x
            x = linear(x, weights[name].squeeze(1))
        return F.cross_entropy(x.transpose(1, 2), y, reduction="none").mean(1)

    return stepping([{"params": list(weights.values()), "lr": 1e-3}], losses, task, optimiser=torch.optim.SGD)


def stepping(
    groups: Sequence[Mapping],
    losses: Callable[[Tensor, Tensor], Tensor],
    task: Task,
    constrain: Callable[[], None] = lambda: None,
    optimiser: type = torch.optim.Adam,
) -> Callable[[Tensor], Tensor]:
    options = {"betas": BETAS} if optimiser is torch.optim.Adam else {}
    moving = optimiser([dict(group) for group in groups], fused=True, **options)
    for group in groups:
        for parameter in group["params"]:
            parameter.requires_grad_(True)

    def step(positions: Tensor) -> Tensor:
        found = losses(*task.train.batch(positions))
        moving.zero_grad()
        found.sum().backward()
        moving.step()
        constrain()
        return found.detach()

    return step
