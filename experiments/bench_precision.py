"""A step of a convolutional net that multiplies in bfloat16, over one in float32."""

from collections.abc import Callable
from functools import partial
from typing import Any

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.experiments.bench_step import BATCH, CNN
from pyroclaw.experiments.bench_timing import Row, interleaved, ratio, some_tasks
from pyroclaw.inference.method import TaskInfo
from pyroclaw.inference.svi import Budget, fit
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.precision import Precision, convolutions_in
from pyroclaw.streams import Streams


def precision_rows(rounds: int, examples: int = 1000) -> list[Row]:
    bench, rows = some_tasks(1, examples, CNN, (32, 32, 3)), []
    for name in ("claw", "independent"):
        one = step(bench, name)
        seconds = interleaved({"lower": partial(one, "bfloat16"), "usual": partial(one, "float32")}, rounds)
        found = ratio(seconds["lower"], seconds["usual"])
        rows.append(Row("precision", f"{name}'s step, bfloat16 over float32", *found))
    return rows


def step(bench: Benchmark, name: str) -> Callable[[Precision], object]:
    """A step of a method's first task."""
    entry, (task,), streams = METHODS[name], bench.tasks([0]), Streams([0], "bench")
    method: Any = entry.make(make_net(bench.net, bench.input_shape), bench.heads, streams, entry.settings())
    method.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), streams)
    budget = Budget(BATCH / task.nominal_size, BATCH)

    def run(precision: Precision) -> object:
        with convolutions_in(precision):
            return fit(method, task, budget, Streams([0], "train"))

    return run
