"""A Gaussian that knows its mean as a displacement from a prior's, so that their KL need not find it out.

The quadratic part of a KL to a Gaussian prior with precision Λ is ½ Δᵀ Λ Δ, with Δ the difference of the means. A guide
whose mean is the prior's plus a displacement, in coordinates where Λ is diagonal, has it as a sum over coordinates: no
product with Λ is needed.
"""

from typing import Any, Protocol

import torch
from pyro.distributions import Normal, TorchDistribution
from torch import Tensor


class Displacement(Protocol):
    """Where a mean lies, from another."""

    def pull(self, prior: TorchDistribution) -> Tensor | None:
        """½ Δᵀ Λ Δ of the batch shape, if the displacement is one from this prior's mean."""


class DisplacedNormal(Normal):
    """A Normal with a :class:`Displacement` that its mean comes from."""

    def __init__(self, loc: Tensor, scale: Tensor, displacement: Displacement) -> None:
        self.displacement = displacement
        super().__init__(loc, scale)

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> "DisplacedNormal":
        new = self._get_checked_instance(DisplacedNormal, _instance)
        new.displacement = self.displacement
        return super().expand(torch.Size(batch_shape), _instance=new)
