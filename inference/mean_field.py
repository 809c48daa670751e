"""Weights by layer name: points, or mean-field Gaussians (what VCL, its generalisations and CLAW share).

A matrix of weights is [R, 1, fan-in + 1, units]; rows are inputs and the bias. In a mean field every weight has its own
mean and log-variance; where weights are points the mean is all there is. While a task is learned, a mean may be trained
in other coordinates than the weights' own.
"""

import math

import pyro.distributions as dist
import torch
from torch import Tensor

from pyroclaw.distributions import DisplacedNormal
from pyroclaw.exponential import exponential
from pyroclaw.inference.coordinates import Coordinates
from pyroclaw.nets import Layer
from pyroclaw.streams import Streams


class Points:
    """Weights without uncertainty."""

    def __init__(self) -> None:
        self.mean: dict[str, Tensor] = {}

    def add(self, layer: Layer, streams: Streams) -> None:
        """A new matrix from He's normal initialisation (variance 2 / fan-in), biases at 0."""
        mean = streams.normal(len(streams), 1, layer.fan_in + 1, layer.units) * math.sqrt(2 / layer.fan_in)
        mean[..., -1, :] = 0
        self.mean[layer.name] = mean

    def distribution(self, name: str) -> dist.Distribution:
        """The law of one matrix, element by element."""
        return dist.Delta(self.mean[name])

    def tensors(self) -> dict[str, Tensor]:
        """All parameters by name."""
        return {f"{name}.mean": mean for name, mean in self.mean.items()}


class MeanField(Points):
    """Weights with a mean and a log-variance each.

    :param initial_log_variance: where log-variances start (VCL: -6).
    """

    def __init__(self, initial_log_variance: float = -6.0) -> None:
        super().__init__()
        self.initial_log_variance = initial_log_variance
        self.log_variance: dict[str, Tensor] = {}
        self.coordinates: dict[str, Coordinates] = {}  # of the displacement from the mean, while it is trained in them

    def add(self, layer: Layer, streams: Streams) -> None:
        super().add(layer, streams)
        self.log_variance[layer.name] = torch.full_like(self.mean[layer.name], self.initial_log_variance)

    def location(self, name: str) -> Tensor:
        """The mean, displaced as far as training has come."""
        return self.coordinates[name].location() if name in self.coordinates else self.mean[name]

    def trained(self, name: str) -> Tensor:
        """What an optimiser changes to move the mean."""
        return self.coordinates[name].position if name in self.coordinates else self.mean[name]

    def settle(self) -> None:
        """Take the displaced means for the means."""
        for name in list(self.coordinates):
            self.mean[name] = self.location(name)
            del self.coordinates[name]

    def scale(self, name: str) -> Tensor:
        return exponential(0.5 * self.log_variance[name])

    def variance(self, name: str) -> Tensor:
        return exponential(self.log_variance[name])

    def distribution(self, name: str) -> dist.Distribution:
        if name in self.coordinates:
            return DisplacedNormal(self.location(name), self.scale(name), self.coordinates[name])
        return dist.Normal(self.mean[name], self.scale(name))

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {f"{name}.log_variance": value for name, value in self.log_variance.items()}
