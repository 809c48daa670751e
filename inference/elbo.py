"""The ELBO of equation (3), with every KL in closed form or not at all.

Pyro's ``TraceMeanField_ELBO`` uses a registered KL where there is one and *silently* falls back to Monte Carlo where
there is none. :class:`AnalyticELBO` raises instead. It also leaves out what the closed form makes superfluous: the
log-probabilities of latent sites, which Pyro evaluates in both traces although only observed ones enter, and the
conversion of the loss to a Python float at every step, which would wait for the device. Where Pyro's validation is off
there is nobody to look at a whole trace either: then model and guide run under a handler that only notes their sites.
"""

from collections.abc import Mapping
from typing import Any

import pyro.poutine as poutine
import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer import TraceMeanField_ELBO
from pyro.infer.trace_mean_field_elbo import _check_mean_field_requirement
from pyro.infer.util import is_validation_enabled
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from pyro.util import check_model_guide_match
from torch import Tensor
from torch.distributions import kl_divergence


class AnalyticELBO(TraceMeanField_ELBO):
    """L = Σ_n E_q[log p(y_n | x_n, θ)] - KL(q_t ‖ q_{t-1}), the expectation by one sample and the KL exactly."""

    def _get_trace(self, model, guide, args, kwargs):
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, trace=guide_trace)).get_trace(*args, **kwargs)
        check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
        _check_mean_field_requirement(model_trace, guide_trace)
        return model_trace, guide_trace

    def _sites(self, model, guide, args, kwargs) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The statements of the model, on the values of the guide, and those of the guide."""
        if is_validation_enabled():
            model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
            return model_trace.nodes, guide_trace.nodes
        with _Sites({}) as proposed:
            guide(*args, **kwargs)
        with _Sites(proposed.sites) as scored:
            model(*args, **kwargs)
        return scored.sites, proposed.sites

    def terms(self, model, guide, *args, **kwargs) -> dict[str, Tensor]:
        """The summands of the ELBO by site, of their batch shape: log-likelihoods, and minus the KLs."""
        model_sites, guide_sites = self._sites(model, guide, args, kwargs)
        terms = {}
        for name, site in model_sites.items():
            if site["type"] != "sample" or site_is_subsample(site):
                continue
            terms[name] = _log_likelihood(site) if site["is_observed"] else -_kl(name, guide_sites[name], site)
        return terms

    def replicate_losses(self, model, guide, *args, **kwargs) -> Tensor:
        """Minus the ELBO of each replicate [R], where a plate of replicates is outermost."""
        return per_replicate(self.terms(model, guide, *args, **kwargs))

    def differentiable_loss(self, model, guide, *args, **kwargs) -> Tensor:
        return -torch.stack([term.sum() for term in self.terms(model, guide, *args, **kwargs).values()]).sum()

    def loss(self, model, guide, *args, **kwargs) -> float:
        with torch.no_grad():
            return self.differentiable_loss(model, guide, *args, **kwargs).item()

    def loss_and_grads(self, model, guide, *args, **kwargs) -> float:
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        loss.backward()
        return loss.item()


class _Sites(Messenger):
    """Notes each sample statement, and gives it the value it has in another run."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.given = given
        self.sites: dict[str, Any] = {}

    def _pyro_sample(self, msg) -> None:
        if msg["name"] in self.given:
            msg["value"], msg["done"] = self.given[msg["name"]]["value"], True

    def _pyro_post_sample(self, msg) -> None:
        self.sites[msg["name"]] = msg


def per_replicate(terms: Mapping[str, Tensor]) -> Tensor:
    """Minus the ELBO of each replicate [R] from its summands."""
    return -torch.stack([term.flatten(1).sum(1) for term in terms.values()]).sum(0)


def _log_likelihood(site) -> Tensor:
    log_prob = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
    return scale_and_mask(log_prob, scale=site["scale"], mask=site["mask"])


def _kl(name: str, guide_site, model_site) -> Tensor:
    try:
        kl = kl_divergence(guide_site["fn"], model_site["fn"])
    except NotImplementedError as error:
        raise NotImplementedError(
            f"site {name!r} has no closed-form KL from {guide_site['fn']} to {model_site['fn']}: register one"
        ) from error
    if kl.shape != guide_site["fn"].batch_shape:  # would broadcast, and be counted several times
        raise ValueError(f"the KL of site {name!r} has shape {tuple(kl.shape)}, not the site's batch shape")
    return scale_and_mask(kl, scale=guide_site["scale"], mask=guide_site["mask"])
