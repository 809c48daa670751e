"""The KL divergences that ``TraceMeanField_ELBO`` looks up, registered for the pairs of guide and prior CLAW uses.

Every function returns one value per weight, of the broadcast batch shape. Where no pair is registered Pyro falls back
to Monte Carlo without a word, so each guide and prior of the package has its pair here. Gaussian variances are held at
``VARIANCE_FLOOR``; the limits of the log-scale KL are in :mod:`pyroclaw.distributions.log_scale_kl`.
"""

import numpy as np
import torch
from pyro.distributions.util import sum_rightmost
from torch.distributions import Independent, Normal, kl_divergence, register_kl

from pyroclaw.distributions.gaussian_kl import VARIANCE_FLOOR, GaussianPrior, gaussian_kl
from pyroclaw.distributions.log_scale import LogScale
from pyroclaw.distributions.log_scale_kl import log_scale_kl, sigmoid_fit_kl
from pyroclaw.distributions.matched_gaussian import MatchedGaussian
from pyroclaw.distributions.tempered import Tempered

Gaussian = Normal | MatchedGaussian


def _batch_shape(q: Gaussian, p: LogScale | Gaussian | Tempered) -> tuple[int, ...]:
    return np.broadcast_shapes(q.batch_shape, p.batch_shape)


def _scale_free_moments(q: Gaussian) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance up to a common scale, which the log-scale KL does not see: of the gain alone, per neuron,
    where γ is tied."""
    if isinstance(q, MatchedGaussian) and q.tied:
        return q.gain_mean, q.gain_variance
    return q.mean, q.variance


@register_kl(MatchedGaussian, LogScale)
@register_kl(Normal, LogScale)
def _kl_log_scale(q: Gaussian, p: LogScale) -> torch.Tensor:
    return log_scale_kl(*_scale_free_moments(q)).expand(_batch_shape(q, p))


@register_kl(Independent, LogScale)
def _kl_independent_log_scale(q: Independent, p: LogScale) -> torch.Tensor:
    """A LogScale with event dimensions of its own."""
    if len(p.event_shape) != len(q.event_shape):
        raise ValueError(f"KL of events of shape {tuple(q.event_shape)} to events of shape {tuple(p.event_shape)}")
    kl = kl_divergence(q.base_dist, LogScale(p.batch_shape + p.event_shape))
    return sum_rightmost(kl, len(p.event_shape))


@register_kl(MatchedGaussian, Normal)
@register_kl(Normal, MatchedGaussian)
@register_kl(MatchedGaussian, MatchedGaussian)
def _kl_gaussian(q: Gaussian, p: Gaussian) -> torch.Tensor:
    return gaussian_kl(q.mean, q.variance, GaussianPrior.from_moments(p.mean, p.variance))


@register_kl(MatchedGaussian, Tempered)
@register_kl(Normal, Tempered)
def _kl_tempered(q: Gaussian, p: Tempered) -> torch.Tensor:
    mean, variance = _compared_moments(q, p)
    if p.gaussian is not None:
        kl = gaussian_kl(mean, variance, p.gaussian, p.beta, p.lam)
        if p.extra is not None:
            kl = kl + p.beta / 2 * p.extra * (mean - p.gaussian.mean).square()
        return kl.expand(_batch_shape(q, p))
    if p.log_scale == "exact":
        kl = log_scale_kl(mean, variance, p.beta)
        return kl if kl.shape == p.batch_shape else kl.expand(_batch_shape(q, p))
    # By logarithms, and with floors, so that neither a mean nor a variance of zero gives an infinity or a NaN.
    kl = sigmoid_fit_kl(((variance + VARIANCE_FLOOR).log() - (mean.square() + 1e-10 * VARIANCE_FLOOR).log()).exp())
    return (p.beta * kl).expand(_batch_shape(q, p))


def _compared_moments(q: Gaussian, p: Tempered) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the weights that the prior is about."""
    if isinstance(q, MatchedGaussian) and p.on == "global":
        return q.global_moments
    return (q.mean, q.variance) if p.gaussian is not None else _scale_free_moments(q)
