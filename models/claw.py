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

What a task leaves to the next. The prior of task t + 1 has the means of task t's guide and, with `consolidation`
"kronecker", the precision that the ELBO's own stationarity demands: that of the prior before plus the curvature of the
task's likelihood in the shared weights, as a Kronecker product (:mod:`pyroclaw.inference.consolidation`). A neuron that
a task switches off (gain 0) adds no precision to its weights: they stay free. With βλ = 1 both a displacement and the
guide's noise cost as much on old tasks as the same would on new data. The precision is known layer by layer. Where L
layers move together, (Σ_l J_l Δ_l)² lies between 0 and L Σ_l (J_l Δ_l)², and the sum over layers counts 1; the prior
counts max(1, c L), with c = 1 the bound itself. SVI takes its steps along the axes of that prior
(:mod:`pyroclaw.inference.coordinates`), and ends with the mean of the last of them (:mod:`pyroclaw.inference.average`).
With "none", the paper's own way, the prior is the guide itself, whose variances say less: see experiments/FINDINGS.md.
"""

from dataclasses import dataclass
from typing import Literal

import pyro.distributions as dist
import torch
import torch.nn.functional as F
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.distributions import KroneckerGaussian, LogScale, MatchedGaussian, Tempered
from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.adaptation import Adaptation, unit_counts
from pyroclaw.inference.consolidation import Precision, curvature, merged
from pyroclaw.inference.coordinates import Coordinates
from pyroclaw.inference.max_adaptation import learn_max_adaptation
from pyroclaw.inference.method import Phase, TaskInfo, Training
from pyroclaw.models.vcl import Vcl
from pyroclaw.nets import Net
from pyroclaw.streams import Streams

TIED_MARGIN = 0.01  # at it the KL's gradient in p is some 50 times its usual size, which Adam can still digest


@dataclass(frozen=True)
class Settings:
    """CLAW's settings; the defaults serve every benchmark."""

    gamma: Literal["mean-field", "tied"] = "mean-field"  # noise of γ: its own, or none but that of α
    beta: float = 0.002  # weight of the KL
    lam: float = 500.0  # weight of the consolidated precision on top of beta; without it, of the KL's quadratic part
    consolidation: Literal["kronecker", "none"] = "kronecker"  # what the next prior knows of the weights' importance
    coupling: float = 1.0  # c: what layers cost that move together, of L times what each costs alone
    coordinates: Literal["prior", "weights"] = "prior"  # that steps are taken in: the prior's axes, or single weights
    temperature: float = 2.0  # T, of the predictions whose curvature is consolidated
    fisher_examples: int = 5000  # examples that the curvature of a task is averaged over; 0 for all
    log_scale: Literal["exact", "fitted"] = "exact"  # KL to the log-scale prior
    adapt_input: bool = True  # adapt the input units too
    adaptation: Literal["learned", "always", "never"] = "learned"  # p is learned, or 1, or 0: the paper's ablations
    max_adaptation: Literal["task", "general"] = "task"  # s of each task's own, or the general one: another ablation
    warm: float = 0.3  # share of a later task's steps that train its adaptation and head only, if it has its own
    average: float = 0.2  # share of a task's steps, the last ones, whose mean it ends with; 0 for the last step alone
    lr: float = 1e-3
    lr_variance: float = 1e-2
    lr_adaptation: float = 1e-2
    lr_head: float = 1e-2  # of a head that is the task's own; one that tasks share moves at lr
    initial_log_variance: float = -10.0  # nearly a point: how wide a later prior is, consolidation says
    initial_probability: float = 0.9  # p at the start of a task
    initial_max_adaptation: float = 2.0  # s before the first task


class Claw(Vcl):
    """The model/guide pair, the posterior over global weights, and what each task keeps."""

    name = "claw"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        units = sum(unit_counts(net, settings.adapt_input))
        self.max_adaptation = torch.full(
            (self.replicates, units), settings.initial_max_adaptation, device=streams.device
        )
        self.adaptations: list[Adaptation] = []
        self.precisions: dict[str, Precision] = {}  # of the weights that tasks share

    # ---- model and guide ---------------------------------------------------------------------------------------

    def posterior(self, task: int) -> dict[str, dist.Distribution]:
        """q(w^T) of the layers (8), and q(w) of the head, whose units are the task's own and need no adaptation."""
        posterior: dict[str, dist.Distribution] = {}
        for name, gains in self.adaptations[task].gains(self.net, self.settings.adapt_input).items():
            log_variance = None if self.settings.gamma == "tied" else self.weights.log_variance[name]
            mean, displacement = self.weights.location(name), self.weights.coordinates.get(name)
            posterior[name] = MatchedGaussian.from_gains(mean, gains, log_variance, displacement)
        head = self.head(task)
        return posterior | {head: self.weights.distribution(head)}

    def prior(self, name: str, last: dist.Distribution | None) -> dist.Distribution:
        """The log-scale prior (7), or the posterior of the task before."""
        if isinstance(last, KroneckerGaussian):  # β λ = 1: what old data say counts as much as what new ones do
            together = max(1.0, self.settings.coupling * len(self.net.layers))
            rows = together * self.settings.lam * last.rows
            return KroneckerGaussian(last.mean, rows, last.columns, self.settings.beta)
        on: Literal["global", "task"] = "global" if self.settings.gamma == "mean-field" else "task"
        base = last or self.initial_prior(name)
        return Tempered(base, self.settings.beta, self.settings.lam, on=on, log_scale=self.settings.log_scale)

    def initial_prior(self, name: str) -> dist.Normal | LogScale:
        return LogScale(self.weights.mean[name].shape)

    # ---- the life of a task ------------------------------------------------------------------------------------

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        super().begin_task(task, streams)
        start = {"learned": self.settings.initial_probability, "always": 1.0, "never": 0.0}[self.settings.adaptation]
        self.adaptations.append(Adaptation.neutral(self.max_adaptation, start))
        if self.settings.coordinates == "prior":
            along = {name: Coordinates.along(own, self.priors[name]) for name, own in self.precisions.items()}
            self.weights.coordinates = along

    def carried(self) -> dict[str, dist.Distribution]:
        """Of the global weights; where γ is a point and all noise is the task's, of w^T."""
        if self.settings.gamma == "mean-field":
            precisions = {name: own.positive() for name, own in self.precisions.items()}
            means = {name: self.weights.mean[name].clone() for name in precisions}
            return super().carried() | {name: KroneckerGaussian(means[name], *own) for name, own in precisions.items()}
        return {name: dist.Normal(q.mean.clone(), q.stddev.clone()) for name, q in self.posterior(self.task).items()}

    def phases(self) -> list[Phase]:
        """A new head first learns what it can by adapting: its first gradients are no reason to move what others use.

        What is the task's own learns faster than what it shares. Where tasks share the head there is none to wait for.
        """
        p, a, _ = self.adaptations[self.task]
        trained = {"learned": [p, a], "always": [a], "never": []}[self.settings.adaptation]
        adaptation = [{"params": trained, "lr": self.settings.lr_adaptation}] if trained else []
        if self.heads == "single":
            return [Phase(1.0, [*adaptation, *self.groups(self.sites(self.task))], self.settings.average)]
        *shared, head = self.sites(self.task)
        own = [*adaptation, *self.groups([head], self.settings.lr_head)]
        everything = [*own, *self.groups(shared)]
        warm = self.settings.warm if self.task > 0 else 0.0
        return [Phase(warm, own), Phase(1 - warm, everything, self.settings.average)]

    def constrain(self) -> None:
        """The projection of projected gradient descent; with tied noise short of 0 and 1, where the KL is infinite."""
        margin = TIED_MARGIN if self.settings.gamma == "tied" else 0.0
        with torch.no_grad():
            self.adaptations[self.task].p.clamp_(margin, 1 - margin)

    def end_task(self, task: Task, training: Training) -> None:
        """Learn the task's s, and from it the general one; then consolidate."""
        self.weights.settle()
        p, a, _ = self.adaptations[self.task]
        noise = training.streams("end")

        def error(s: Tensor, x: Tensor, y: Tensor) -> Tensor:
            self.adaptations[self.task] = Adaptation(p, a, s)
            with LocalReparameterisation(noise):
                logits = self.forward(x, self._sample(self.posterior(self.task)), self.task)
            return F.cross_entropy(logits.transpose(1, 2), y, reduction="none")

        s, self.max_adaptation = learn_max_adaptation(
            self.max_adaptation, error, task.train, training.budget.batch_size
        )
        self.adaptations[self.task] = Adaptation(
            p, a, s if self.settings.max_adaptation == "task" else self.max_adaptation
        )
        if self.settings.consolidation == "kronecker" and self.settings.gamma == "mean-field":
            self._consolidate(task, training.streams("consolidate"))

    def _consolidate(self, task: Task, streams: Streams) -> None:
        """Add the curvature of the task's likelihood, in the weights before its gains, to the precision."""
        with LocalReparameterisation(streams):
            weights = self._sample(self.posterior(self.task))
            found = curvature(
                lambda x: self.forward(x, weights, self.task),
                weights,
                task.train,
                streams,
                self.settings.fisher_examples,
                self.settings.temperature,
            )
        scales = self.adaptations[self.task].mean_scales(self.net, self.settings.adapt_input)
        for name in self.sites(self.task) if self.heads == "single" else scales:
            own = found[name].scaled(*scales[name]) if name in scales else found[name]
            self.precisions[name] = merged(self.precisions[name], own) if name in self.precisions else own

    # ---- what it knows -----------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Tensor]:
        """Of an old task its p, a and s; it is answered with today's γ."""
        own = {f"{f}_{t + 1}": v for t, kept in enumerate(self.adaptations) for f, v in kept._asdict().items()}
        return super().parameters() | own

    def memory(self) -> dict[str, Tensor]:
        kept = {f"{name}.{f}": v for name, own in self.precisions.items() for f, v in own._asdict().items()}
        return {"max_adaptation": self.max_adaptation} | kept

    def settled(self) -> list[object]:
        return [*super().settled(), *self.adaptations]

    def summary(self) -> dict:
        """Per layer: the share of units that adapt more likely than not, and their mean gain with its extremes."""
        adaptation, layers = self.adaptations[self.task], {}
        names = ["input", *(layer.name for layer in self.net.layers)]
        counts = unit_counts(self.net, self.settings.adapt_input)
        gains = (1 + adaptation.b() * adaptation.p).split(counts, dim=1)
        for name, p, gain in zip(names, adaptation.p.split(counts, dim=1), gains, strict=True):
            if p.numel():
                layers[name] = {
                    "adapted": (p > 0.5).float().mean().item(),
                    "probability": p.mean().item(),
                    "gain": gain.mean().item(),
                    "gain_range": [gain.min().item(), gain.max().item()],
                }
        return {"adaptation": layers}
