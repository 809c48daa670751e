"""CLAW: Continual Learning with Adaptive Weights (Adel, Zhao & Turner, ICLR 2020).

Model, for task T. Global weights w carry the log-scale prior p(|w|) ∝ 1/|w| (7) before the first task, and from then on
the posterior of the task before. Each neuron may adapt to the task:

    w^T = (1 + b α) ∘ w                 (4)    task-specific weights
    α ~ N(p, p(1 - p))                  (5)    the Gaussian matched to "adapt or not" ~ Bernoulli(p)
    1 + b = s · sigmoid(a)              (6)    gain of an adapted neuron; s is the most it can be
    y ~ Categorical(net(x; w^T))

Guide. α has the same law in model and guide, so its KL is zero, and the pair (w, α) is one site with the law of w^T:

    q(w^T | γ) = N(γ(1 + bp), γ²b²p(1 - p))    (8)    the matched Gaussian

where γ is a point ("tied", the literal equation) or has a mean-field Gaussian of its own, as in VCL ("mean-field").
The KL (9-11) is exact. In the mean-field case it is taken on the global weights: adapting is free, moving γ is not.

The input units are adapted too, which is attention; p, a and s are kept per task, three numbers per neuron. p stays in
[0, 1] by projection, and s is learned over tasks by (13) and (14).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyro
import pyro.distributions as dist
import torch
import torch.nn.functional as F
from pyro import poutine
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Part
from pyroclaw.distributions import LogScale, MatchedGaussian, Tempered
from pyroclaw.handlers import LocalReparameterisation, affine
from pyroclaw.inference.adaptation import Adaptation, unit_counts
from pyroclaw.inference.max_adaptation import learn_max_adaptation
from pyroclaw.inference.mean_field import MeanField
from pyroclaw.inference.method import Phase, TaskInfo
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams

TIED_MARGIN = 0.01  # at it the KL's gradient in p is some 50 times its usual size, which Adam can still digest


@dataclass(frozen=True)
class Settings:
    """CLAW's settings; the defaults serve every benchmark."""

    gamma: Literal["mean-field", "tied"] = "mean-field"  # noise of γ: its own, or none but that of α
    beta: float = 0.002  # weight of the KL
    lam: float = 300.0  # weight of the KL's quadratic part, on top of beta
    log_scale: Literal["exact", "fitted"] = "exact"  # KL to the log-scale prior
    adapt_input: bool = True  # adapt the input units too
    warm: float = 0.3  # share of a later task's steps that train its adaptation and head only
    lr: float = 1e-3
    lr_variance: float = 1e-2
    lr_adaptation: float = 1e-2
    initial_log_variance: float = -6.0
    initial_probability: float = 0.5  # p at the start of a task
    initial_max_adaptation: float = 2.0  # s before the first task


class Claw:
    """The model/guide pair, the posterior over global weights, and what each task keeps."""

    name = "claw"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        self.net, self.heads, self.settings = net, heads, settings
        self.replicates = len(streams)
        self.weights = MeanField(settings.initial_log_variance)
        for layer in net.layers:
            self.weights.add(layer, streams)
        units = sum(unit_counts(net, settings.adapt_input))
        self.max_adaptation = torch.full(
            (self.replicates, units), settings.initial_max_adaptation, device=streams.device
        )
        self.adaptations: list[Adaptation] = []
        self.last_posterior: dict[str, dist.Normal] = {}

    def head(self, task: int) -> str:
        return "head" if self.heads == "single" else f"head_{task + 1}"

    # ---- model and guide ---------------------------------------------------------------------------------------

    def model(self, x: Tensor, y: Tensor) -> None:
        batch = torch.arange(y.shape[1], device=y.device)
        with pyro.plate("replicate", self.replicates, dim=-2):
            weights = self._sample(self.priors)
            logits = self._logits(x, weights, self.head(self.task))
            with pyro.plate("data", self.size, subsample=batch, dim=-1), poutine.scale(scale=1 / self.size):
                pyro.sample("label", self.likelihood(logits), obs=y)

    def likelihood(self, logits: Tensor) -> dist.Distribution:
        return dist.Categorical(logits=logits)

    def guide(self, x: Tensor, y: Tensor) -> None:
        with pyro.plate("replicate", self.replicates, dim=-2):
            self._sample(self.posterior(self.head(self.task), self.adaptations[self.task]))

    def posterior(self, head: str, adaptation: Adaptation) -> dict[str, dist.Distribution]:
        """q(w^T) of the layers (8), and q(w) of the head, whose units are the task's own and need no adaptation."""
        posterior: dict[str, dist.Distribution] = {}
        for name, gain in adaptation.gains(self.net, self.settings.adapt_input).items():
            scale = None if self.settings.gamma == "tied" else self.weights.scale(name)
            posterior[name] = MatchedGaussian.from_gain(self.weights.mean[name], *gain, scale=scale)
        posterior[head] = dist.Normal(self.weights.mean[head], self.weights.scale(head))
        return posterior

    def _sample(self, distributions: Mapping[str, dist.Distribution]) -> dict[str, Tensor]:
        """The weights of the net. The ELBO is counted per example, so their KL is divided by the task's size."""
        with poutine.scale(scale=1 / self.sizes):
            return {name: pyro.sample(name, fn.to_event(2)) for name, fn in distributions.items()}

    def _logits(self, x: Tensor, weights: Mapping[str, Tensor], head: str) -> Tensor:
        return affine(self.net(x, weights), weights[head])

    # ---- the life of a task ------------------------------------------------------------------------------------

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        self.task, self.sizes, self.size = task.index, task.sizes.unsqueeze(1), int(task.sizes.max())
        head = self.head(task.index)
        if head not in self.weights.mean:
            self.weights.add(Layer(head, self.net.features, task.classes), streams)
        self.adaptations.append(Adaptation.neutral(self.max_adaptation, self.settings.initial_probability))
        self.priors = {name: self._prior(name) for name in [layer.name for layer in self.net.layers] + [head]}

    def _prior(self, name: str) -> Tempered:
        """The log-scale prior (7), or the posterior of the task before."""
        base = self.last_posterior.get(name) or LogScale(self.weights.mean[name].shape)
        on: Literal["global", "task"] = "global" if self.settings.gamma == "mean-field" else "task"
        return Tempered(base, self.settings.beta, self.settings.lam, on=on, log_scale=self.settings.log_scale)

    def phases(self) -> list[Phase]:
        """A later task first finds out what adapting can do for it, before it may move what others rely on."""
        p, a, _ = self.adaptations[self.task]
        adaptation = {"params": [p, a], "lr": self.settings.lr_adaptation}
        own = [adaptation, *self._groups([self.head(self.task)])]
        everything = [adaptation, *self._groups(list(self.priors))]
        warm = self.settings.warm if self.task > 0 else 0.0
        return [Phase(warm, own), Phase(1 - warm, everything)]

    def _groups(self, names: list[str]) -> list[dict]:
        return [
            {"params": [self.weights.mean[name] for name in names], "lr": self.settings.lr},
            {"params": [self.weights.log_variance[name] for name in names], "lr": self.settings.lr_variance},
        ]

    def constrain(self) -> None:
        """The projection of projected gradient descent; with tied noise short of 0 and 1, where the KL is infinite."""
        margin = TIED_MARGIN if self.settings.gamma == "tied" else 0.0
        with torch.no_grad():
            self.adaptations[self.task].p.clamp_(margin, 1 - margin)

    def end_task(self, train: Part, batch_size: int, streams: Streams) -> None:
        p, a, _ = self.adaptations[self.task]

        def error(s: Tensor, x: Tensor, y: Tensor) -> Tensor:
            logits = self._predict(x, self.head(self.task), Adaptation(p, a, s), streams)
            return F.cross_entropy(logits.transpose(1, 2), y, reduction="none")

        s, self.max_adaptation = learn_max_adaptation(self.max_adaptation, error, train, batch_size)
        self.adaptations[self.task] = Adaptation(p, a, s)
        self.pass_on()

    def pass_on(self) -> None:
        """Make the posterior the prior of the next task (1): of the global weights, or of w^T where noise is tied."""
        for name, q in self.posterior(self.head(self.task), self.adaptations[self.task]).items():
            q = q.global_weight if isinstance(q, MatchedGaussian) and q.scale is not None else q
            self.last_posterior[name] = dist.Normal(q.mean.clone(), q.stddev.clone())

    # ---- what it knows -----------------------------------------------------------------------------------------

    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        """An old task keeps its p, a and s, and is answered with today's γ."""
        with torch.no_grad():
            return self._predict(x, self.head(task), self.adaptations[task], noise)

    def _predict(self, x: Tensor, head: str, adaptation: Adaptation, noise: Streams | None) -> Tensor:
        with LocalReparameterisation(noise):
            return self._logits(x, self._sample(self.posterior(head, adaptation)), head)

    def summary(self) -> dict:
        """Per layer: the share of units that adapt more likely than not, and their mean gain with its extremes."""
        adaptation, summary = self.adaptations[self.task], {}
        names = ["input", *(layer.name for layer in self.net.layers)]
        counts = unit_counts(self.net, self.settings.adapt_input)
        gains = (1 + adaptation.b() * adaptation.p).split(counts, dim=1)
        for name, p, gain in zip(names, adaptation.p.split(counts, dim=1), gains, strict=True):
            if p.numel():
                summary[name] = {
                    "adapted": (p > 0.5).float().mean().item(),
                    "probability": p.mean().item(),
                    "gain": gain.mean().item(),
                    "gain_range": [gain.min().item(), gain.max().item()],
                }
        return summary
