"""Joint training: one net on the data of all tasks so far at once. A ceiling: it keeps all old data.

What the shared net can do when nothing has to be remembered. With every task the net starts anew and trains on the
union of the tasks, for as many passes over it as any method makes over one task. Where only the last training matters,
those before `first` tasks have come can be left out: of T tasks they take (T - 1) / 2 times as long. Model and guide
are those of fine-tuning; the heads stand side by side, and each example is answered by the head of its own task:

    y ~ Categorical(softmax over the classes of the example's task)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.data.union import Union
from pyroclaw.handlers import affine
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import TaskInfo, Training
from pyroclaw.models import finetune
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings(finetune.Settings):
    """Those of plain training, and when it begins."""

    first: int = 1
    """Tasks that must have come before it trains; until then it takes a single step with each."""


class Joint(Finetune):
    """Keeps all training data; its weights are those of the last training from scratch."""

    name = "joint"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.first = settings.first
        self.tasks: list[Task] = []

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        if index + 1 < self.first:
            training = replace(training, budget=training.budget._replace(epochs=0.0))
        return super().learn(index, task, training)

    def effort(self, index: int) -> float:
        return index + 1.0 if index + 1 >= self.first else 0.0

    def sites(self, task: int) -> list[str]:
        """All heads take part in training, and of an answer only the task's own matters."""
        return list(self.weights.mean)

    def training_data(self, task: Task, streams: Streams) -> Task:
        self.tasks.append(task)
        everything = Union([one.train for one in self.tasks], self._offsets())
        size = sum(one.nominal_size for one in self.tasks)
        return task._replace(train=everything, nominal_size=size)  # type: ignore[arg-type]  # it can all that fit asks

    def _offsets(self) -> list[int]:
        """Where each task's head begins, the heads standing side by side."""
        widths = [0 if self.heads == "single" else one.classes for one in self.tasks[:-1]]
        return [0, *accumulate(widths)]

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        if self.tasks[1:]:
            self.weights = Points()
            for layer in self.net.layers:
                self.weights.add(layer, streams)
        for t, one in enumerate(self.tasks):
            if self.head(t) not in self.weights.mean:
                self.weights.add(Layer(self.head(t), self.net.features, one.classes), streams)
        self.starts = torch.tensor(self._offsets(), device=streams.device)
        super().begin_task(task, streams)

    def training_logits(self, x: Tensor, y: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """Of all heads side by side, minus infinity outside the head of the example's own task."""
        features = self.net(x, weights)
        heads = [affine(features, weight) for name, weight in weights.items() if name.startswith("head")]
        logits, starts = torch.cat(heads, dim=-1), self.starts
        columns = torch.arange(logits.shape[-1], device=y.device)
        own = torch.searchsorted(starts, columns, right=True) == torch.searchsorted(starts, y, right=True)[..., None]
        return logits.masked_fill(~own, -torch.inf)

    def memory(self) -> dict[str, Tensor]:
        """All training images; as shapes, since the data set holds them already."""
        kept = {}
        for t, one in enumerate(self.tasks):
            images = one.train.images
            count = sum(one.train.sizes) // one.train.fold
            kept[f"images_{t + 1}"] = torch.empty((count, *images.shape[1:]), dtype=images.dtype, device="meta")
        return kept
