"""What the paper reports (its tables 1 and 2, kept in ``paper.toml``), to set beside our own figures of its protocol.

Benchmarks and methods go by our names; whatever the paper has no figure for is None.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyroclaw.data.benchmarks import PROTOCOLS

FILE = Path(__file__).parent / "paper.toml"
REPETITIONS = 10  # of each experiment


@cache
def tables() -> dict[str, dict[str, dict[str, Any]]]:
    """By benchmark, then by method: `before_last`, `last` and `seconds`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def accuracy(bench: str, method: str) -> tuple[float, float] | None:
    """Average test accuracy of all tasks after the last one, in %, and its standard error.

    >>> accuracy("split_mnist", "claw")
    (99.1, 0.2)
    """
    return _pair(bench, method, "last")


def accuracy_before_last(bench: str, method: str) -> tuple[float, float] | None:
    """The same after the last task but one."""
    return _pair(bench, method, "before_last")


def seconds(bench: str, method: str) -> float | None:
    """Wall-clock time to train all tasks."""
    time = _cell(bench, method, "seconds")
    return None if time is None else float(time)


def another_protocol(config: Mapping[str, Any]) -> str:
    """What a run did in another way than the paper, in words; a benchmark of one's own has no protocol but its tasks.

    >>> another_protocol({"protocol": "cifar100", "tasks": 5, "epochs": 3.0, "batch_size": 256})
    'first 5 tasks, 3 epochs'
    """
    usual, words = PROTOCOLS.get(config["protocol"]), []
    if "tasks" in config:
        words.append(f"first {config['tasks']} task{'s' * (config['tasks'] != 1)}")
    if usual and config["epochs"] != usual.epochs:
        words.append(f"{config['epochs']:g} epoch{'s' * (config['epochs'] != 1)}")
    if usual and config["batch_size"] != usual.batch_size:
        words.append(f"batches of {config['batch_size']}")
    if "averaged" in config:
        words.append(f"mean of the last {config['averaged']:.0%} of steps")
    if "precision" in config:
        words.append(f"convolutions in {config['precision']}")
    if config.get("split", "image") != "image":
        words.append(f"split by {config['split']}")
    if not config.get("augment", True):
        words.append("no augmentation")
    return ", ".join(words)


def _pair(bench: str, method: str, when: str) -> tuple[float, float] | None:
    pair = _cell(bench, method, when)
    return None if pair is None else (pair[0], pair[1])


def _cell(bench: str, method: str, what: str) -> Any:
    return tables().get(bench, {}).get(method, {}).get(what)
