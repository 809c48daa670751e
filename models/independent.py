"""Independent nets: one net for each task, trained alone. A ceiling: nothing is shared, so nothing is forgotten.

What a net of this size reaches on each task with this budget. A continual learner exceeds it only by transfer between
tasks. Model and guide are those of fine-tuning, with new weights for each task, head included.
"""

from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.inference.mean_field import Points
from pyroclaw.inference.method import TaskInfo
from pyroclaw.models.finetune import Finetune, PointSettings
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


class Independent(Finetune):
    """Keeps a whole net per task."""

    name = "independent"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: PointSettings) -> None:
        super().__init__(net, heads, streams, settings)
        self.nets: list[Points] = []

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        if self.nets:
            self.weights = Points()
            for layer in self.net.layers:
                self.weights.add(layer, streams)
        self.nets.append(self.weights)
        super().begin_task(task, streams)

    def posterior(self, task: int) -> dict:
        return {name: self.nets[task].distribution(name) for name in self.sites(task)}

    def parameters(self) -> dict[str, Tensor]:
        return {f"{t + 1}.{name}": v for t, net in enumerate(self.nets) for name, v in net.tensors().items()}
