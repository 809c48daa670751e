"""The task loop: Algorithm 1. Tasks arrive one at a time, and the posterior of one is the prior of the next."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pyroclaw.data.part import Task
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Budget, Method, Training
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Learned:
    """What is known once a task is learned."""

    index: int
    test: Tensor  # [tasks so far, R] accuracy
    validation: Tensor
    elbo: Tensor  # [steps] per example
    seconds: float  # of training
    parameters: int  # numbers it answers with, of one repetition
    stored_bytes: int  # what it keeps of all tasks so far to answer and to go on, of one repetition
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
        streams = partial(_streams, seeds, t, device)
        elbo = method.learn(t, task, Training(budget, streams, partial(on_step, t), stop))
        seconds = time.perf_counter() - began
        test, validation = (
            torch.stack([accuracy(method, k, part) for k, part in enumerate(parts)])
            for parts in ([seen.test for seen in tasks[: t + 1]], [seen.validation for seen in tasks[: t + 1]])
        )
        answering, besides = method.parameters().values(), method.memory().values()
        yield Learned(
            index=t,
            test=test,
            validation=validation,
            elbo=elbo,
            seconds=seconds,
            parameters=sum(tensor.numel() for tensor in answering) // len(seeds),
            stored_bytes=sum(tensor.nbytes for tensor in (*answering, *besides)) // len(seeds),
            summary=method.summary(),
        )


def _streams(seeds: Sequence[int], task: int, device: torch.device | str, purpose: str) -> Streams:
    return Streams(seeds, purpose, task, device=device)
