"""A step that is no longer a number is not taken: training stops, and says at which site.

Losses and gradients are summed on the device, one number a tensor, since NaN and infinity survive any sum. A sum that
overflows although no entry did is no false alarm: Adam squares the entries, and its memory would be infinite for good.
The device itself decides whether a step is taken: fused Adam leaves parameters and its own memory alone where it is
told so, by the flag that was made for mixed precision. The flag stays up, so nothing moves after the first such step.

To look at the flag waits for the device. That is free on a CPU, where it is done before each step is taken. Elsewhere
it is done every so many steps, before a checkpoint and at the end; until then what is needed to name the site is kept.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyroclaw.inference.position import leaves

EVERY = 100  # steps between two looks, where these make the host wait
REMEDY = "the state before this step is kept: lower the learning rate, or look for extreme values in the data"


class Diverged(ArithmeticError):
    """The ELBO or a gradient is no longer a number."""


class Watched(NamedTuple):
    """What a step leaves behind until it is looked at."""

    step: int
    terms: dict[str, Tensor]  # the ELBO's summands by site
    trained: Sequence[Tensor]  # parameters with a gradient
    sums: Tensor  # of the replicates' losses, and of each gradient


class Guard:
    """Watches the steps of one task, on one device."""

    def __init__(self, pair: Any, task: str, device: torch.device) -> None:
        self.pair, self.task = pair, task
        self.every = 1 if device.type == "cpu" else EVERY
        self.fine = torch.ones((), dtype=torch.bool, device=device)
        self.watched: list[Watched] = []

    def watch(self, step: int, losses: Tensor, terms: Mapping[str, Tensor], trained: Sequence[Tensor]) -> Tensor:
        """Adam's `found_inf`, on the device: 1 if this step, or one before it, must not be taken, else 0."""
        gradients = [(one, one.grad) for one in trained if one.grad is not None]
        sums = torch.stack([losses.detach().sum(), *(gradient.sum() for _, gradient in gradients)])
        self.fine = self.fine & torch.isfinite(sums).all()
        terms = {name: term.detach() for name, term in terms.items()}
        self.watched.append(Watched(step, terms, [one for one, _ in gradients], sums))
        if len(self.watched) >= self.every:
            self.look()
        return (~self.fine).float()

    def look(self) -> None:
        """Wait for the device, and stop if a step since the last look was not taken."""
        if not self.fine:
            first = next(one for one in self.watched if not _finite(one.sums))
            raise Diverged(f"{self._what(first)}; {REMEDY}")
        self.watched.clear()

    def _what(self, bad: Watched) -> str:
        """The summand of the ELBO by its site, or the parameter by where the pair keeps it."""
        loss, *gradients = bad.sums.tolist()
        if not math.isfinite(loss):
            sites = [f"{name!r}" for name, term in bad.terms.items() if not _finite(term)] or ["their sum"]
            return f"the ELBO of task {self.task!r} is {-loss} in step {bad.step + 1}, by site {', '.join(sites)}"
        wrong = {id(one) for one, total in zip(bad.trained, gradients, strict=True) if not math.isfinite(total)}
        names = [f"{path!r}" for path, leaf in leaves(self.pair).items() if id(leaf) in wrong]
        return f"the gradient of {', '.join(names)} is not finite in step {bad.step + 1} of task {self.task!r}"


def _finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())
