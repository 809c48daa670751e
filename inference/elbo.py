"""The ELBO of equation (3), with every KL in closed form or not at all.

Pyro's ``TraceMeanField_ELBO`` uses a registered KL where there is one and *silently* falls back to Monte Carlo where
there is none. :class:`AnalyticELBO` raises instead. It also leaves out what the closed form makes superfluous: the
log-probabilities of latent sites, which Pyro evaluates in both traces although only observed ones enter, and the
conversion of the loss to a Python float at every step, which would wait for the device.
"""

from collections.abc import Mapping

import pyro.poutine as poutine
import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer import TraceMeanField_ELBO
from pyro.infer.trace_mean_field_elbo import _check_mean_field_requirement
from pyro.infer.util import is_validation_enabled
from pyro.poutine.util import site_is_subsample
from pyro.util import check_model_guide_match
from torch import Tensor
from torch.distributions import kl_divergence


class AnalyticELBO(TraceMeanField_ELBO):
    """L = Σ_n E_q[log p(y_n | x_n, θ)] - KL(q_t ‖ q_{t-1}), the expectation by one sample and the KL exactly."""

    def _get_trace(self, model, guide, args, kwargs):
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, trace=guide_trace)).get_trace(*args, **kwargs)
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
            _check_mean_field_requirement(model_trace, guide_trace)
        model_trace.compute_log_prob(lambda name, site: site["is_observed"])
        return model_trace, guide_trace

    def terms(self, model, guide, *args, **kwargs) -> dict[str, Tensor]:
        """The summands of the ELBO by site, of their batch shape: log-likelihoods, and minus the KLs."""
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        terms = {}
        for name, site in model_trace.nodes.items():
            if site["type"] != "sample" or site_is_subsample(site):
                continue
            terms[name] = site["log_prob"] if site["is_observed"] else -_kl(name, guide_trace.nodes[name], site)
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


def per_replicate(terms: Mapping[str, Tensor]) -> Tensor:
    """Minus the ELBO of each replicate [R] from its summands."""
    return -torch.stack([term.flatten(1).sum(1) for term in terms.values()]).sum(0)


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
