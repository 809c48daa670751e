"""What a method is to the task loop: a Pyro model/guide pair that meets tasks one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from pyroclaw.data.part import Part
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class TaskInfo:
    """What a method may know of a task before it sees data."""

    index: int
    name: str
    classes: int
    sizes: Tensor  # [R] training examples of each replicate


class Phase(NamedTuple):
    """A stretch of a task's SVI steps and what they train, as Adam's parameter groups."""

    share: float
    groups: Sequence[dict]


class Method(Protocol):
    """One continual learner; every tensor carries the R replicates first."""

    name: str

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        """Make room for the task: a head, task parameters; the last posterior is the prior now."""

    def model(self, x: Tensor, y: Tensor) -> None: ...

    def guide(self, x: Tensor, y: Tensor) -> None: ...

    def phases(self) -> Sequence[Phase]: ...

    def constrain(self) -> None:
        """Project the parameters back to where they are allowed, after each step."""

    def end_task(self, train: Part, batch_size: int, streams: Streams) -> None:
        """Whatever follows the SVI steps; then the posterior becomes the next task's prior."""

    def logits(self, task: int, x: Tensor, noise: Streams | None = None) -> Tensor:
        """[R, B, classes of that task], with mean weights or, given noise, one sample of the posterior."""

    def summary(self) -> dict:
        """What the method wants in a run's results about the task just learned; JSON types only."""
