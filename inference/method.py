"""What a method is to the task loop, and what a model/guide pair is to SVI."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from pyroclaw.data.part import Task
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class TaskInfo:
    """What a method may know of a task before it sees data."""

    index: int
    name: str
    classes: int
    sizes: tuple[int, ...]  # training examples of each replicate


class Budget(NamedTuple):
    """How long a task is trained: passes over its training part, and examples a step."""

    epochs: float
    batch_size: int
    average: float | None = None  # share of a task's last steps whose mean it ends with; None: the method's own

    def steps(self, task: Task) -> int:
        return max(1, round(self.epochs * task.nominal_size / self.batch_size))


@dataclass(frozen=True)
class Training:
    """How a task is to be learned: the budget, the random streams, and who listens."""

    budget: Budget
    streams: Callable[[str], Streams]  # by purpose, e.g. "train"; other purposes give independent numbers
    on_step: Callable[[int, Tensor], None] = lambda step, elbo: None
    stop: Callable[[], bool] = lambda: False


class Phase(NamedTuple):
    """A stretch of a task's SVI steps and what they train, as Adam's parameter groups."""

    share: float
    groups: Sequence[dict]
    average: float = 0.0  # share of the task's steps, the last of this stretch, whose mean is what it ends with


class Pair(Protocol):
    """A Pyro model and guide, and which of their parameters are trained when."""

    def model(self, x: Tensor, y: Tensor) -> None: ...

    def guide(self, x: Tensor, y: Tensor) -> None: ...

    def phases(self) -> Sequence[Phase]: ...

    def constrain(self) -> None:
        """Project the parameters back to where they are allowed, after each step."""


class Method(Protocol):
    """One continual learner; every tensor carries the R replicates first."""

    name: str

    def learn(self, index: int, task: Task, training: Training) -> Tensor:
        """Learn one more task; the trace [steps, R] of the objective that was maximised, per example."""

    def effort(self, index: int) -> float:
        """Steps of that task in units of the budget's: what a progress bar has to expect."""

    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        """[R, B, classes of that task], with mean weights or, given noise, one sample of the posterior."""

    def parameters(self) -> Mapping[str, Tensor]:
        """Every number it answers with, for all tasks so far."""

    def memory(self) -> Mapping[str, Tensor]:
        """What it must keep besides, to learn the next task."""

    def settled(self) -> Sequence[object]:
        """What no later task changes, so that copies of the method may share it."""

    def summary(self) -> dict:
        """What the method wants in a run's results about the task just learned; JSON types only."""


Own = TypeVar("Own", bound=Method)


def copied(method: Own) -> Own:
    """A method that learns without the other knowing; what is settled is shared, so that tasks do not add up."""
    return deepcopy(method, {id(kept): kept for kept in method.settled()})
