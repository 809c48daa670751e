"""The distributions of CLAW and the KL divergences between them."""

from pyroclaw.distributions import kl  # noqa: F401  (importing it registers the KL divergences)
from pyroclaw.distributions.displaced import DisplacedNormal
from pyroclaw.distributions.flat import Flat
from pyroclaw.distributions.gaussian_kl import VARIANCE_FLOOR, GaussianPrior, gaussian_kl
from pyroclaw.distributions.gaussian_product import GaussianProduct
from pyroclaw.distributions.kronecker import KroneckerGaussian
from pyroclaw.distributions.log_scale import LogScale
from pyroclaw.distributions.log_scale_kl import (
    MOLCHANOV_FIT,
    SIGMOID_FIT,
    log_scale_kl,
    log_scale_kl_from_ratio,
    sigmoid_fit_kl,
)
from pyroclaw.distributions.matched_gaussian import MatchedGaussian, gain_moments, product_moments
from pyroclaw.distributions.tempered import Tempered

__all__ = [
    "MOLCHANOV_FIT",
    "SIGMOID_FIT",
    "VARIANCE_FLOOR",
    "DisplacedNormal",
    "Flat",
    "GaussianPrior",
    "GaussianProduct",
    "KroneckerGaussian",
    "LogScale",
    "MatchedGaussian",
    "Tempered",
    "gain_moments",
    "gaussian_kl",
    "log_scale_kl",
    "log_scale_kl_from_ratio",
    "product_moments",
    "sigmoid_fit_kl",
]
