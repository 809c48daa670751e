"""FRCL: Functional Regularisation for Continual Learning (Titsias, Schwarz, Matthews, Pascanu & Teh, ICLR 2020).

Model. The net's features φ(x), with a 1 appended, have point weights. Each class c of task t has a function of its own,
f_c = w_cᵀφ with w_c ~ N(0, I), and y ~ Categorical(softmax(f)). Of each past task k there are the values u_k of its
functions at M inducing inputs Z_k, with a prior that moves with the net: u_kc ~ N(0, Φ_kΦ_kᵀ + εI), Φ_k = φ(Z_k).

Guide. q(w_c) = N(μ_c, L_c L_cᵀ) with full covariance; u_k has the posterior that its task ended with and that stays as
it was. So the objective of task t is

    Σ_n E_q[log p(y_n | f(x_n))] - Σ_c KL(q(w_c) ‖ N(0, I)) - Σ_{k<t} Σ_c KL(q(u_kc) ‖ N(0, Φ_kΦ_kᵀ + εI))

and the last sum keeps the features of old inputs such that the old functions remain likely. The expectation is by one
sample of f(x_n) ~ N(φᵀμ, |Lᵀφ|²): local reparameterisation, here exact for correlated weights too.

When a task ends, its inducing inputs are chosen from the training data, by the trace criterion (the TR version) or at
random, and the posterior of w becomes that of u. Every task, the last one too, is answered in function space: from u_k
through today's features. Each task has its own functions, whether the benchmark has one head or several.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Part, Task
from pyroclaw.inference.inducing import InducingValues, Predictive, choose
from pyroclaw.inference.method import Phase, TaskInfo, Training
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import Net
from pyroclaw.streams import Streams

LEAST_SCALE = 1e-6  # on the diagonal of L


@dataclass(frozen=True)
class Settings:
    """FRCL's settings: those of the authors on permuted MNIST, but for the initial scale."""

    points: int = 200  # inducing points a task
    selection: Literal["trace", "random"] = "trace"
    proposals: int = 5  # training points tried in place of each inducing point: 1,000 in all
    past_tasks: int = 0  # past tasks in a step's objective, in turn and scaled up; 0 for all of them
    lr: float = 1e-3
    initial_scale: float = 0.1  # of L at the start of a task; the authors' 1 takes their 2,000 steps to come down from


class Functions(NamedTuple):
    """q(w_c) = N(μ_c, L_c L_cᵀ) of the task at hand."""

    mean: Tensor  # μ [R, 1, classes, D]
    root: Tensor  # L [R, 1, classes, D, D]

    def law(self) -> dist.MultivariateNormal:
        return dist.MultivariateNormal(self.mean, scale_tril=self.root)


def draw(phi: Tensor, mean: Tensor, root: Tensor, noise: Streams | None) -> Tensor:
    """One sample of f(x) ~ N(φᵀμ, |Lᵀφ|²) for each example and class [R, B, classes], or its mean."""
    f = phi @ mean.mT
    if noise is None:
        return f
    whitened = phi @ root.transpose(1, 2).flatten(2)  # Lᵀφ of all classes side by side: φ need not be repeated
    variance = whitened.unflatten(2, root.shape[1::2]).square().sum(-1)
    return torch.addcmul(f, variance.sqrt(), noise.normal(*f.shape).to(f.dtype))


class Frcl(Finetune):
    """Fine-tuning of the features, under the functions that old tasks remember."""

    name = "frcl"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        self.inducing: list[Part] = []
        self.values: list[InducingValues] = []
        self.predictives: list[Predictive] = []

    # ---- model and guide ---------------------------------------------------------------------------------------

    def sites(self, task: int) -> list[str]:
        return [layer.name for layer in self.net.layers]

    def features(self, x: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """φ [R, B, D], the 1 included."""
        phi = self.net(x, self.weights.mean if weights is None else weights)
        return torch.cat([phi, phi.new_ones(*phi.shape[:2], 1)], -1)

    def model(self, x: Tensor, y: Tensor) -> None:
        batch, own = torch.arange(y.shape[1], device=y.device), self.functions
        with pyro.plate("replicate", self.replicates, dim=-2):
            weights = self._sample(self.priors)
            prior = dist.MultivariateNormal(torch.zeros_like(own.mean), scale_tril=self.identity)
            mean = self._sample_functions(prior)  # the guide's, as local reparameterisation has it
            logits = draw(self.features(x, weights), mean[:, 0], own.root[:, 0], self.noise)
            with pyro.plate("data", self.size, subsample=batch, dim=-1), poutine.scale(scale=1 / self.size):
                pyro.sample("label", self.likelihood(logits), obs=y)
            self._sample_values(lambda k: self.values[k].prior(self.features(self.inputs[k], weights)))

    def guide(self, x: Tensor, y: Tensor) -> None:
        with pyro.plate("replicate", self.replicates, dim=-2):
            self._sample(self.posterior(self.task))
            self._sample_functions(self.functions.law())
            self._sample_values(lambda k: self.values[k])

    def _sample_functions(self, law: dist.Distribution) -> Tensor:
        with poutine.scale(scale=1 / self.sizes):
            return pyro.sample(f"functions_{self.task + 1}", law.to_event(1))

    def _sample_values(self, law: Callable[[int], dist.Distribution]) -> None:
        """Of the past tasks; where a step has only some of them, in turn, they stand for all."""
        count = min(self.settings.past_tasks or self.task, self.task)
        for j in range(count):
            k = (self.step * count + j) % self.task
            with poutine.scale(scale=self.task / count / self.sizes):
                pyro.sample(f"values_{k + 1}", law(k))

    # ---- the life of a task ------------------------------------------------------------------------------------

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        """New functions, from the authors' start: means N(0, 1/D), and L a multiple of I."""
        self.task, self.size = task.index, max(task.sizes)
        self.sizes = torch.tensor(task.sizes, device=streams.device).unsqueeze(1)
        self.step, self.noise = 0, streams
        dimension = self.net.features + 1
        mean = streams.normal(self.replicates, 1, task.classes, dimension) / dimension**0.5
        self.identity = torch.eye(dimension, device=mean.device)
        root = (self.settings.initial_scale * self.identity).repeat(*mean.shape[:3], 1, 1)
        self.functions = Functions(mean, root)
        self.priors = {name: self.prior(name, None) for name in self.sites(task.index)}
        self.inputs = [_pictures(part) for part in self.inducing]

    def phases(self) -> list[Phase]:
        groups = [*super().phases()[0].groups, {"params": [*self.functions], "lr": self.settings.lr}]
        return [Phase(1.0, groups)]

    def constrain(self) -> None:
        """L stays lower triangular with a positive diagonal."""
        with torch.no_grad():
            self.functions.root.tril_().diagonal(dim1=-2, dim2=-1).clamp_(min=LEAST_SCALE)
        self.step += 1

    @torch.no_grad()
    def end_task(self, task: Task, training: Training) -> None:
        """Keep the functions by their values at inducing inputs, and see what all values mean for today's features."""
        settings, streams = self.settings, training.streams("inducing")
        chosen = choose(
            task.train, self.features, settings.points, streams, settings.selection, proposals=settings.proposals
        )
        self.inducing.append(task.train.take(chosen))
        features = [self.features(_pictures(part)) for part in self.inducing]
        self.values.append(InducingValues(features[-1], self.functions.mean[:, 0], self.functions.root[:, 0]))
        self.predictives = [values.predictive(phi) for values, phi in zip(self.values, features, strict=True)]

    # ---- what it knows -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        return draw(self.features(x).double(), *self.predictives[task], noise).to(x.dtype)

    def parameters(self) -> dict[str, Tensor]:
        """The net, and each task's values at its inducing inputs by what they are made of."""
        rows, columns = torch.tril_indices(*self.identity.shape, device=self.identity.device)
        kept = super().parameters()
        for k, values in enumerate(self.values):
            kept[f"features_{k + 1}"] = values.features
            kept[f"mean_{k + 1}"] = values.weight_mean
            kept[f"root_{k + 1}"] = values.weight_root[..., rows, columns]
        return kept

    def memory(self) -> dict[str, Tensor]:
        """The inducing inputs."""
        return {f"inducing_{k + 1}": part.images for k, part in enumerate(self.inducing)}

    def summary(self) -> dict:
        return {"points": self.inducing[self.task].sizes[0]}


def _pictures(part: Part) -> Tensor:
    """All inputs of a part whose replicates are equally long."""
    return part.batch(torch.arange(part.sizes[0], device=part.rows.device).expand(len(part.rows), -1))[0]
