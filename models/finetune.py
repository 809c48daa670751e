"""Fine-tuning: plain training on one task after the other. The floor: nothing is done against forgetting.

Model. Weights with a flat prior; y ~ Categorical(net(x; w)). Guide. A point (Delta), so the ELBO is the log-likelihood
and SVI is maximum likelihood. Each task starts from the weights that the one before left.
"""

from dataclasses import dataclass
from typing import Protocol

import pyro.distributions as dist
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.distributions import Flat
from pyroclaw.inference.classifier import Classifier
from pyroclaw.inference.fisher import fisher
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import Phase
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings:
    """The only setting of plain training."""

    lr: float = 1e-3


class PointSettings(Protocol):
    """What every method with point weights has to set."""

    @property
    def lr(self) -> float: ...


class Finetune(Classifier):
    """The pair of a flat prior and a Delta guide; EWC and the ceilings change its prior or its data."""

    name = "finetune"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: PointSettings) -> None:
        super().__init__(net, heads, streams, Points())
        self.lr = settings.lr

    def prior(self, name: str, last: dist.Distribution | None) -> dist.Distribution:
        return Flat(self.weights.mean[name].shape)

    def phases(self) -> list[Phase]:
        weights = [self.weights.mean[name] for name in self.sites(self.task)]
        return [Phase(1.0, [{"params": weights, "lr": self.lr}])]

    def information(self, task: Task, streams: Streams, examples: int) -> dict[str, Tensor]:
        """The Fisher information of the task just learned, of the weights that later tasks train too.

        Heads that belong to one task are never trained again.
        """
        names = self.sites(self.task)
        weights = {name: self.weights.mean[name] for name in names}
        found = fisher(lambda x, w: self.forward(x, w, self.task), weights, task.train, streams, examples)
        return {name: found[name] for name in (names if self.heads == "single" else names[:-1])}
