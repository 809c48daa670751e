"""P&C: Progress & Compress (Schwarz et al., ICML 2018).

Two columns of the same net: the *knowledge base*, which answers for all tasks, and an *active column*, which is made
anew for each task, reads the knowledge base through lateral adapters (`inference/columns.py`), and is thrown away.

Progress. The knowledge base is frozen; column, adapters and the column's own head are points with a flat prior, and
y ~ Categorical(column(x)): maximum likelihood.

Compress. The column is the teacher a(x) of the knowledge base k(x; θ), on the same inputs, at temperature T:

    minimise  E_x KL(softmax(a / T) ‖ softmax(k / T)) + ½ λ γ Σ F* (θ - θ*)²        (2)

As a model and guide: θ ~ N(θ*, 1 / (N λ γ F*)), a "label" a(x) with log-density -KL, and a Delta guide. The ELBO counts
per example, so a prior's KL enters divided by the task's size N; the precision is N times that of (2), which adds the
penalty to a mean over examples. There is no factor T² and the labels y are not used, both as published.

Online EWC. θ* are the weights that the task before left, in place of one anchor for each task, and

    F* ← γ F* + F_t / ‖F_t‖        (9)

with F_t the diagonal of the task's Fisher information. The paper says that F_t is normalised, because its *norm*
differs from task to task, not how. Here it is divided by its Euclidean norm over all weights that tasks share. F* is
empty before the first task, which is learned like any other, beside a knowledge base of random features. Heads that
belong to one task are never trained again and need no penalty.

So what is kept between tasks is the knowledge base and F*; only heads are added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.distributions import GaussianProduct
from pyroclaw.inference.columns import adapted_logits, add_adapter
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import TaskInfo, Training
from pyroclaw.models.finetune import Finetune, PointSettings
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings:
    """P&C's settings: λ, γ and T are the paper's for Omniglot."""

    lam: float = 15.0  # strength of the penalty
    gamma: float = 0.99  # what is left of the old tasks' importance when a task is added
    temperature: float = 2.0  # at which the predictions of column and knowledge base are compared
    lr: float = 1e-3
    fisher_examples: int = 5000  # examples that the Fisher information of a task is averaged over; 0 for all


class Distilled(TorchDistribution):
    """log p(a | k) = -KL(softmax(a / T) ‖ softmax(k / T)) of a teacher's logits a; not normalised, so no sampler.

    :param logits: k [..., classes], the student's.

    >>> Distilled(torch.tensor([1.0, 3.0]), temperature=2.0).log_prob(torch.tensor([2.0, 4.0])).abs()
    tensor(0.)
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real_vector

    def __init__(self, logits: Tensor, temperature: float) -> None:
        self.log_softened, self.temperature = (logits / temperature).log_softmax(-1), temperature
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        teacher = (value / self.temperature).log_softmax(-1)
        return (teacher.exp() * (self.log_softened - teacher)).sum(-1)


class ActiveColumn(Finetune):
    """The column of one task, beside a frozen knowledge base."""

    name = "active column"

    def __init__(self, net: Net, knowledge: Mapping[str, Tensor], streams: Streams, settings: PointSettings) -> None:
        super().__init__(net, "single", streams, settings)
        self.knowledge = knowledge
        for before, layer in pairwise(net.layers):
            add_adapter(self.weights, layer, before.units, streams)

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        head = Layer(self.head(task.index), self.net.features, task.classes)
        add_adapter(self.weights, head, head.fan_in, streams)
        super().begin_task(task, streams)

    def sites(self, task: int) -> list[str]:
        return list(self.weights.mean)

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], task: int) -> Tensor:
        return adapted_logits(self.net, self.head(task), x, weights, self.knowledge)


class Pnc(Finetune):
    """The knowledge base; its training is the compress phase."""

    name = "pnc"
    active: ActiveColumn  # only while a task is learned
    frozen: Mapping[str, Tensor]  # θ*: the knowledge base as the task found it; only while a task is learned

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        self.importance: dict[str, Tensor] = {}  # F* of the weights that tasks share
        self.facts: dict = {}  # about the last task's column

    # ---- model -------------------------------------------------------------------------------------------------

    def model(self, x: Tensor, y: Tensor) -> None:
        with torch.no_grad():
            teacher = self.active.forward(x, self.active.weights.mean, self.task)
        super().model(x, teacher)

    def likelihood(self, logits: Tensor) -> Distilled:
        return Distilled(logits, self.settings.temperature)

    def prior(self, name: str, last: dist.Distribution | None) -> dist.Distribution:
        if name not in self.importance:
            return super().prior(name, last)
        strength = self.settings.lam * self.settings.gamma * self.sizes[:, :, None, None]
        return GaussianProduct(self.frozen[name], strength * self.importance[name])

    # ---- the life of a task ------------------------------------------------------------------------------------

    def effort(self, index: int) -> float:
        return 2.0

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        """Progress, then compress, each with the whole budget."""
        self.frozen = {name: mean.clone() for name, mean in self.weights.mean.items()}
        self.active = ActiveColumn(self.net, self.frozen, training.streams("column"), self.settings)
        progress = replace(training, streams=lambda purpose: training.streams(f"progress {purpose}"))
        likelihood = self.active.learn(index, task, progress)
        steps = len(likelihood)
        compress = replace(training, on_step=lambda step, objective: training.on_step(steps + step, objective))
        distillation = super().learn(index, task, compress)
        self.facts = {
            "active_column_parameters": sum(w.numel() for w in self.active.weights.mean.values()) // self.replicates,
            "active_column_validation": accuracy(self.active, index, task.validation).mean().item(),
        }
        del self.active, self.frozen
        return torch.cat([likelihood, distillation])

    def end_task(self, task: Task, training: Training) -> None:
        """Equation (9)."""
        found = self.information(task, training.streams("end"), self.settings.fisher_examples)
        for name, own in unit_norm(found).items():
            self.importance[name] = self.settings.gamma * self.importance.get(name, 0.0) + own

    # ---- what it knows -----------------------------------------------------------------------------------------

    def memory(self) -> dict[str, Tensor]:
        return {f"{name}.importance": importance for name, importance in self.importance.items()}

    def summary(self) -> dict:
        """Of the column that was thrown away: its size, and how well it did on the task's validation part."""
        return self.facts


def unit_norm(information: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors [R, ...] divided by their common Euclidean norm, each replicate's by its own."""
    norm = torch.stack([own.flatten(1).norm(dim=1) for own in information.values()]).norm(dim=0)
    scale = 1 / norm.clamp_min(torch.finfo(norm.dtype).tiny)  # a net that is sure of everything has no information
    return {name: own * scale.view(-1, *[1] * (own.dim() - 1)) for name, own in information.items()}
