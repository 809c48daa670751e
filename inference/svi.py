"""Stochastic variational inference on one task, for all replicates at once."""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import pyro
import torch
from torch import Tensor

from pyroclaw.data.part import Task
from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.average import Average
from pyroclaw.inference.elbo import AnalyticELBO, per_replicate
from pyroclaw.inference.guard import Diverged, Guard
from pyroclaw.inference.memory import release_memory
from pyroclaw.inference.method import Budget, Pair, Phase
from pyroclaw.inference.position import claim
from pyroclaw.streams import Streams

__all__ = ["Budget", "Diverged", "Interrupted", "fit", "order"]

BETAS = (0.9, 0.999)  # of Adam, as in the paper


class Interrupted(Exception):
    """The user asked to stop; the last step was finished."""


def order(sizes: Sequence[int], length: int, streams: Streams) -> Tensor:
    """Positions [R, length]: for each replicate one random pass over its sizes[r] examples after another.

    Batches are cut from this without regard to where a pass ends, so all have the same size.
    """
    rows = []
    for replicate, size in enumerate(sizes):
        passes = [streams.permutation(replicate, size) for _ in range(math.ceil(length / size))]
        rows.append(torch.cat(passes)[:length])
    return torch.stack(rows)


def fit(
    pair: Pair,
    task: Task,
    budget: Budget,
    streams: Streams,
    on_step: Callable[[int, Tensor], None] = lambda step, elbo: None,
    stop: Callable[[], bool] = lambda: False,
) -> Tensor:
    """Maximise the ELBO of (3) by Adam over the pair's phases; returns its trace [steps, R], per example.

    :param streams: batch order and activation noise of the task.
    :param on_step: called after each step with its number and ELBO (on the device: reading it waits for the step).
    :param stop: asked after each step; if it says so, :class:`Interrupted` is raised.
    """
    steps = budget.steps(task)
    positions = order(task.train.sizes, steps * budget.batch_size, streams)
    elbo, phases = AnalyticELBO(), pair.phases()
    trace: list[Tensor] = []
    guard = Guard(pair, task.name, streams.device)
    step, start, keeper, kept = 0, 0, claim(), None
    if keeper is not None:
        kept = keeper.begin(pair, streams, [one for phase in phases for one in _parameters(phase)])
        if kept is not None:
            step, trace = kept["step"], list(kept["trace"])
    for phase, end in zip(phases, _ends(phases, steps), strict=True):
        optimiser, trained = torch.optim.Adam(phase.groups, betas=BETAS, fused=True), _parameters(phase)
        share = budget.average if budget.average is not None and phase is phases[-1] else phase.average
        average, averaged = Average(trained), max(start, end - round(share * steps))
        if kept is not None and start < step < end:
            optimiser.load_state_dict(optimiser.state_dict() | {"state": kept["adam"]})
        if kept is not None and start < step <= end:  # after the last step too: what is kept is not settled
            average.restore(kept.get("average", average.state()))  # positions of earlier versions have none
        for parameter in trained:
            parameter.requires_grad_(True)
        while step < end:
            x, y = task.train.batch(positions[:, step * budget.batch_size : (step + 1) * budget.batch_size])
            # the first step is checked by Pyro, the others need not be: they differ in numbers only
            with pyro.validation_enabled(not trace), LocalReparameterisation(streams):
                terms = _terms(elbo, pair, x, y)
            losses = per_replicate(terms)
            for parameter in trained:
                parameter.grad = None
            losses.sum().backward()
            unfit = guard.watch(step, losses, terms, trained)
            # where every step is looked at, what gets here is fit, and fused Adam need not ask
            optimiser.found_inf = unfit if guard.every > 1 else None  # type: ignore[attr-defined]
            optimiser.step()
            pair.constrain()
            if step >= averaged:
                average.take()
            trace.append(-losses.detach())
            on_step(step, trace[-1].mean())
            step += 1
            release_memory(step)
            asked = stop()
            if keeper is not None and (asked or keeper.due()):
                guard.look()
                keeper.keep(step, trace, optimiser, average)
            if asked:
                raise Interrupted
        for parameter in trained:
            parameter.requires_grad_(False)
        average.settle()
        start = end
    guard.look()
    return torch.stack(trace)


def _terms(elbo: AnalyticELBO, pair: Pair, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Without Pyro's checks if these fail: where numbers are to blame, the guard says better which."""
    try:
        return elbo.terms(pair.model, pair.guide, x, y)
    except ValueError:
        with pyro.validation_enabled(False):
            terms = elbo.terms(pair.model, pair.guide, x, y)
        if torch.isfinite(per_replicate(terms)).all():
            raise
        return terms


def _parameters(phase: Phase) -> list[Tensor]:
    return [parameter for group in phase.groups for parameter in group["params"]]


def _ends(phases: Sequence[Phase], steps: int) -> list[int]:
    """The step at which each phase ends; the last one ends the task."""
    shares = accumulate(phase.share for phase in phases[:-1])
    return [*(round(share * steps) for share in shares), steps]
