"""Mean-field Gaussian weights: the variational parameters that VCL, its generalisations and CLAW share.

Every weight of a matrix [R, 1, fan-in + 1, units] has its own mean and log-variance; rows are inputs and the bias.
"""

import math

import torch
from torch import Tensor

from pyroclaw.nets import Layer
from pyroclaw.streams import Streams


class MeanField:
    """Means and log-variances by layer name.

    :param initial_log_variance: where log-variances start (VCL: -6).
    """

    def __init__(self, initial_log_variance: float = -6.0) -> None:
        self.initial_log_variance = initial_log_variance
        self.mean: dict[str, Tensor] = {}
        self.log_variance: dict[str, Tensor] = {}

    def add(self, layer: Layer, streams: Streams) -> None:
        """A new matrix: means from He's normal initialisation (variance 2 / fan-in), biases at 0."""
        mean = streams.normal(len(streams), 1, layer.fan_in + 1, layer.units) * math.sqrt(2 / layer.fan_in)
        mean[..., -1, :] = 0
        self.mean[layer.name] = mean
        self.log_variance[layer.name] = torch.full_like(mean, self.initial_log_variance)

    def scale(self, name: str) -> Tensor:
        return (0.5 * self.log_variance[name]).exp()
