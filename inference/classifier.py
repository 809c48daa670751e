"""A net with heads whose weights are Pyro sites: the life that all methods of one net lead from task to task.

    model    w ~ prior (the posterior of the task before),   y ~ Categorical(head(net(x; w)))
    guide    w ~ posterior

A method says what its posterior is and how a prior comes of it; EWC and VCL differ in no more than that. Weights sit in
a plate of replicates, examples in a plate of data inside it.
"""

from collections.abc import Mapping, Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.handlers import LocalReparameterisation, affine
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import Phase, TaskInfo, Training
from pyroclaw.inference.svi import fit
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams


class Classifier:
    """What methods share; a method adds :meth:`posterior`, :meth:`prior` and :meth:`phases`.

    :param weights: where the weights of net and heads are kept; the net's are added here.
    """

    name: str
    task = -1  # the task at hand, or the last one learned

    def __init__(self, net: Net, heads: Heads, streams: Streams, weights: Points) -> None:
        self.net, self.heads, self.weights = net, heads, weights
        self.replicates = len(streams)
        for layer in net.layers:
            weights.add(layer, streams)

    def head(self, task: int) -> str:
        return "head" if self.heads == "single" else f"head_{task + 1}"

    def sites(self, task: int) -> list[str]:
        """The names of the weights a task uses."""
        return [layer.name for layer in self.net.layers] + [self.head(task)]

    # ---- model and guide ---------------------------------------------------------------------------------------

    def model(self, x: Tensor, y: Tensor) -> None:
        batch = torch.arange(y.shape[1], device=y.device)
        replicate = pyro.plate("replicate", self.replicates, dim=-2)
        with replicate:
            weights = self._sample(self.priors)
        logits = self.training_logits(x, y, weights)
        with replicate, pyro.plate("data", self.size, subsample=batch, dim=-1), poutine.scale(scale=1 / self.size):
            pyro.sample("label", self.likelihood(logits), obs=y)

    def training_logits(self, x: Tensor, y: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        return self.forward(x, weights, self.task)

    def likelihood(self, logits: Tensor) -> dist.Distribution:
        return dist.Categorical(logits=logits)

    def guide(self, x: Tensor, y: Tensor) -> None:
        with pyro.plate("replicate", self.replicates, dim=-2):
            self._sample(self.posterior(self.task))

    def posterior(self, task: int) -> dict[str, dist.Distribution]:
        """The law of each matrix of weights that the task uses, element by element."""
        return {name: self.weights.distribution(name) for name in self.sites(task)}

    def prior(self, name: str, last: dist.Distribution | None) -> dist.Distribution:
        """The prior of a matrix: `last` is its posterior as the task before left it, None if it is new."""
        raise NotImplementedError

    def _sample(self, distributions: Mapping[str, dist.Distribution]) -> dict[str, Tensor]:
        """The weights of the net. The ELBO is counted per example, so their KL is divided by the task's size."""
        with poutine.scale(scale=1 / self.sizes):
            return {name: pyro.sample(name, fn.to_event(2 - fn.event_dim)) for name, fn in distributions.items()}

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], task: int) -> Tensor:
        return affine(self.net(x, weights), weights[self.head(task)])

    # ---- the life of a task ------------------------------------------------------------------------------------

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        task = self.training_data(task, training.streams("data"))
        info = TaskInfo(index, task.name, task.classes, task.train.sizes)
        self.begin_task(info, training.streams("begin"))
        elbo = fit(self, task, training.budget, training.streams("train"), training.on_step, training.stop)
        self.end_task(task, training)
        return elbo

    def effort(self, index: int) -> float:
        return 1.0

    def training_data(self, task: Task, streams: Streams) -> Task:
        """What the method trains on when the task comes."""
        return task

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        """Make room for the task; the posterior of the one before is the prior now: equation (1)."""
        last = self.carried() if self.task >= 0 else {}
        self.task, self.size = task.index, max(task.sizes)
        self.sizes = torch.tensor(task.sizes, device=streams.device).unsqueeze(1)
        head = self.head(task.index)
        if head not in self.weights.mean:
            self.weights.add(Layer(head, self.net.features, task.classes), streams)
        self.priors = {name: self.prior(name, last.get(name)) for name in self.sites(task.index)}

    def carried(self) -> Mapping[str, dist.Distribution]:
        """The posterior that the next task starts from, in tensors of its own."""
        return {}

    def phases(self) -> Sequence[Phase]:
        raise NotImplementedError

    def constrain(self) -> None:
        """Nothing to project."""

    def end_task(self, task: Task, training: Training) -> None:
        """Nothing follows the SVI steps."""

    # ---- what it knows -----------------------------------------------------------------------------------------

    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        with torch.no_grad(), LocalReparameterisation(noise):
            return self.forward(x, self._sample(self.posterior(task)), task)

    def parameters(self) -> dict[str, Tensor]:
        return self.weights.tensors()

    def memory(self) -> dict[str, Tensor]:
        return {}

    def settled(self) -> Sequence[object]:
        return []

    def summary(self) -> dict:
        return {}
