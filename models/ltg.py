"""LTG: Learn to Grow (Li, Zhou, Wu, Socher & Xiong, ICML 2019).

A super-net holds for each layer a list of blocks, which are matrices of weights (or banks of filters). Task 1 makes the
first of each. A later task chooses for each layer one of

    reuse block j     W_j as it is
    adapt block j     W_j + A, with W_j as it is and a small adapter A of the task's own
    new               a block of its own, of the same size

first by architecture search (:mod:`pyroclaw.inference.darts`), which ends with the choice of the largest α in each
layer. Then the adapters and blocks chosen are trained, from new initial values and on all the task's data: they have a
flat prior and a Delta guide as in fine-tuning, and nothing else is trained. So no earlier task forgets anything: each
is answered along the path that it chose, with blocks that no later task moves. (The paper also has a version that
tunes what is reused, with a penalty; it is not made here.)

The adapter of a 3×3 convolution is a 1×1 convolution of the same input, added to the output: A is zero but for the
middle of each filter and the bias. That of a fully connected layer is a bottleneck, A = D·U, as wide as `adapter_size`
of a block allows, but one unit at least. Both start at A = 0.

A head of the task's own is always new. A single head that serves all tasks is one more layer to choose for; which task
an example belongs to must then be known, as it is with many heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyroclaw.convolutions import KERNEL
from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.errors import InputError
from pyroclaw.handlers import affine
from pyroclaw.inference.darts import SearchSettings, Space, search
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import Phase, TaskInfo, Training
from pyroclaw.inference.svi import fit
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings(SearchSettings):
    """Learn-to-Grow's settings: those of its search, and of the training that follows."""

    search: float = 1.0  # steps of the search, in units of the task's budget
    adapter_size: float = 1 / KERNEL**2  # of a fully connected layer, as a share of a block: as in a convolution
    lr: float = 1e-3  # of the training that follows


class Choice(NamedTuple):
    """A way to fill a layer."""

    kind: Literal["reuse", "adapt", "new"]
    block: str
    own: Sequence[str] = ()  # names of the matrices that it adds: an adapter's, or the new block


def fill(choice: Choice, weights: Mapping[str, Tensor]) -> Tensor:
    """The matrix [R, 1, fan-in + 1, units] of a layer filled so."""
    block = weights[choice.block]
    if choice.kind != "adapt":
        return block
    if len(choice.own) == 1:
        return block + in_the_middle(weights[choice.own[0]])
    down, up = (weights[name] for name in choice.own)
    return block + down @ up


def in_the_middle(adapter: Tensor) -> Tensor:
    """The 1×1 filters [R, 1, C + 1, out] as 3×3 filters [R, 1, 9C + 1, out] that look at the middle only."""
    filters, bias = adapter.split([adapter.shape[2] - 1, 1], dim=2)
    around = KERNEL**2 // 2
    return torch.cat([F.pad(filters.unsqueeze(3), (0, 0, around, around)).flatten(2, 3), bias], dim=2)


class Ltg(Finetune):
    """The super-net and each task's path through it.

    Architectures differ from repetition to repetition, so it learns one at a time.
    """

    name = "ltg"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        if len(streams) != 1:
            raise InputError(f"ltg cannot share a plate with {len(streams)} repetitions: run its seeds one by one")
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        self.paths: list[dict[str, Choice]] = []  # of each task, by layer

    # ---- the super-net -----------------------------------------------------------------------------------------

    def sites(self, task: int) -> list[str]:
        path = self.paths[task].values()
        return list(dict.fromkeys(name for choice in path for name in (choice.block, *choice.own)))

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], task: int) -> Tensor:
        filled = {name: fill(choice, weights) for name, choice in self.paths[task].items()}
        return affine(self.net(x, filled), filled[self.head(task)])

    def layers(self, task: int, classes: int) -> list[Layer]:
        """Those of the net, and the head."""
        return [*self.net.layers, Layer(self.head(task), self.net.features, classes)]

    def choices(self, layer: Layer, task: int) -> list[Choice]:
        """Reuse and adapt every block that the layer has, and a new one: 2 × blocks + 1 in all."""
        blocks = list(dict.fromkeys(path[layer.name].block for path in self.paths if layer.name in path))
        parts = [""] if self._is_convolution(layer) else [".down", ".up"]
        adapt = [Choice("adapt", block, [f"{block}.adapter_{task + 1}{part}" for part in parts]) for block in blocks]
        new = f"{layer.name}.{task + 1}" if blocks else layer.name
        return [*(Choice("reuse", block) for block in blocks), *adapt, Choice("new", new, [new])]

    def _is_convolution(self, layer: Layer) -> bool:
        return self.net.taps > 1 and layer in self.net.layers

    def add(self, weights: Points, layer: Layer, choice: Choice, streams: Streams) -> None:
        """The initial values of what the choice adds."""
        if choice.kind == "new":
            weights.add(layer._replace(name=choice.block), streams)
        elif choice.kind == "adapt":
            rows = layer.fan_in // KERNEL**2 + 1  # a channel each, and the bias
            if not self._is_convolution(layer):
                size = self.settings.adapter_size * (layer.fan_in + 1) * layer.units
                rows = max(1, int(size / (layer.fan_in + 1 + layer.units)))
                weights.add(Layer(choice.own[0], layer.fan_in, rows), streams)
            weights.mean[choice.own[-1]] = torch.zeros(1, 1, rows, layer.units, device=streams.device)

    # ---- the life of a task ------------------------------------------------------------------------------------

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        searched = self.search(index, task, training)
        self.begin_task(TaskInfo(index, task.name, task.classes, task.train.sizes), training.streams("begin"))
        if not self.own(index):  # all is reused, the head too
            return searched

        def on_step(step: int, elbo: Tensor) -> None:
            training.on_step(len(searched) + step, elbo)

        trained = fit(self, task, training.budget, training.streams("train"), on_step, training.stop)
        return torch.cat([searched, trained])

    def search(self, index: int, task: Task, training: Training) -> Tensor:
        """Choose the task's path; the trace [steps, 1] of the search, which the first task does not need."""
        layers = self.layers(index, task.classes)
        choices = {layer.name: self.choices(layer, index) for layer in layers}
        self.shares = {name: [1.0] for name in choices}
        trace = torch.zeros(0, device=task.train.rows.device)
        if self.paths:
            streams, candidates = training.streams("search"), Points()
            for layer in layers:
                for choice in choices[layer.name]:
                    self.add(candidates, layer, choice, streams)
            weights = self.weights.mean | candidates.mean
            space = Space(
                forward=lambda x, filled: affine(self.net(x, filled), filled[self.head(index)]),
                matrices=lambda: {name: [fill(choice, weights) for choice in some] for name, some in choices.items()},
                sizes={
                    name: torch.tensor([_size(choice, weights) for choice in some], device=streams.device)
                    for name, some in choices.items()
                },
                weights=list(candidates.mean.values()),
            )
            steps = max(2, round(self.settings.search * training.budget.steps(task)))
            batch_size, heard = training.budget.batch_size, (training.on_step, training.stop)
            alphas, trace = search(space, task.train, steps, batch_size, self.settings, streams, *heard)
            self.shares = {name: alpha.softmax(0).tolist() for name, alpha in alphas.items()}
        self.paths.append({name: choices[name][share.index(max(share))] for name, share in self.shares.items()})
        return trace.unsqueeze(1)

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        for layer in self.layers(task.index, task.classes):
            choice = self.paths[task.index][layer.name]
            if not self.weights.mean.keys() >= set(choice.own):
                self.add(self.weights, layer, choice, streams)
        super().begin_task(task, streams)

    def own(self, task: int) -> list[str]:
        """The matrices that the task added, and alone may train."""
        return [name for choice in self.paths[task].values() for name in choice.own]

    def phases(self) -> list[Phase]:
        weights = [self.weights.mean[name] for name in self.own(self.task)]
        return [Phase(1.0, [{"params": weights, "lr": self.lr}])]

    def effort(self, index: int) -> float:
        return 1.0 + (self.settings.search if index else 0.0)

    # ---- what it knows -----------------------------------------------------------------------------------------

    def summary(self) -> dict:
        """The choice of each layer with its softmax(α) and the parameters it added, and their sum."""
        path, weights = self.paths[self.task], self.weights.mean
        choices = {
            name: {
                "choice": choice.kind,
                "block": choice.block,
                "share": max(self.shares[name]),
                "added": _size(choice, weights),
            }
            for name, choice in path.items()
        }
        return {"choices": choices, "added": sum(_size(choice, weights) for choice in path.values())}


def _size(choice: Choice, weights: Mapping[str, Tensor]) -> int:
    """Parameters that the choice adds."""
    return sum(weights[name].numel() for name in choice.own)
