"""What the methods cost beside VCL, next to the same ratios of the paper's table 2; and what forward transfer costs.

A step is timed on its own. Tasks are timed from begin to end, with all that a method does besides its steps
(consolidation, coresets, trials of architectures), as in the paper's table: two tasks of random bytes with the net
of permuted MNIST. How much the part besides the steps weighs depends on the budget: see docs/speed.md.
"""

from collections.abc import Callable, Sequence
from functools import partial

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.data.part import Task
from pyroclaw.experiments import paper
from pyroclaw.experiments.bench_step import BATCH, MLP
from pyroclaw.experiments.bench_timing import Row, interleaved, ratio, some_tasks
from pyroclaw.inference import learn_tasks
from pyroclaw.inference.method import Method, TaskInfo
from pyroclaw.inference.svi import Budget, fit
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

SEEDS = (0,)
CLAW_TARGET = 1.05  # CLAW's step over VCL's
TRANSFER_TARGET = 2.2  # a run that measures forward transfer over one that does not
PAPER_BENCH = "permuted_mnist"


def made(name: str, bench: Benchmark) -> Method:
    entry, streams = METHODS[name], Streams(SEEDS, "init")
    return entry.make(make_net(bench.net, bench.input_shape), bench.heads, streams, entry.settings())


def run(name: str, bench: Benchmark, tasks: Sequence[Task], budget: Budget, transfer: bool = False) -> None:
    for _ in learn_tasks(made(name, bench), tasks, budget, SEEDS, transfer=transfer):
        pass


def steps_of(name: str, bench: Benchmark, task: Task, steps: int) -> Callable[[], object]:
    method, streams = made(name, bench), Streams(SEEDS, "train")
    method.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), streams)  # type: ignore[attr-defined]
    budget = Budget(steps * BATCH / task.nominal_size, BATCH)
    return lambda: fit(method, task, budget, streams)  # type: ignore[arg-type]


def method_rows(
    rounds: int, names: Sequence[str] = tuple(METHODS), examples: int = 2000, epochs: float = 20
) -> list[Row]:
    bench = some_tasks(2, examples, MLP)
    tasks, budget = bench.tasks(SEEDS), Budget(epochs, BATCH)
    steps = interleaved({name: steps_of(name, bench, tasks[0], 40) for name in ("claw", "vcl")}, rounds)
    rows = [Row("methods", "CLAW's step over VCL's", *ratio(steps["claw"], steps["vcl"]), target=CLAW_TARGET)]
    works = {name: partial(run, name, bench, tasks, budget) for name in dict.fromkeys(["vcl", *names])}
    seconds = interleaved(works, min(rounds, 3))
    for name in names:
        row = Row("methods", f"{name}, two tasks, over VCL", *ratio(seconds[name], seconds["vcl"]))
        rows.append(row._replace(paper=_paper(name)))
    return rows


def _paper(name: str) -> float | None:
    own, vcl = (paper.seconds(PAPER_BENCH, method) for method in (name, "vcl"))
    return own / vcl if own and vcl else None


def transfer_rows(rounds: int, count: int = 4, examples: int = 2000, epochs: float = 20) -> list[Row]:
    """A copy learns the last task before each but the last: T - 1 tasks besides T."""
    bench = some_tasks(count, examples, MLP)
    tasks, budget = bench.tasks(SEEDS), Budget(epochs, BATCH)
    works = {way: partial(run, "claw", bench, tasks, budget, way == "with") for way in ("with", "without")}
    seconds = interleaved(works, min(rounds, 4))
    found = ratio(seconds["with"], seconds["without"])
    return [Row("transfer", "a run that measures forward transfer over one without", *found, target=TRANSFER_TARGET)]
