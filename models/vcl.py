"""VCL: Variational Continual Learning (Nguyen, Li, Bui & Turner, ICLR 2018).

Model. Weights w ~ N(0, 1) before the first task, from then on the posterior of the task before (1);
y ~ Categorical(net(x; w)).

Guide. A Gaussian of its own for every weight, q(w) = N(μ, σ²): the mean field. Each task maximises

    Σ_n E_q[log p(y_n | x_n, w)] - KL(q_t ‖ q_{t-1})        (3)

with the KL in closed form and the expectation by local reparameterisation. A new head starts from N(0, 1) as prior.
"""

from dataclasses import dataclass
from typing import Protocol

import pyro.distributions as dist
import torch

from pyroclaw.data.benchmark import Heads
from pyroclaw.distributions import LogScale, Tempered
from pyroclaw.inference.classifier import Classifier
from pyroclaw.inference.mean_field import MeanField
from pyroclaw.inference.method import Phase
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings:
    """VCL's settings: those of the paper."""

    lr: float = 1e-3
    lr_variance: float = 1e-3  # of the log-variances
    initial_log_variance: float = -6.0


class MeanFieldSettings(Protocol):
    """What every method with mean-field weights has to set."""

    @property
    def lr(self) -> float: ...

    @property
    def lr_variance(self) -> float: ...

    @property
    def initial_log_variance(self) -> float: ...


class Vcl(Classifier):
    """The model/guide pair; generalised VCL and CLAW change its prior and its posterior."""

    name = "vcl"
    weights: MeanField

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: MeanFieldSettings) -> None:
        super().__init__(net, heads, streams, MeanField(settings.initial_log_variance))
        self.rates = settings.lr, settings.lr_variance

    def prior(self, name: str, last: dist.Distribution | None) -> Tempered:
        return Tempered(last or self.initial_prior(name))

    def initial_prior(self, name: str) -> dist.Normal | LogScale:
        """Before the first task."""
        mean = torch.zeros_like(self.weights.mean[name])
        return dist.Normal(mean, torch.ones_like(mean))

    def carried(self) -> dict[str, dist.Distribution]:
        last = {name: self.weights.distribution(name) for name in self.sites(self.task)}
        return {name: dist.Normal(q.mean.clone(), q.stddev.clone()) for name, q in last.items()}

    def phases(self) -> list[Phase]:
        return [Phase(1.0, self.groups(self.sites(self.task)))]

    def settled(self) -> list[object]:
        """The heads of learned tasks, where each has its own."""
        heads = [self.head(task) for task in range(self.task + 1)] if self.heads == "multi" else []
        return [law[name] for law in (self.weights.mean, self.weights.log_variance) for name in heads]

    def groups(self, names: list[str], lr: float | None = None) -> list[dict]:
        """Adam's parameter groups for the named weights.

        :param lr: rate of their means, if it is not that of all.
        """
        return [
            {"params": [self.weights.trained(name) for name in names], "lr": self.rates[0] if lr is None else lr},
            {"params": [self.weights.log_variance[name] for name in names], "lr": self.rates[1]},
        ]
