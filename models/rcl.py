"""RCL: Reinforced Continual Learning (Xu & Zhu, NeurIPS 2018).

The first task trains the net as usual. For each later one a controller proposes how many units to add to each layer;
the child, which is the old net with these units, is trained, and its reward

    R = accuracy on the task's validation part - ξ · units added

teaches the controller (:mod:`pyroclaw.inference.controller`). After all trials the child with the best reward is kept,
and net and controller go on to the next task. The validation part is used as the paper does: it decides which child is
kept, no weight is trained on it.

Model. The child's *new* weights have a flat prior, its old ones are constants (:mod:`pyroclaw.inference.growth`);
y ~ Categorical(net(x)). Guide. A point, so SVI is maximum likelihood. The output layer belongs to the task and is made
anew for each, in single-head benchmarks too, as in the authors' experiments on permuted MNIST. So a task is answered
with exactly the net that it ended with, and nothing it uses ever moves; which task is asked about must be known.

Two things differ from the authors' code: there new units also feed old ones (for the new task alone), and each task has
a new controller; here old units stay as they are for all tasks, and one controller learns on.

With `adapt`, a task also learns a gain 1 + bp of each *old* unit: CLAW's adaptation at its mean (appendix A.1 of Adel,
Zhao & Turner, ICLR 2020). The idea is that old features then serve a new task better, and fewer units are needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.data.part import Task
from pyroclaw.errors import InputError
from pyroclaw.inference.adaptation import Adaptation
from pyroclaw.inference.controller import Controller
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.growth import Beside, Remembered, features, join, new_columns, old_units, remember
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import Phase, TaskInfo, Training
from pyroclaw.inference.svi import fit
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams

PAPER_TRIALS = 50


@dataclass(frozen=True)
class Settings:
    """RCL's settings: those of the paper, and what `adapt` takes from CLAW."""

    trials: int = PAPER_TRIALS  # children per task
    choices: int = 30  # at most choices - 1 units are added to a layer
    penalty: float = 1e-4  # ξ: what a unit costs in accuracy
    lr: float = 1e-3
    lr_controller: float = 1e-3
    lr_value: float = 5e-3
    controller_units: int = 100
    remember_gib: float = 4.0  # old units of a task's examples are computed once if they take no more than this
    adapt: bool = False  # learn a gain of each old unit for each task
    lr_adaptation: float = 1e-2
    initial_probability: float = 0.5
    max_adaptation: float = 2.0  # s: the gain stays below it


class Child(NamedTuple):
    """What one task adds: units a layer, its columns and head, and its gains of older units."""

    added: tuple[int, ...]
    weights: Points
    adaptation: Adaptation | None


class Rcl(Finetune):
    """One net of many tasks' columns, and the controller."""

    name = "rcl"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        if len(streams) != 1:
            raise InputError(
                f"rcl got {len(streams)} repetitions at once, but each grows a net of its own: run them one by one."
            )
        if settings.trials < 1 or settings.choices < 1:
            raise InputError(
                f"trials={settings.trials} and choices={settings.choices} of rcl leave nothing to try: give 1 or more."
            )
        super().__init__(net, heads, streams, settings)
        self.settings = settings
        self.controller = Controller(
            len(net.layers),
            settings.choices,
            streams,
            settings.controller_units,
            settings.lr_controller,
            settings.lr_value,
        )
        self.children: list[Child] = []
        self.rewards: list[float] = []
        self.remembered: Remembered | None = None  # while a child is trained

    def head(self, task: int) -> str:
        return f"head_{task + 1}"

    def sites(self, task: int) -> list[str]:
        """The new weights of a task; a layer that gets no unit has none."""
        return [name for name, mean in self.children[task].weights.mean.items() if mean.numel() > 0]

    def widths(self, tasks: int) -> list[int]:
        """Units of each layer after so many tasks."""
        return [sum(counts) for counts in zip(*(child.added for child in self.children[:tasks]), strict=True)]

    # ---- model and guide ---------------------------------------------------------------------------------------

    def posterior(self, task: int) -> dict[str, dist.Distribution]:
        return {name: self.children[task].weights.distribution(name) for name in self.sites(task)}

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], task: int) -> Tensor:
        if task == 0:
            return super().forward(x, weights, task)
        new = self.children[task].weights.mean | dict(weights)
        if self.remembered is not None:
            x, old = self.remembered.unpack(x)
        else:
            matrices = self.old if task == self.task else self.joined(task)
            old = old_units(self.net, matrices, x, self.gains(task))
        with Beside(old):
            return super().forward(x, new, task)

    def joined(self, task: int) -> dict[str, Tensor]:
        """The matrix of each layer before a task came."""
        before = [child.weights.mean for child in self.children[:task]]
        return {layer.name: join([mean[layer.name] for mean in before]) for layer in self.net.layers}

    def gains(self, task: int) -> Sequence[Tensor]:
        """The task's gain of each old unit, by layer; empty if it does not adapt."""
        adaptation = self.children[task].adaptation
        if adaptation is None:
            return ()
        return (1 + adaptation.b() * adaptation.p).split(self.widths(task), dim=1)

    # ---- the life of a task ------------------------------------------------------------------------------------

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        self.rewards = []
        if index == 0:
            first = Child(tuple(layer.units for layer in self.net.layers), self.weights, None)
            return self._train(first, index, task, training, trial=0)
        self.old = self.joined(index)
        remembered = None
        if not self.settings.adapt:
            remembered = remember(self.net, self.old, task.train, round(self.settings.remember_gib * 2**30))
        best: tuple[float, Child, Tensor] | None = None
        proposals = training.streams("propose")
        for trial in range(self.settings.trials):
            added = self.controller.propose(proposals)
            child = self._grow(index, added, task.classes, training.streams(f"grow {trial}"))
            trace = self._train(child, index, task, training, trial, remembered)
            reward = accuracy(self, index, task.validation).item() - self.settings.penalty * sum(added)
            self.controller.update(added, reward)
            self.rewards.append(reward)
            if best is None or reward > best[0]:
                best = reward, child, trace
        assert best is not None  # at least one trial is made
        _, self.children[index], trace = best
        self.weights = self.children[index].weights
        return trace

    def _grow(self, index: int, added: list[int], classes: int, streams: Streams) -> Child:
        """The old net with so many new units, a new head, and gains of 1."""
        widths, weights = self.widths(index), Points()
        for layer in new_columns(self.net, widths, added):
            weights.add(layer, streams)
        weights.add(Layer(self.head(index), features(self.net, widths[-1] + added[-1]), classes), streams)
        adaptation = None
        if self.settings.adapt:
            s = torch.full((1, sum(widths)), self.settings.max_adaptation, device=streams.device)
            adaptation = Adaptation.neutral(s, self.settings.initial_probability)
        return Child(tuple(added), weights, adaptation)

    def _train(
        self, child: Child, index: int, task: Task, training: Training, trial: int, remembered: Remembered | None = None
    ) -> Tensor:
        """Maximum likelihood of the child's new weights; its trace."""
        self.children[index:] = [child]
        self.weights = child.weights
        self.begin_task(TaskInfo(index, task.name, task.classes, task.train.sizes), training.streams("begin"))
        done = trial * training.budget.steps(task)
        self.remembered = remembered
        trace = fit(
            self,
            task if remembered is None else task._replace(train=remembered.part),
            training.budget,
            training.streams(f"train {trial}"),
            lambda step, elbo: training.on_step(done + step, elbo),
            training.stop,
        )
        self.remembered = None
        return trace

    def effort(self, index: int) -> float:
        return 1.0 if index == 0 else float(self.settings.trials)

    def phases(self) -> list[Phase]:
        groups = list(super().phases()[0].groups)
        adaptation = self.children[self.task].adaptation
        if adaptation is not None:
            groups.append({"params": [adaptation.p, adaptation.a], "lr": self.settings.lr_adaptation})
        return [Phase(1.0, groups)]

    def constrain(self) -> None:
        """Probabilities of adapting stay probabilities."""
        adaptation = self.children[self.task].adaptation
        if adaptation is not None:
            with torch.no_grad():
                adaptation.p.clamp_(0, 1)

    # ---- what it knows -----------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Tensor]:
        """Every task's columns, head and, if it adapts, p and a of each older unit."""
        kept: dict[str, Tensor] = {}
        for t, child in enumerate(self.children):
            own = child.weights.tensors()
            if child.adaptation is not None:
                own |= {"p": child.adaptation.p, "a": child.adaptation.a}
            kept |= {f"{t + 1}.{name}": tensor for name, tensor in own.items()}
        return kept

    def memory(self) -> dict[str, Tensor]:
        """The controller learns on from task to task."""
        return {f"controller.{name}": tensor for name, tensor in self.controller.tensors().items()}

    def summary(self) -> dict:
        """What was added to each layer, the rewards of all trials, and how far these are from the paper's."""
        added = self.children[self.task].added if self.task > 0 else (0,) * len(self.net.layers)
        names = [layer.name for layer in self.net.layers]
        summary: dict = {
            "added": dict(zip(names, added, strict=True)),
            "units_added": sum(added),
            "units": dict(zip(names, self.widths(self.task + 1), strict=True)),
            "trials": self.settings.trials,
            "rewards": self.rewards,
        }
        if self.settings.trials != PAPER_TRIALS:
            word = "reduced" if self.settings.trials < PAPER_TRIALS else "raised"
            summary["note"] = f"{self.settings.trials} trials per task, {word} from the paper's {PAPER_TRIALS}"
        return summary
