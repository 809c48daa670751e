r"""The Gaussian that matches the moments of an adapted weight: equation (8) of the CLAW paper.

A task uses the weight :math:`w = \gamma(1 + b\alpha)`, where α ~ Bernoulli(p) says whether the neuron is adapted and
1 + b is its gain when it is. With α replaced by N(p, p(1-p)) the gain 1 + bα has the moments

.. math:: m = 1 + bp, \qquad v = b^2 p(1-p).
"""

import math
from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch.distributions import constraints

from pyroclaw.distributions.displaced import Displacement
from pyroclaw.distributions.gaussian_kl import VARIANCE_FLOOR
from pyroclaw.distributions.matched_moments import Moments, are_matrices, matched_moments
from pyroclaw.errors import InputError
from pyroclaw.exponential import exponential


def gain_moments(b: torch.Tensor, p: torch.Tensor) -> Moments:
    """Mean and variance of the gain 1 + bα of one neuron."""
    return 1 + b * p, b * b * (p * (1 - p))


def product_moments(first: Moments, second: Moments) -> Moments:
    """Mean and variance of the product of two independent gains, each given by its (mean, variance).

    The variance (m1² + v1)(m2² + v2) - m1² m2² is written as m1² v2 + v1 (m2² + v2), so that nothing cancels.
    """
    (m1, v1), (m2, v2) = first, second
    return m1 * m2, torch.addcmul(m1 * m1 * v2, v1, m2 * m2 + v2)


class MatchedGaussian(TorchDistribution):
    r"""Gaussian over an adapted weight, with the mean γm and, by the kind of γ, the variance

    - γ a point ("tied", the paper's literal equation): :math:`\gamma^2 v`;
    - γ ~ N(gamma, σ²) independent of α ("mean-field"): :math:`\gamma^2 v + \sigma^2(m^2 + v)`.

    Parameters keep their own shapes, so what is per neuron is computed per neuron: gamma may be ``[R, 1, in, out]``
    against b and p of shape ``[R, 1, 1, out]``. Only :attr:`mean`, :attr:`variance` and samples have the full shape.

    At p = 0, p = 1 or b = 0 the tied weight is a point mass, and so is any weight whose gain is exactly 0. Then
    :attr:`variance` is exactly 0, but the derivative of its root would be infinite: :attr:`stddev`, the density and the
    noise of samples hold the variance (in samples of a tied weight, that of the gain) at ``VARIANCE_FLOOR``, a standard
    deviation of 1e-8, with gradient 0. Samples are the mean to within rounding and no gradient is NaN.

    :param gamma: γ, the global weight (its mean, with an own scale).
    :param b: gain of an adapted neuron minus one.
    :param p: probability that the neuron is adapted, in [0, 1].
    :param scale: σ, or None when γ is a point.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "gamma": constraints.real,
        "gain_mean": constraints.real,
        "gain_variance": constraints.nonnegative,
    }
    support = constraints.real
    has_rsample = True
    log_variance: torch.Tensor | None = None
    displacement: Displacement | None = None

    def __init__(
        self,
        gamma: torch.Tensor | float,
        b: torch.Tensor | float,
        p: torch.Tensor | float,
        scale: torch.Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        gamma = _tensor(gamma, torch.get_default_dtype())
        b, p = _tensor(b, gamma.dtype), _tensor(p, gamma.dtype)
        if (self._validate_args if validate_args is None else validate_args) and not ((p >= 0) & (p <= 1)).all():
            raise InputError("p of MatchedGaussian is a probability: clamp it to [0, 1] after each step.")
        self._hold(gamma, (gain_moments(b, p),), validate_args, scale=scale)

    @classmethod
    def from_gain(
        cls,
        gamma: torch.Tensor | float,
        gain_mean: torch.Tensor | float,
        gain_variance: torch.Tensor | float,
        scale: torch.Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> "MatchedGaussian":
        """From the moments (m, v) of any gain."""
        new, gamma = cls.__new__(cls), _tensor(gamma, torch.get_default_dtype())
        gain = _tensor(gain_mean, gamma.dtype), _tensor(gain_variance, gamma.dtype)
        new._hold(gamma, (gain,), validate_args, scale=scale)
        return new

    @classmethod
    def from_gains(
        cls,
        gamma: torch.Tensor,
        gains: Sequence[Moments],
        log_variance: torch.Tensor | None = None,
        displacement: Displacement | None = None,
    ) -> "MatchedGaussian":
        """A matrix of weights [..., I, O] whose gain is a product.

        :param gains: moments of its factors: of neurons [..., 1, O] and, if they adapt too, of inputs [..., I, 1].
        :param log_variance: log σ², or None when γ is a point.
        :param displacement: that γ comes from, if it is one from a prior's mean.
        """
        new = cls.__new__(cls)
        new.displacement = displacement
        new._hold(gamma, tuple(gains), None, log_variance=log_variance)
        return new

    def _hold(
        self,
        gamma: torch.Tensor,
        gains: tuple[Moments, ...],
        validate_args: bool | None,
        **noise: torch.Tensor | float | None,
    ) -> None:
        """:param noise: σ or log σ², by name; what else is asked for is computed then."""
        given = {name: _tensor(one, gamma.dtype) for name, one in noise.items() if one is not None}
        self.gamma, self.gains, self.tied = gamma, gains, not given
        self.__dict__.update(given)
        shapes = [one.shape for one in (gamma, *given.values(), *(moment for gain in gains for moment in gain))]
        batch_shape = torch.Size(np.broadcast_shapes(*shapes))  # torch's takes 50 times as long
        super().__init__(batch_shape, validate_args=validate_args)
        if self._validate_args and "scale" in given and not (given["scale"] > 0).all():
            raise InputError(
                "scale of MatchedGaussian must be positive; leave it out for a γ without noise of its own."
            )

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> "MatchedGaussian":
        if _instance is None and batch_shape == self.batch_shape:  # plates ask for it in every step
            return self
        new = self._get_checked_instance(MatchedGaussian, _instance)
        new.__dict__.update({name: held for name, held in self.__dict__.items() if name != "moments"})
        super(MatchedGaussian, new).__init__(torch.Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @cached_property
    def gain_mean(self) -> torch.Tensor:
        return self._gain[0]

    @cached_property
    def gain_variance(self) -> torch.Tensor:
        return self._gain[1]

    @cached_property
    def _gain(self) -> Moments:
        """Of the product of all gains."""
        return reduce(product_moments, self.gains)

    @cached_property
    def scale(self) -> torch.Tensor | None:
        """σ, or None when γ is a point."""
        return None if self.tied else self.own_variance.sqrt()

    @cached_property
    def own_variance(self) -> torch.Tensor:
        """σ², of the shape that σ was given in."""
        if self._together is not None:
            return self._together[1][1]
        if self.log_variance is not None:
            return exponential(self.log_variance)
        if self.scale is None:
            raise InputError("This MatchedGaussian is tied: its γ is a point without a law; give it a scale.")
        return self.scale * self.scale

    @cached_property
    def moments(self) -> Moments:
        """Mean and variance (8), computed together and once."""
        if self.tied:
            moments = self.gamma * self.gain_mean, self.gamma.square() * self.gain_variance
        elif self._together is not None:
            moments = self._together[0]
        else:
            own = self.own_variance * torch.addcmul(self.gain_variance, self.gain_mean, self.gain_mean)
            variance = torch.addcmul(own, self.gamma * self.gamma, self.gain_variance)
            moments = self.gain_mean * self.gamma, variance
        return self._full(moments[0]), self._full(moments[1])

    @cached_property
    def _together(self) -> tuple[Moments, Moments] | None:
        """Mean and variance of a matrix of weights, and γ and σ², in one function with one gradient."""
        if self.log_variance is None or not are_matrices(self.gamma, self.log_variance, *self.gains):
            return None
        return matched_moments(self.gamma, self.log_variance, *self.gains)

    def _full(self, moment: torch.Tensor) -> torch.Tensor:
        return moment if moment.shape == self.batch_shape else moment.expand(self.batch_shape)

    @property
    def mean(self) -> torch.Tensor:
        return self.moments[0]

    @property
    def variance(self) -> torch.Tensor:
        return self.moments[1]

    @property
    def stddev(self) -> torch.Tensor:
        return self.variance.clamp_min(VARIANCE_FLOOR).sqrt()

    @property
    def global_moments(self) -> Moments:
        """Mean γ and variance σ² of the weight all tasks share, the gain left out."""
        gamma = self.gamma if self._together is None else self._together[1][0]
        return self._full(gamma), self._full(self.own_variance)

    @property
    def global_weight(self) -> dist.Normal:
        """The law N(γ, σ²) of that weight."""
        mean, variance = self.global_moments
        return dist.Normal(mean, variance.sqrt(), validate_args=False)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> torch.Tensor:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        noise = torch.randn(shape, dtype=self.gamma.dtype, device=self.gamma.device)
        if self.tied:
            gain_stddev = self.gain_variance.clamp_min(VARIANCE_FLOOR).sqrt()
            return self.gamma * torch.addcmul(self.gain_mean, gain_stddev, noise)
        return torch.addcmul(self.mean, self.stddev, noise)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        variance = self.variance.clamp_min(VARIANCE_FLOOR)
        return -0.5 * ((value - self.mean).square() / variance + variance.log() + math.log(2 * math.pi))


def _tensor(x: torch.Tensor | float, dtype: torch.dtype) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=dtype)
