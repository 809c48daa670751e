"""The flat prior, which has nothing to say about the weights: under it SVI is maximum likelihood."""

import torch
from pyro.distributions import ImproperUniform
from torch import Tensor
from torch.distributions import constraints


class Flat(ImproperUniform):
    """log p(w) = 0 of real weights, each on its own; improper, so no sampler.

    Pyro's density is a zero on the CPU, which the ELBO of another device cannot be added to. This one is where the
    weights are.

    :param batch_shape: shape of the weights.

    >>> Flat((2, 3)).log_prob(torch.ones(2, 3)).sum()
    tensor(0.)
    """

    def __init__(self, batch_shape: tuple[int, ...]) -> None:
        super().__init__(constraints.real, torch.Size(batch_shape), torch.Size())

    def expand(self, batch_shape: tuple[int, ...], _instance: None = None) -> "Flat":
        return Flat(batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return value.new_zeros(()).expand(torch.broadcast_shapes(value.shape, self.batch_shape))
