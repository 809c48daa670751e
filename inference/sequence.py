"""The task loop: Algorithm 1. Tasks arrive one at a time, and the posterior of one is the prior of the next."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pyroclaw.data.part import Task
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Method, TaskInfo
from pyroclaw.inference.svi import Budget, fit
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Learned:
    """What is known once a task is learned."""

    index: int
    test: Tensor  # [tasks so far, R] accuracy
    validation: Tensor
    elbo: Tensor  # [steps] per example
    seconds: float  # of training
    summary: dict


def learn_tasks(
    method: Method,
    tasks: Sequence[Task],
    budget: Budget,
    seeds: Sequence[int],
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int, Tensor], None] = lambda task, step, elbo: None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Learned]:
    """Learn the tasks in order; after each, test on it and all before it.

    Every task draws its randomness from streams of its own, so it depends on earlier ones through the posterior only.
    """
    for t, task in enumerate(tasks):
        began = time.perf_counter()
        method.begin_task(
            TaskInfo(t, task.name, task.classes, task.train.sizes), Streams(seeds, "begin", t, device=device)
        )
        train = Streams(seeds, "train", t, device=device)
        elbo = fit(method, task, budget, train, partial(on_step, t), stop)
        method.end_task(task.train, budget.batch_size, Streams(seeds, "end", t, device=device))
        seconds = time.perf_counter() - began
        test, validation = (
            torch.stack([accuracy(method, k, part) for k, part in enumerate(parts)])
            for parts in ([seen.test for seen in tasks[: t + 1]], [seen.validation for seen in tasks[: t + 1]])
        )
        yield Learned(t, test, validation, elbo, seconds, method.summary())
