"""One training step: Pyro's against bare torch, many replicates against one, and against what the machine can do."""

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch.utils.flop_counter import FlopCounterMode

from pyroclaw.data.benchmark import Benchmark, NetPreset
from pyroclaw.data.part import Task
from pyroclaw.experiments.bench_bare import bare_step, plain_step
from pyroclaw.experiments.bench_data import Options as Feeding
from pyroclaw.experiments.bench_data import feeding
from pyroclaw.experiments.bench_timing import Row, gemm_peak, interleaved, ratio, some_tasks
from pyroclaw.inference.method import TaskInfo, Training
from pyroclaw.inference.svi import Budget, fit, order
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.products import ONEDNN
from pyroclaw.streams import Streams

MLP = NetPreset("mlp", hidden=(100, 100))  # of permuted MNIST
CNN = NetPreset("cnn", filters=64, blocks=4)  # of CIFAR-100
BATCH = 256
TARGETS = {1: 1.25, 10: 1.10}  # Pyro's step over bare torch, by replicates
UNKNOWN = {ONEDNN: lambda x, weight, *_, **__: 2 * math.prod(x) * weight[0]} if ONEDNN else {}  # to torch's counter
PLATE_TARGET = 6.0  # ten replicates in one plate over one alone


def begun(bench: Benchmark, replicates: int, index: int) -> tuple[Claw, Task]:
    """CLAW about to train on the first task (log-scale prior) or the second (Kronecker prior)."""
    seeds = list(range(replicates))
    tasks, streams = bench.tasks(seeds), Streams(seeds, "bench")
    claw = Claw(make_net(bench.net, bench.input_shape), bench.heads, streams, Settings(warm=0.0))
    for t in range(index):
        claw.learn(t, tasks[t], Training(Budget(0.01, BATCH), lambda purpose: Streams(seeds, purpose)))
    claw.begin_task(TaskInfo(index, tasks[index].name, tasks[index].classes, tasks[index].train.sizes), streams)
    return claw, tasks[index]


def training(claw: Claw, task: Task, steps: int) -> Callable[[], object]:
    """So many of CLAW's steps, by the package's own loop."""
    streams, budget = Streams(range(claw.replicates), "train"), Budget(steps * BATCH / task.nominal_size, BATCH)
    return lambda: fit(claw, task, budget, streams)


def hand_written(claw: Claw, task: Task, steps: int) -> dict[str, Callable[[], object]]:
    """As many steps of bare torch, and of plain SGD on the same net, by copies."""
    streams, twin = Streams(range(claw.replicates), "train"), deepcopy(claw)
    positions = order(task.train.sizes, steps * BATCH, streams).split(BATCH, dim=1)
    bare, plain = bare_step(twin, task, streams), plain_step(twin, task)
    return {
        "bare": lambda: [bare(batch) for batch in positions],
        "plain": lambda: [plain(batch) for batch in positions],
    }


def step_rows(rounds: int, steps: int = 40) -> list[Row]:
    rows, bench = [], some_tasks(2, 4000, MLP)
    for replicates in (1, 10):
        for index, prior in enumerate(("log-scale prior", "Kronecker prior")):
            claw, task = begun(bench, replicates, index)
            own = max(steps // replicates, 5)
            seconds = interleaved({"pyro": training(claw, task, own), **hand_written(claw, task, own)}, rounds)
            name = f"{replicates} replicate{'s' * (replicates > 1)}, {prior}"
            over_bare, over_plain = (ratio(seconds["pyro"], seconds[other]) for other in ("bare", "plain"))
            rows.append(Row("step", f"Pyro over bare torch, {name}", *over_bare, target=TARGETS[replicates]))
            rows.append(Row("step", f"CLAW over plain SGD, {name}", *over_plain))
    return rows


def plate_rows(rounds: int, steps: int = 8) -> list[Row]:
    bench = some_tasks(1, 4000, MLP)
    (one, task), (ten, tasks) = begun(bench, 1, 0), begun(bench, 10, 0)
    seconds = interleaved({"one": training(one, task, steps), "ten": training(ten, tasks, steps)}, rounds)
    found = value, low, high = ratio(seconds["ten"], seconds["one"])
    return [
        Row("plate", "ten replicates in one plate over one alone", *found, target=PLATE_TARGET),
        Row("plate", "ten replicates in one plate over ten runs", value / 10, low / 10, high / 10),
    ]


def peak_rows(rounds: int) -> list[Row]:
    """Operations of a step's products of matrices and convolutions, over its time, as a share of the measured peak."""
    peak = gemm_peak()
    rows = [Row("peak", "fastest product of matrices", peak / 1e9, peak / 1e9, peak / 1e9, unit=" GFLOP/s")]
    pictures = some_tasks(1, 1000, CNN, (32, 32, 3))
    cases = {"MLP, 1 replicate": (some_tasks(1, 4000, MLP), 1, 20), "CNN, 1 replicate": (pictures, 1, 1)}
    cases["MLP, 10 replicates"] = (some_tasks(1, 4000, MLP), 10, 4)
    for name, (bench, replicates, steps) in cases.items():
        claw, task = begun(bench, replicates, 0)
        work = training(claw, task, steps)
        with FlopCounterMode(display=False, custom_mapping=UNKNOWN) as counter:
            work()
        shares = [counter.get_total_flops() / own / peak for own in interleaved({"step": work}, rounds)["step"]]
        rows.append(Row("peak", f"CLAW's step, {name}", *ratio(shares, [0.01] * len(shares)), unit=" %"))
    return rows


def data_rows(rounds: int) -> list[Row]:
    """Feeding, as a share of a step."""
    bench, rows = some_tasks(1, 4000, MLP), []
    for replicates in (1, 10):
        options = Feeding(replicates=replicates, rounds=rounds, threads=torch.get_num_threads())
        shares = [100 * batch / step for batch, step in (feeding(bench, options) for _ in range(3))]
        name = f"share of a step, {replicates} replicate{'s' * (replicates > 1)}"
        rows.append(Row("data", name, *ratio(shares, [1.0] * len(shares)), unit=" %"))
    return rows
