r"""A product of Gaussian factors, one for each task that has something to say about a weight.

.. math::

    \prod_t N(\theta; \theta_t^*, 1/F_t) \;\propto\; N(\theta; m, 1/P), \qquad
    P = \sum_t F_t, \quad m = \frac{1}{P} \sum_t F_t \theta_t^*

so the sum of one quadratic penalty per task is, up to a constant, a single one, and what is stored does not grow.
Before the first factor the precision is 0 and the density flat. It stays 0 for a weight that no task cares about.
"""

from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints


class GaussianProduct(TorchDistribution):
    r"""log p(θ) = -½ · precision · (θ - mean)², up to a constant; improper where the precision is 0, so no sampler.

    :param mean: the mean of the product.
    :param precision: the sum of the factors' precisions, 0 or above.

    >>> both = GaussianProduct.flat(torch.zeros(1)).times(torch.tensor([0.0]), torch.tensor([1.0]))
    >>> both = both.times(torch.tensor([4.0]), torch.tensor([3.0]))
    >>> both.mean, both.precision
    (tensor([3.]), tensor([4.]))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real

    def __init__(self, mean: Tensor, precision: Tensor, validate_args: bool | None = None) -> None:
        self._mean, self.precision = torch.broadcast_tensors(mean, precision)
        super().__init__(self._mean.shape, validate_args=validate_args)

    @classmethod
    def flat(cls, like: Tensor) -> "GaussianProduct":
        """No factor yet."""
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    @property
    def mean(self) -> Tensor:
        return self._mean

    def times(self, mean: Tensor, precision: Tensor) -> "GaussianProduct":
        """One more factor N(mean, 1 / precision)."""
        total = self.precision + precision
        share = torch.where(total > 0, precision / total, 0)
        return GaussianProduct(torch.lerp(self.mean, mean, share), total)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "GaussianProduct":
        return GaussianProduct(self.mean.expand(batch_shape), self.precision.expand(batch_shape), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * self.precision * (value - self.mean).square()
