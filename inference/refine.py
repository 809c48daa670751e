"""Prediction with the help of a coreset: a copy of the posterior is refined on kept points, the posterior is not.

VCL with a coreset C_t (Nguyen et al. 2018, Algorithm 1) takes the points of C_t out of the task's data, so that no
example counts twice:

    q_t   from q_{t-1} and the data without C_t        propagated to the next task, never sees a coreset
    q̃_t   from q_t and the coresets                    for prediction only

With one head for all tasks, q̃ is refined on all coresets together; with a head for each task, each task has a q̃ of its
own, refined on its own coreset. Refining makes as many passes over a coreset as training makes over a task.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Part, Task
from pyroclaw.data.union import Union
from pyroclaw.inference.classifier import Classifier
from pyroclaw.inference.coreset import choose
from pyroclaw.inference.method import Training
from pyroclaw.inference.svi import fit
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class CoresetSettings:
    """What a method with coresets has to set besides its own."""

    points: int = 200  # a task keeps; at most half of its images
    selection: Literal["k-center", "random"] = "k-center"


class WithCoreset(Classifier):
    """Goes before a method in the bases of its class: ``class VclCoreset(WithCoreset, Vcl)``."""

    coresets: tuple[Part, ...] = ()
    refined: tuple[Classifier, ...] = ()  # by task; empty in a copy, which answers for itself

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Any) -> None:
        super().__init__(net, heads, streams, settings)
        self.coreset: CoresetSettings = settings

    def training_data(self, task: Task, streams: Streams) -> Task:
        """Set the coreset aside."""
        chosen = choose(task.train, self.coreset.points, self.coreset.selection, streams)
        self.coresets += (task.train.take(chosen),)
        size = task.nominal_size - chosen.shape[1] * task.train.fold
        return task._replace(train=task.train.drop(chosen), nominal_size=size)

    def end_task(self, task: Task, training: Training) -> None:
        super().end_task(task, training)
        self.refined = ()
        if self.shares_copy():
            everything = Union(self.coresets, [0] * len(self.coresets))
            self.refined = (self._refine(everything, self.task, training),) * len(self.coresets)
        else:
            self.refined = tuple(self._refine(own, t, training) for t, own in enumerate(self.coresets))

    def shares_copy(self) -> bool:
        """Whether one copy can answer all tasks: not if they have parameters of their own."""
        return self.heads == "single"

    def _refine(self, coreset: Part | Union, index: int, training: Training) -> Classifier:
        """A copy that has learned the coreset, starting from and held to the posterior."""
        twin, size = deepcopy(self), coreset.sizes[0]
        twin.task, twin.sizes, twin.size = index, torch.full_like(self.sizes, size), size
        last = twin.carried()
        twin.priors = {name: self.prior(name, last[name]) for name in self.sites(index)}
        twin.begin_refining()
        task = Task(f"coreset {index + 1}", 0, size, coreset, coreset, coreset)  # type: ignore[arg-type]
        budget = training.budget._replace(batch_size=min(training.budget.batch_size, size))
        fit(twin, task, budget, training.streams(f"refine {index}"), stop=training.stop)
        twin.priors = {}  # an answer needs none, and there is a copy for each task
        return twin

    def begin_refining(self) -> None:
        """A copy learns as the method does, unless that says otherwise."""

    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        return self.refined[task].logits(task, x, noise) if self.refined else super().logits(task, x, noise)

    def memory(self) -> dict[str, Tensor]:
        """The coresets; refined copies are made of them anew after each task."""
        pictures = {f"coreset_{t + 1}": own.images for t, own in enumerate(self.coresets)}
        return super().memory() | pictures | {f"labels_{t + 1}": own.classes for t, own in enumerate(self.coresets)}

    def summary(self) -> dict:
        return super().summary() | {"coreset_points": self.coresets[-1].sizes[0]}
