"""EWC: Elastic Weight Consolidation (Kirkpatrick et al., PNAS 2017).

Model. One Gaussian factor for each task t so far, around the weights θ*_t that it ended with,

    p(θ) ∝ ∏_t N(θ; θ*_t, 1 / (λ F_t)),        y ~ Categorical(net(x; θ))

where F_t is the diagonal of the task's Fisher information. Guide. A point (Delta), so the ELBO is the log-likelihood
minus the penalty ½ λ Σ_t F_t (θ - θ*_t)², and SVI is EWC's own optimisation.

λ = 1 is Laplace's approximation: F_t counts all N examples of the task, as the likelihood does. Heads that belong to
one task are never trained again and need no factor.
"""

from dataclasses import dataclass

import pyro.distributions as dist
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.distributions import GaussianProduct
from pyroclaw.inference.method import Training
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings:
    """EWC's settings: λ is the one that the method is known to depend on."""

    lam: float = 100.0  # strength of the penalty
    lr: float = 1e-3
    fisher_examples: int = 5000  # examples that the Fisher information of a task is averaged over; 0 for all


class Ewc(Finetune):
    """Fine-tuning with a quadratic anchor at each old task's weights."""

    name = "ewc"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        self.anchors: dict[str, GaussianProduct] = {}

    def prior(self, name: str, last: dist.Distribution | None) -> dist.Distribution:
        return self.anchors.get(name) or super().prior(name, last)

    def end_task(self, task: Task, training: Training) -> None:
        """The factor of the task just learned."""
        found = self.information(task, training.streams("end"), self.settings.fisher_examples)
        for name, information in found.items():
            weight = self.weights.mean[name]
            anchor = self.anchors.get(name) or GaussianProduct.flat(weight)
            self.anchors[name] = anchor.times(weight, self.settings.lam * information)

    def memory(self) -> dict[str, Tensor]:
        kept = {f"{name}.anchor": anchor.mean for name, anchor in self.anchors.items()}
        return kept | {f"{name}.precision": anchor.precision for name, anchor in self.anchors.items()}
