"""The task loop: Algorithm 1. Tasks arrive one at a time, and the posterior of one is the prior of the next."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pyroclaw.data.part import Task
from pyroclaw.inference.calibration import calibration
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Budget, Method, Training, copied
from pyroclaw.inference.position import keeping
from pyroclaw.inference.resume import Resumable
from pyroclaw.streams import Streams

SAMPLED = 2000  # test examples of a task, at most, whose predictions are averaged over samples


@dataclass(frozen=True)
class Learned:
    """What is known once a task is learned."""

    index: int
    test: Tensor  # [tasks so far, R] accuracy
    validation: Tensor
    elbo: Tensor  # [steps, R] per example
    seconds: float  # of training
    parameters: int  # numbers it answers with, of one repetition
    stored_bytes: int  # what it keeps of all tasks so far to answer and to go on, of one repetition
    summary: dict
    calibration: dict[
        str, Tensor
    ]  # by prediction, "mean weights" or "samples": NLL, Brier and ECE [3, tasks so far, R]
    transfer: Tensor | None  # [R] accuracy of the last of all tasks if it had come in place of this one


def learn_tasks(
    method: Method,
    tasks: Sequence[Task],
    budget: Budget,
    seeds: Sequence[int],
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int, Tensor], None] = lambda task, step, elbo: None,
    stop: Callable[[], bool] = lambda: False,
    samples: int = 0,
    transfer: bool = False,
    resumable: Resumable | None = None,
    done: Sequence[Learned] = (),
) -> Iterator[Learned]:
    """Learn the tasks in order; after each, test on it and all before it.

    Every task draws its randomness from streams of its own, so it depends on earlier ones through the posterior only.

    :param samples: of the posterior, for the calibration of averaged predictions; 0 leaves it out.
    :param transfer: measure forward transfer: before each task, a copy learns the last task instead. That costs about
        as much again as the run itself, where starting anew for each number of earlier tasks would cost T/2 times.
    :param resumable: where checkpoints are kept, after each task and inside it.
    :param done: what the method has learned already, as :meth:`Resumable.load` gave it.
    """
    so_far = list(done)
    for t, task in enumerate(tasks):
        if t < len(done):
            continue
        keeper = resumable.position(t) if resumable else None
        transferred = _transfer(method, t, tasks, budget, seeds, device, stop) if transfer else None
        began = time.perf_counter()
        streams = partial(_streams, seeds, t, device)
        with keeping(keeper):
            elbo = method.learn(t, task, Training(budget, streams, partial(on_step, t), stop))
        seconds = time.perf_counter() - began + (keeper.seconds if keeper else 0.0)
        test, validation = (
            torch.stack([accuracy(method, k, part) for k, part in enumerate(parts)])
            for parts in ([seen.test for seen in tasks[: t + 1]], [seen.validation for seen in tasks[: t + 1]])
        )
        answering, besides = method.parameters().values(), method.memory().values()
        learned = Learned(
            index=t,
            test=test,
            validation=validation,
            elbo=elbo,
            seconds=seconds,
            parameters=sum(tensor.numel() for tensor in answering) // len(seeds),
            stored_bytes=sum(tensor.nbytes for tensor in (*answering, *besides)) // len(seeds),
            summary=method.summary(),
            calibration=_calibration(method, tasks[: t + 1], seeds, device, samples),
            transfer=test[-1] if transfer and t == len(tasks) - 1 else transferred,
        )
        yield learned
        so_far.append(learned)
        if resumable:
            resumable.save(method, so_far)


def _transfer(method, t: int, tasks, budget, seeds, device, stop) -> Tensor | None:
    """Accuracy of the last task, learned by a copy of what knows t others; None where it is the task at hand itself."""
    last = len(tasks) - 1
    if t == last:
        return None
    twin = copied(method)
    twin.learn(t, tasks[last], Training(budget, partial(_streams, seeds, last, device), stop=stop))
    return accuracy(twin, t, tasks[last].test)


def _calibration(method, seen: Sequence[Task], seeds, device, samples: int) -> dict[str, Tensor]:
    found = {"mean weights": [calibration(method, k, task.test) for k, task in enumerate(seen)]}
    if samples:
        noise = Streams(seeds, "calibration", len(seen), device=device)
        found["samples"] = [calibration(method, k, one.test, samples, noise, SAMPLED) for k, one in enumerate(seen)]
    return {name: torch.stack([torch.stack(one) for one in tasks], dim=1) for name, tasks in found.items()}


def _streams(seeds: Sequence[int], task: int, device: torch.device | str, purpose: str) -> Streams:
    return Streams(seeds, purpose, task, device=device)
