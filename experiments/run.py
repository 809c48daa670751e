"""Learn the tasks of a benchmark one after the other, and say what is remembered.

python experiments/run.py --bench split_notmnist
"""

import dataclasses
import shlex
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import tyro
from rich.console import Console

from pyroclaw import metrics
from pyroclaw.data import benchmarks
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments import presets
from pyroclaw.experiments.console import View, report
from pyroclaw.experiments.figure import draw
from pyroclaw.experiments.records import Results
from pyroclaw.inference.memory import keep_freed_memory
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.inference.svi import Budget, Diverged, Interrupted
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

INTERRUPTED, FAILED = 130, 2


@dataclass(frozen=True)
class Options:
    """Learn the tasks of a benchmark one after the other, and say what is remembered."""

    bench: str = "split_notmnist"
    """Benchmark: permuted_mnist, split_mnist, split_notmnist, split_fashion, omniglot or cifar100."""
    method: Annotated[str, tyro.conf.arg(help=f"Method: {', '.join(METHODS)}; 'list' explains them.")] = "claw"
    replicates: int | None = None
    """Repetitions of the protocol, each with its own split, initialisation and noise; if not given, the preset's 10."""
    seed: int = 0
    """Seed of the first repetition; the others follow it."""
    epochs: float | None = None
    """Passes over each task's training data; if not given, the paper's number."""
    batch_size: int | None = None
    """Examples a step; if not given, the paper's number."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto takes a GPU if there is one."""
    data_dir: Path | None = None
    """Folder with data sets; if not given, PYROCLAW_DATA, else the user's cache."""
    data: Literal["auto", "real"] = "auto"
    """Whether a stand-in may take the place of a data set that cannot be found."""
    split: Literal["image", "font"] = "image"
    """Split notMNIST at random, or so that no font is in two parts."""
    augment: bool = True
    """Omniglot's 20-fold rotations and shifts."""
    out: Path = Path("runs")
    """Folder for the records of runs."""
    samples: int = 10
    """Samples of the posterior, for the calibration of averaged predictions; 0 leaves it out."""
    transfer: bool = False
    """Measure forward transfer too: the last task's accuracy after each number of others. Doubles the time."""
    threads: int | None = None
    """CPU threads; if not given, all cores."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = field(default=())
    """Change a setting of the method, as NAME=VALUE; may be repeated."""
    adapt: bool = False
    """With rcl: each task also learns a gain of each existing neuron, so that fewer units need be added."""
    quiet: bool = False
    """Print the final report only."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="pyroclaw")
    console = Console()
    if options.method == "list":
        for name, entry in METHODS.items():
            console.print(f"{name:<14} {entry.about}", highlight=False, soft_wrap=True)
        return 0
    try:
        return run(options, console)
    except (InputError, Diverged) as error:
        print(f"pyroclaw: {error}", file=sys.stderr)
        return FAILED


def run(options: Options, console: Console) -> int:
    """The whole job: data, method, task loop, record, report."""
    bench_name = choose("benchmark", options.bench, benchmarks.KNOWN)
    entry = METHODS[choose("method", options.method, METHODS)]
    preset = presets.preset(bench_name)
    if options.adapt and options.method != "rcl":
        raise InputError(f"--adapt is for --method rcl, which has none by itself: leave it out with {options.method}")
    changes = (*options.set, "adapt=true") if options.adapt else options.set
    settings = presets.settings(entry.settings, preset.get(options.method, {}), changes)
    device = _device(options.device)
    _check_positive(options)
    if device.type == "cpu":
        keep_freed_memory()
    if options.threads:
        torch.set_num_threads(options.threads)
    with View(console, options.quiet) as view, _sigint() as stop:
        bench = benchmarks.make(
            bench_name, options.data_dir, options.data, augment=options.augment, split=options.split, log=view.say
        )
        budget = Budget(float(options.epochs or bench.epochs), options.batch_size or bench.batch_size)
        seeds = [options.seed + k for k in range(options.replicates or preset.get("replicates", 10))]
        config = {
            "bench": bench.title,
            "protocol": bench.name,
            "method": options.method,
            "settings": dataclasses.asdict(settings),
            "data_source": bench.source,
            "data": bench.digest(),
            "stand_in": bench.standin,
            "split": options.split,
            "augment": options.augment,
            "epochs": budget.epochs,
            "batch_size": budget.batch_size,
            "net": dataclasses.asdict(bench.net),
            "heads": bench.heads,
            "device": str(device),
            "threads": torch.get_num_threads(),
        }
        usual = presets.settings(entry.settings, preset.get(options.method, {}))
        protocol = {"epochs": bench.epochs, "batch_size": bench.batch_size, "split": "image", "augment": True}
        setting = presets.setting_name(settings, usual, protocol, {key: config[key] for key in protocol})
        results = Results(options.out, setting, config, bench.task_count)
        try:
            measures = {"samples": options.samples, "transfer": options.transfer}
            names = _learn(bench, entry, settings, budget, seeds, device, view, results, stop, measures)
        except Interrupted:
            return _interrupted(results, options)
    summary = results.summary()
    matrix = metrics.accuracy_matrix([np.array(row) for row in summary["test_accuracy"]])
    title = f"{options.method} on {bench.title}" + (f" ({bench.source})" if bench.standin else "")
    draw(results.folder / "figure.png", title, matrix, summary["elbo"], names)
    report(console, summary, matrix, names, str(results.folder))
    return 0


def _learn(bench, entry, settings, budget, seeds, device, view: View, results: Results, stop, measures) -> list[str]:
    """Every plate of repetitions through all tasks; the names of the tasks."""
    one_by_one = entry.one_by_one
    if device.type == "cpu" and bench.net.kind == "cnn":
        # a core is busy with one replicate's convolutions: two in a plate take longer than one after the other
        one_by_one = True
    plates = [[seed] for seed in seeds] if one_by_one else bench.plates(seeds)
    names = [f"task {t + 1}" for t in range(bench.task_count)]
    for number, plate in enumerate(plates):
        tasks = bench.tasks(plate, device)
        net, streams = make_net(bench.net, bench.input_shape), Streams(plate, "init", device=device)
        method = entry.make(net, bench.heads, streams, settings)
        if number == 0:
            efforts = [method.effort(index) * budget.steps(task) for index, task in enumerate(tasks)]
            view.begin(len(plates) * round(sum(efforts)))
        if len(plates) == 1 or bench.recipe.shuffle == "nothing":
            names = [task.name for task in tasks]
        results.begin_plate(plate)
        learning = learn_tasks(method, tasks, budget, plate, device, partial(view.step, names), stop, **measures)
        for learned in learning:
            results.add(learned)
            view.learned(names[learned.index], learned.test.cpu().numpy())
    return names


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch finds no CUDA device; use --device auto or cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def _check_positive(options: Options) -> None:
    for name in ("replicates", "epochs", "batch_size", "threads"):
        value = getattr(options, name)
        if value is not None and value <= 0:
            raise InputError(f"--{name.replace('_', '-')} is {value}, but must be above 0")
    for name in ("seed", "samples"):
        if getattr(options, name) < 0:
            raise InputError(f"--{name} is {getattr(options, name)}, but must be 0 or above")


@contextmanager
def _sigint():
    """Turn SIGINT into a question that is answered between two steps."""
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted(results: Results, options: Options) -> int:
    done = sum(len(tasks) for _, tasks in results.plates)
    print(
        f"pyroclaw: interrupted; {done} finished tasks are kept in {results.folder}; to run it again from the start: "
        f"{shlex.join(['pyroclaw', *sys.argv[1:]])}",
        file=sys.stderr,
    )
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
